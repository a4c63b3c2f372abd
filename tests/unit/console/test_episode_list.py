"""The list of episodes: what its address selects."""

import re
from typing import Any

import pytest

from ors_server.console.views import formats
from ors_server.console.views.episode_list import read_list_query
from tests.unit.console.conftest import opened

ROW = re.compile(r'id="e(\w+)"')


def test_an_address_is_read_into_conditions():
    query = read_list_query(
        "run=a&environment=shell&min_return=0.5&label=x%3D1%3D2&tab=live&after=abc&index=3"
    )
    wanted = query.episode_filter
    assert wanted.labels == {"run": "a", "x": "1=2"}
    assert (wanted.environment, wanted.min_return, wanted.index, wanted.live) == ("shell", 0.5, 3, True)
    assert query.mistakes == ()
    assert [name for name, _ in query.pairs] == ["run", "environment", "min_return", "label", "index"]
    assert query.without(query.pairs[0]).startswith("?environment=shell&")
    assert "after" not in query.link()
    assert query.link(tab="ended").endswith("tab=ended")


@pytest.mark.parametrize(
    "text",
    ["min_return=nan", "since=yesterday", "index=x", "unjudged=perhaps", "has=luck", "colour=red", "label=x"],
)
def test_what_is_no_condition_is_named_and_selects_nothing(text):
    query = read_list_query(text)
    assert len(query.mistakes) == 1
    assert query.pairs == ()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, formats.MISSING),
        (0.0, "0.00"),
        (-0.001, "0.00"),
        (0.5, "+0.50"),
        (-0.1, "\N{MINUS SIGN}0.10"),
        (1e9, "+1e+09"),
    ],
)
def test_rewards_have_a_sign_and_missing_is_not_zero(value, text):
    assert formats.reward(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, formats.MISSING),
        (0.0001, "<1 ms"),
        (0.012, "12 ms"),
        (1.62, "1.6 s"),
        (125, "2 min 5 s"),
        (7380, "2 h 3 min"),
    ],
)
def test_times_have_few_digits(seconds, text):
    assert formats.duration(seconds) == text


async def test_tabs_and_filters_select(filled):
    client, ids = filled
    everything = ROW.findall((await client.get("/console/episodes")).text)
    assert len(everything) == 10
    assert everything[0] == ids["shell"]
    assert ROW.findall((await client.get("/console/episodes?tab=live")).text) == [ids["live"]]
    solved = ROW.findall((await client.get("/console/episodes?min_return=1&environment=shell")).text)
    assert len(solved) == 2
    none = (await client.get("/console/episodes?environment=none")).text
    assert "No episode matches." in none
    assert "Remove filters" in none


async def test_the_list_is_sorted_by_its_columns(filled):
    client, ids = filled
    page = (await client.get("/console/episodes?sort=-steps")).text
    assert ROW.findall(page)[:2] == [ids["long"], ids["shell"]]
    assert 'aria-sort="descending"' in page
    assert re.search(r'href="/console/episodes\?sort=steps">Steps', page)
    episode = (await client.get(f"/console/episodes/{ids['shell']}?list=sort%3D-steps")).text
    assert f'id="previous" href="/console/episodes/{ids["long"]}' in episode
    refused = ROW.findall((await client.get("/console/episodes?has=refused")).text)
    assert set(refused) >= {ids["shell"]}
    assert ROW.findall((await client.get("/console/episodes?tool=plot")).text) == [ids["chart"]]


async def test_an_empty_record_says_how_to_fill_it():
    async with opened() as client:
        assert "ors-server eval qa --agent oracle" in (await client.get("/console/episodes")).text


async def test_pages_lead_there_and_back(filled, monkeypatch):
    client, _ = filled
    monkeypatch.setattr("ors_server.console.pages.EPISODES_PER_PAGE", 4)
    pages = []
    path: Any = "/console/episodes"
    for _ in range(3):
        page = (await client.get(path)).text
        pages.append(ROW.findall(page))
        older = re.search(r'href="([^"]+)" rel="next"', page)
        path = older and older[1].replace("&amp;", "&")
    assert [len(rows) for rows in pages] == [4, 4, 2]
    assert path is None
    back = re.search(r'href="([^"]+)" rel="prev"', page)[1].replace("&amp;", "&")
    assert ROW.findall((await client.get(back)).text) == pages[1]


async def test_what_is_typed_becomes_an_address(filled):
    client, ids = filled
    for typed, path in (
        (ids["shell"], f"/console/episodes/{ids['shell']}"),
        ("shell", "/console/episodes?tab=ended&environment=shell"),
        ("run=charts-1", "/console/episodes?tab=ended&run=charts-1"),
        ("colour=red", "/console/episodes?tab=ended&label=colour%3Dred"),
    ):
        answer = await client.get("/console/episodes", params={"tab": "ended", "add": typed})
        assert answer.status_code == 303
        assert sorted(answer.headers["location"].replace("?", "&").split("&")) == sorted(
            path.replace("?", "&").split("&")
        )


async def test_columns_are_part_of_the_address(filled):
    client, _ = filled
    page = (await client.get("/console/episodes?column=task&column=return")).text
    assert page.count('role="columnheader"') == 2
    assert "columns=task%2Creturn" in page


async def test_the_histogram_filters(filled):
    client, _ = filled
    page = (await client.get("/console/episodes?environment=shell")).text
    bars = re.findall(r'<a href="([^"]+)" aria-label="(\d+) from', page)
    assert [int(number) for _, number in bars] == [3, 2]
    rows = ROW.findall((await client.get(bars[-1][0].replace("&amp;", "&"))).text)
    assert len(rows) == 2
