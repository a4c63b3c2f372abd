"""What a purchase earns: WebShop's formula, and how goals are drawn."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import NamedTuple

import pytest

from ors_server_tasks.webshop import nouns
from ors_server_tasks.webshop.catalogue import open_catalogue
from ors_server_tasks.webshop.goals import NO_LIMIT, draw_limit, draw_price
from ors_server_tasks.webshop.nouns import find_by_rule, noun_finder
from ors_server_tasks.webshop.oracle import find_actions
from ors_server_tasks.webshop.product import Product
from ors_server_tasks.webshop.purchase_reward import is_chosen, score_purchase
from ors_server_tasks.webshop.shop_session import ShopSession
from tests.fixtures.shop_chance import make_rng


def product(**changes):
    values = {
        "asin": "B000000001",
        "name": "Lamp",
        "description": "",
        "bullets": (),
        "prices": (35.0,),
        "options": {},
        "category": "c",
        "query": "q",
        "product_category": "a \u203a b \u203a c",
        "attributes": ("bright",),
    }
    return Product(**{**values, **changes})


@pytest.mark.parametrize(
    ("path", "is_same"),
    [("b \u203a c \u203a a", True), ("a \u203a a \u203a d", False), ("a \u203a d \u203a b", True)],
)
def test_two_shared_categories_make_one_type(path, is_same, make_goal):
    _, info = score_purchase(product(query="other", product_category=path), make_goal(), 35.0, {})
    assert (info["query_match"], info["category_match"]) == (False, is_same)


CORD = "Saireed UL Listed 2 Prong Power Cord for JBL Bar 3.1 Bar 2.1 Channel 4K Ultra HD Soundbar"
OTHER_CORD = (
    "BRST AC Power Cord Outlet Socket Cable Plug Lead for Panasonic SC-HT830V DVD/VCR Combo Home Theater "
    "System"
)
KNOB = "Rusticware 921ORB Kitchen and Bath Cabinet Knob"
TWEEZERS = (
    "Minkissy 2pcs Stainless Steel Eyebrow Tweezers Blackhead Remover Portable Makeup Tweezers (Silver)"
)


@pytest.mark.parametrize(
    ("bought", "wanted", "share", "r_type"),
    [
        (OTHER_CORD, CORD + " Home Theater System Subwoofer", 5 / 18, 1.0),
        (OTHER_CORD, CORD, 2 / 14, 0.5),
        (TWEEZERS, KNOB, 0.0, 0.0),
        ("One Lamp", "a b " * 10 + "Lamp c d e f g h i j k l m", None, 0.1),
        ("x", "2 4", 0.2, 0.5),
    ],
)
def test_the_type_counts_by_the_share_of_nouns_that_both_names_have(bought, wanted, share, r_type, make_goal):
    other = product(name=bought, query="other", product_category="x")
    _, info = score_purchase(other, make_goal(name=wanted), 35.0, {})
    assert info["r_type"] == r_type
    if share is not None:
        assert info["title_score"] == pytest.approx(share)


def test_attributes_count_by_likeness_or_in_the_texts(make_goal):
    wanted = ("tea tree", "essential oils", "natural ingredients")
    sold = product(
        attributes=("essential oil",), bullets=("Natural ingredients inside",), description="TEA tree"
    )
    assert score_purchase(sold, make_goal(attributes=wanted), 35.0, {})[1]["r_att"] == 1.0
    sold = product(attributes=("tea bag", "lipton"), name="English tea for breakfast Lamp")
    assert score_purchase(sold, make_goal(attributes=wanted), 35.0, {})[1]["r_att"] == 0.0


def test_options_count_by_likeness_and_by_their_first_colour(make_goal):
    assert is_chosen("cool powder snow", ["powder snow"])
    assert is_chosen("light blue", ["navy blue"])  # `blue` stands before `light` and `navy`
    assert not is_chosen("8 ounce", ["12 ounce"])
    goal = make_goal(goal_options=("red", "10 ft"))
    chosen = {"color": "red", "size": "6 ft"}
    reward, info = score_purchase(product(), goal, 35.0, chosen)
    assert (reward, info["r_option"], info["w_option"]) == (0.75, 0.5, 0.5)
    named = make_goal(goal_options={"color": "grey", "size": "10 ft"})
    assert score_purchase(product(), named, 35.0, {"color": "grey", "size": "10 ft"})[0] == 1.0


def test_a_price_above_the_limit_costs_its_part(make_goal):
    assert score_purchase(product(), make_goal(), 40.0, {})[0] == 1.0
    assert score_purchase(product(), make_goal(), 40.01, {})[0] == 0.5


def test_the_rule_takes_every_word_with_a_letter_that_is_no_function_word():
    assert find_by_rule("D.O.N. Issue 2 - Off White, 4K (Silver) for Men") == (
        *("d.o.n", "issue", "white", "4k", "silver", "men"),
    )
    assert noun_finder() in ("rule", "en_core_web_sm")


class Token(NamedTuple):
    text: str
    pos_: str


def test_spacy_s_model_finds_nouns_where_it_is_installed(monkeypatch):
    for name in ("spacy", nouns.MODEL):
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        monkeypatch.setitem(sys.modules, name, module)
    parts = {"Red": "ADJ", "Lamp": "NOUN", "Acme": "PROPN"}
    load = lambda model: lambda text: [Token(word, parts[word]) for word in text.split()]  # noqa: E731
    monkeypatch.setattr(sys.modules["spacy"], "load", load, raising=False)
    nouns._finder.cache_clear()
    try:
        assert noun_finder() == "en_core_web_sm"
        assert nouns.find_nouns.__wrapped__("Red Acme Lamp") == ("acme", "lamp")
    finally:
        nouns._finder.cache_clear()


def test_prices_and_limits_are_drawn_as_webshop_draws_them():
    rng, again = make_rng(9), make_rng(9)
    ranged = product(prices=(10.0, 20.0))
    assert draw_price(ranged, rng) == again.uniform(10.0, 20.0)
    assert draw_limit(35.0, rng) == max(again.sample([40.0, 50.0, 60.0, 70.0], 2))
    assert draw_price(product(), rng) == 35.0
    assert [draw_limit(price, make_rng(0)) for price in (980.0, 990.0, 5000.0)] == [
        NO_LIMIT,
        NO_LIMIT,
        NO_LIMIT,
    ]


def test_goals_are_shuffled_as_webshop_shuffles_them(catalogue):
    assert len(catalogue.goals) == 928
    places = list(range(928))
    make_rng(233).shuffle(places)
    assert [catalogue.goals.unshuffled(index) for index in range(928)] == places


def test_goals_by_people_have_the_words_of_their_instruction(catalogue, read_data):
    rows = read_data("webshop_catalogue/items_human_ins.json")
    for task_id in range(0, 928, 97):
        goal = catalogue.goal(task_id)
        row = next(
            row for row in rows[goal.asin] if goal.instruction_text.startswith(row["instruction"].strip("."))
        )
        assert goal.attributes == tuple(row["instruction_attributes"])
        assert goal.goal_options == tuple(row["instruction_options"])
        assert goal.instruction_text.endswith(f", and price lower than {goal.price_upper:.2f} dollars")


def test_synthetic_goals_are_every_combination_of_options(read_data, catalogue):
    table = open_catalogue(str(catalogue._files.products.parent), "synthetic")
    first = [table.goal(task_id) for task_id in range(3)]
    assert [goal.goal_options for goal in first] == [
        {"color": "black", "size": size} for size in ("3 ft", "6 ft", "10 ft")
    ]
    assert first[0].instruction_text.startswith(
        "Find me heavy duty and ul listed power cords with color: black, and size: 3 ft"
    )
    assert len({goal.price_upper for goal in first}) == 1
    assert 0.0 < first[0].weight < 1.0
    visit = ShopSession(table, first[2], 0)
    for action in find_actions(table, first[2]):
        _, reward, is_done = visit.act(action)
    assert (reward, is_done) == (1.0, True)


@pytest.mark.parametrize("step", [61])
def test_the_actions_of_the_oracle_earn_everything_on_both_catalogues(catalogue, invented, step):
    for shop in (catalogue, invented):
        for task_id in range(0, len(shop.goals), step):
            visit = ShopSession(shop, shop.goal(task_id), 0)
            for action in find_actions(shop, visit.goal):
                _, reward, is_done = visit.act(action)
            assert (reward, is_done) == (1.0, True), visit.goal
