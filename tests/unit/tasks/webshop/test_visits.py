"""A visit to the shop: recorded episodes, pages, actions and saved states."""

import json

import pytest

from ors_server_tasks.webshop.catalogue import open_catalogue
from ors_server_tasks.webshop.goals import read_goal
from ors_server_tasks.webshop.pages import THANKS, Page
from ors_server_tasks.webshop.shop_session import ShopSession, parse_action
from tests.fixtures.shop_chance import make_rng
from tests.unit.tasks.webshop.conftest import DATA


def test_every_recorded_episode_is_played_alike_with_exact_lengths(read_data):
    catalogue = open_catalogue(str(DATA / "webshop_catalogue"), "human", "exact")
    episodes = read_data("webshop_transcripts.json")
    assert len(episodes) == 36
    for episode in episodes:
        goal = read_goal(episode["goal"])
        (_, start, _, _), (_, results, _, _), *steps = episode["trace"]
        visit = ShopSession(catalogue, goal, 0)
        assert visit.page.text == start
        # The record does not name the words of its searches.
        words = f"{goal.name.partition(',')[0]} {' '.join(goal.attributes)}"
        assert visit.act(f"search[{words}]") == (results, 0.0, False)
        for action, page, reward, is_done in steps:
            text = THANKS if is_done else page
            assert visit.act(action) == (text, reward, is_done), (goal, action)
            assert page.startswith(text)
        assert visit.score(goal)[1] == episode["info"]


def test_the_first_product_of_a_recorded_search_is_found_first_by_the_real_one(catalogue, read_data):
    for episode in read_data("webshop_transcripts.json"):
        goal = read_goal(episode["goal"])
        words = f"{goal.name.partition(',')[0]} {' '.join(goal.attributes)}".lower()
        found = [catalogue.product(number).asin for number in catalogue.search(words, make_rng(0))]
        assert goal.asin in found[:10]


@pytest.mark.parametrize(
    ("action", "parsed"),
    [
        ("search[Red Lamp]", ("search", "red lamp")),
        ("click[a[b]]", ("click[a", "b]")),
        ("search[x] please", ("search", "x")),
        ("search[]", None),
        ("search", None),
        ("", None),
        ("[x]", None),
        ("a[b][c]", ("a[b]", "c")),
        ("search[a\nb]", None),
    ],
)
def test_an_action_is_a_name_and_what_stands_in_its_brackets(action, parsed):
    assert parse_action(action) == parsed


def test_pages_of_results_have_ten_products_and_always_a_next_one(visit):
    shop = visit()
    texts = [shop.act("search[cable]")[0], *(shop.act("click[Next >]")[0] for _ in range(5))]
    assert [text.count(" [SEP] B0") for text in texts] == [10, 10, 10, 10, 10, 0]
    assert "Page 6 (Total results: 50) [SEP] < Prev [SEP] Next >" in texts[-1]
    assert shop.page.clickables == ("back to search", "< prev", "next >")
    assert shop.act("click[< prev]")[0] == texts[-2]
    for _ in range(4):
        shop.act("click[< prev]")
    assert shop.page.text == texts[0]
    assert shop.page.clickables[:2] == ("back to search", "next >")


def test_options_stay_on_sub_pages_and_go_with_the_results(visit):
    shop = visit()
    shop.act("search[henley shirt]")
    asin = shop.page.clickables[2]
    item, _, _ = shop.act(f"click[{asin}]")
    values = shop.page.clickables[6:]
    shop.act(f"click[{values[0]}]")
    shop.act(f"click[{values[0].upper()}]")
    chosen = dict(shop.options)
    assert list(chosen.values()) == [values[0]]
    for name in ("description", "features", "reviews"):
        text, _, _ = shop.act(f"click[{name}]")
        assert text != item
        assert shop.page.clickables == ("back to search", "< prev")
        assert shop.act("click[< prev]")[0] == item
        assert shop.options == chosen
    assert shop.act("click[attributes]")[0] == item
    shop.act("click[< prev]")
    assert (shop.options, shop.asin) == ({}, None)
    shop.act(f"click[{asin}]")
    shop.act("click[back to search]")
    assert (shop.query, shop.page.clickables, shop.page.has_search_bar) == (None, ("search",), True)


def test_the_page_of_attributes_is_there_where_it_is_wanted(visit):
    shop = visit(shows_attributes=True)
    shop.act("search[henley shirt]")
    shop.act(f"click[{shop.page.clickables[2]}]")
    assert shop.page.clickables[5:7] == ("attributes", "buy now")
    text, _, _ = shop.act("click[attributes]")
    assert text.endswith("fashion [SEP] men's shirts [SEP] " + shop._product().product_category)


def test_what_means_nothing_changes_nothing(visit):
    shop = visit()
    first = shop.page.text
    for action in ("click[search]", "click[buy now]", "fly[home]", "search", "click[b000000000]"):
        assert shop.act(action) == (first, 0.0, False)


def test_after_the_purchase_nothing_happens_any_more(visit):
    shop = visit()
    shop.act("search[henley shirt]")
    shop.act(f"click[{shop.page.clickables[2]}]")
    text, reward, is_done = shop.act("click[buy now]")
    assert (text, is_done) == (THANKS, True)
    assert 0.0 <= reward <= 1.0
    assert shop.page.clickables == ()
    assert shop.act("search[lamp]") == (THANKS, 0.0, True)


def test_a_saved_visit_goes_on_as_the_first_one(visit):
    actions = ["search[<r>]", "click[next >]", "click[< prev]", "search[cable]", "click[next >]"]
    shop = visit()
    for action in actions:
        other = visit()
        other.load(json.loads(json.dumps(shop.save())))
        assert other.page.text == shop.page.text
        assert other.act(action) == shop.act(action)
        assert other.save() == shop.save()


def test_texts_are_stripped_as_webshop_s_reader_strips_them():
    page = Page([" a ", "\n  ", "  ", "", "\u00a0b"], [])
    assert page.text == "a [SEP]  [SEP] b"
