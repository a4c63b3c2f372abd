"""The shop's search: the words of a text, their stems, and Lucene's order."""

import numpy as np
import pytest

from ors_server_tasks.webshop import ranking
from ors_server_tasks.webshop.analysis import analyse, split_words
from ors_server_tasks.webshop.arrays import MappedArray
from ors_server_tasks.webshop.catalogue import open_catalogue
from ors_server_tasks.webshop.catalogue_build import build_catalogue
from ors_server_tasks.webshop.data_folder import find_files
from ors_server_tasks.webshop.invented import write_invented
from ors_server_tasks.webshop.inverted import InvertedIndex
from ors_server_tasks.webshop.json_reading import CatalogueError
from ors_server_tasks.webshop.porter import stem
from ors_server_tasks.webshop.ranking import Ranking
from ors_server_tasks.webshop.similarity import ROUNDED_LENGTHS, invert_lengths, length_code, weight_of
from tests.fixtures.shop_chance import make_rng
from tests.unit.tasks.webshop.conftest import DATA


def test_the_searched_texts_are_those_that_were_indexed(catalogue, read_data):
    recorded = {row["id"]: row["contents"] for row in read_data("webshop_search.json")["docs"]}
    products = [catalogue.product(number) for number in range(len(catalogue))]
    assert {product.asin: product.searched_text for product in products} == recorded


def test_every_recorded_query_finds_lucene_s_products_in_lucene_s_order(catalogue, read_data):
    recorded = read_data("webshop_search.json")
    assert len(recorded["queries"]) >= 180
    for query, hits in zip(recorded["queries"], recorded["lucene"], strict=True):
        found = [catalogue.product(number).asin for number in catalogue.search(query, make_rng(0))]
        assert found == [asin for asin, _ in hits], query


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("can't 3.5 in. a.b, 1,000.5 x_y __ _z", ["can't", "3.5", "in", "a.b", "1,000.5", "x_y", "_z"]),
        ("t-shirt usb-c c++ AT&T 8x10", ["t", "shirt", "usb", "c", "c", "AT", "T", "8x10"]),
        (
            "key:value key: value 12:30 a..b 3..4",
            ["key:value", "key", "value", "12", "30", "a", "b", "3", "4"],
        ),
        ("naïve caf\u00e9\u2019s it\u2019s", ["naïve", "caf\u00e9\u2019s", "it\u2019s"]),
        ("e\u0301te\u0301 a\u00adb", ["e\u0301te\u0301", "a\u00adb"]),
        ("日本 ひら カタカナ 한국어", ["日", "本", "ひ", "ら", "カタカナ", "한국어"]),
        ("צה\"ל ד'", ['צה"ל', "ד'"]),
        ("ไทย x", ["ไทย", "x"]),
        ("brand® good™ ©2020", ["brand", "®", "good", "™", "©", "2020"]),
        ("☕ 👍🏽tea ☕️☕ ☕\ufe0e", ["☕", "👍🏽", "tea", "☕️", "☕", "☕"]),
        ("👩\u200d🍳pan 👩🏽\u200d🚀 ❤️\u200d🔥", ["👩\u200d🍳", "pan", "👩🏽\u200d🚀", "❤️\u200d🔥"]),
        ("🇩🇪🇫🇷 🇩 #️⃣ *⃣ 1️⃣ # *", ["🇩🇪", "🇫🇷", "#️⃣", "*⃣", "1️⃣"]),
        ("\u2139nfo \u2139\ufe0f ★ ☆ ✓ → ½ 5½", ["\u2139nfo", "\u2139\ufe0f", "★", "5"]),
        ("\U0001f3f4\U000e0067\U000e0062\U000e007f x", ["\U0001f3f4\U000e0067\U000e0062\U000e007f", "x"]),
        ("\uff18\uff58 ﾃｽﾄ テスト_1 Ω≈ç — µm", ["\uff18\uff58", "ﾃｽﾄ", "テスト_1", "Ω", "ç", "µm"]),
        ("x" * 300, ["x" * 255, "x" * 45]),
    ],
)
def test_words_break_as_unicode_says_and_as_lucene_s_tokenizer_does(text, words):
    assert split_words(text) == words


def test_ascii_texts_break_alike_with_and_without_the_short_way():
    rng = make_rng(1)
    for _ in range(2000):
        text = "".join(rng.choices("ab1.,:;'_- \"", k=12))
        assert split_words(text) == [word for word in split_words(f"{text} é") if word != "é"], text


def test_terms_have_no_possessives_stop_words_or_endings():
    assert list(analyse("The Women's BOOTS are for hiking, and James\u2019 too")) == [
        *("women", "boot", "hike", "jame", "too")
    ]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        *[("caresses", "caress"), ("ponies", "poni"), ("cats", "cat"), ("feed", "feed"), ("agreed", "agre")],
        *[("plastered", "plaster"), ("motoring", "motor"), ("sing", "sing"), ("conflated", "conflat")],
        *[("sized", "size"), ("hopping", "hop"), ("falling", "fall"), ("filing", "file"), ("happy", "happi")],
        *[
            ("relational", "relat"),
            ("rational", "ration"),
            ("possibly", "possibl"),
            ("archaeology", "archaeolog"),
        ],
        *[("triplicate", "triplic"), ("electrical", "electr"), ("goodness", "good"), ("adoption", "adopt")],
        *[("communism", "commun"), ("probate", "probat"), ("rate", "rate"), ("controlling", "control")],
        *[("is", "is"), ("8oz", "8oz"), ("sky", "sky"), ("yes", "ye"), ("replacement", "replac")],
    ],
)
def test_stems_are_porter_s(word, expected):
    assert stem(word) == expected


def test_lengths_fit_into_a_byte_as_lucene_s_do():
    assert [
        int(ROUNDED_LENGTHS[length_code(length)]) for length in (0, 1, 39, 40, 41, 42, 60, 100, 1000)
    ] == [*(0, 1, 39, 40, 40, 42, 60, 96, 984)]
    assert length_code(2**31 - 1) == 255


def plain_order(folder, products: int, average: float, lengths: str, query: str) -> list[int]:
    """The order by adding every term for every product, without any shortcut."""
    index = InvertedIndex(folder, "terms")
    counts = MappedArray(folder / "terms.counts", "<u4").values.reshape(-1, 2)
    long = MappedArray(folder / "products.lengths", "<u4").values.astype(np.float32)
    if lengths == "lucene":
        long = ROUNDED_LENGTHS[[length_code(int(one)) for one in long]]
    inverse = invert_lengths(long, average)
    scores = np.zeros(products)
    for term in dict.fromkeys(analyse(query)):
        place = index.keys.find(term)
        if place is not None:
            repeats = list(analyse(query)).count(term)
            weight = weight_of(repeats, products, index.count(place))
            numbers, frequencies = index.numbers(place), counts[index.codes(place), 0].astype(np.float32)
            scores[numbers] += weight - weight / (1 + frequencies * inverse[numbers])
    ranks = MappedArray(folder / "asins.ranks", "<u4").values
    best = np.lexsort((ranks, -scores.astype(np.float32)))[:50]
    return [int(number) for number in best if scores[number] > 0]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("catalogue")
    build_catalogue(find_files(write_invented(folder / "files", 1200)), folder / "built")
    return folder / "built"


@pytest.mark.parametrize("lengths", ["lucene", "exact"])
@pytest.mark.parametrize("blocks", [60, 400, 2048])
def test_what_is_left_out_of_a_search_changes_nothing(built, monkeypatch, blocks, lengths):
    monkeypatch.setattr(ranking, "_BLOCKS", blocks)
    found = Ranking(built, 1200, 50.0, lengths)
    rng = make_rng(3)
    words = [
        "black",
        "cable",
        "pack",
        "of",
        "2",
        "soft",
        "and",
        "for",
        "travel",
        "salt",
        "easy",
        "clean",
        "it",
        "light",
    ]
    for _ in range(60):
        query = " ".join(rng.choices(words, k=rng.randint(1, 9)))
        assert found.find(query, 50) == plain_order(built, 1200, 50.0, lengths, query), query


def test_the_exact_lengths_order_other_products_than_the_rounded_ones(catalogue):
    exact = open_catalogue(str(DATA / "webshop_catalogue"), "human", "exact")
    query = "hollowell premium coffee table solid wood"
    orders = [shop.search(query, make_rng(0)) for shop in (catalogue, exact)]
    assert orders[0] != orders[1]
    assert set(orders[0][:5]) & set(orders[1][:5])


def test_a_word_that_a_product_repeats_a_thousand_times_counts_as_often(write_catalogue, make_product):
    many = [make_product(asin=f"B00000000{place}", name="lamp " * 300 * place) for place in (1, 2, 3)]
    shop = open_catalogue(str(write_catalogue(*many)), "human")
    assert {301, 601, 901} <= {int(one) for one in shop._ranking._payments._frequencies}


def test_an_index_has_space_for_so_many_pairs_only(write_catalogue, make_product, monkeypatch):
    monkeypatch.setattr("ors_server_tasks.webshop.catalogue_build._MAX_COUNTS", 1)
    with pytest.raises(CatalogueError, match="expected at most 1 different pairs of how often a word is in"):
        open_catalogue(str(write_catalogue(make_product(name="lamp lamp other"))), "human")


def test_a_query_without_a_known_word_finds_nothing(catalogue):
    assert [catalogue.search(query, make_rng(0)) for query in ("", " ", "the of", "zzzz", "?!")] == [[]] * 5


def test_special_queries_list_products_in_the_order_of_the_catalogue(catalogue):
    def asked(query):
        return [catalogue.product(number) for number in catalogue.search(query, make_rng(5))]

    products = [catalogue.product(number) for number in range(len(catalogue))]
    assert asked("<a> heavy duty") == [one for one in products if "heavy duty" in one.attributes]
    assert asked("<c> beauty care") == [one for one in products if one.category == "beauty"]
    assert asked("<q> power cords") == [one for one in products if one.query == "power cords"]
    assert [asked(query) for query in ("<a> no such", "<a>", "<c>", "<q>")] == [[]] * 4
    drawn = catalogue.search("<r>", make_rng(5))
    assert len(set(drawn)) == 50
    assert drawn == catalogue.search("<r> whatever", make_rng(5)) != catalogue.search("<r>", make_rng(6))
