"""The bundled shop as a server plays it: what pays, what an agent sees, forks, both doors, bad catalogues."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from ors_server import install_hint
from ors_server.testing import open_environment, play
from ors_server_tasks.webshop import WebShop
from ors_server_tasks.webshop.game import WebShopGame
from ors_server_tasks.webshop.pages import THANKS
from tests.fixtures.recorded_shop import RecordedShop
from tests.fixtures.shop_chance import make_rng

LIMIT = 60.0
"""Seconds within which anything in these tests happens."""
RECORDED = Path(RecordedShop.data)


def text_of(output: Any) -> str:
    (block,) = output.blocks
    return block.text


def test_goals_are_split_as_webshop_splits_them():
    assert {split.name: WebShop.num_tasks(split.name) for split in WebShop.list_splits()} == {
        "test": 500,
        "dev": 1000,
        "train": 500,
    }
    places = [task["goal"] for split in ("test", "dev", "train") for task in WebShop.list_tasks(split)]
    assert places == list(range(2000))
    assert len({task["task_id"] for task in WebShop.list_tasks("train")}) == 500


def test_the_catalogue_names_the_version_and_a_smaller_one_has_less_tasks():
    assert [RecordedShop.num_tasks(split) for split in ("test", "dev", "train")] == [500, 428, 0]
    assert RecordedShop.list_tasks("train") == []
    assert RecordedShop.version != WebShop.version
    assert WebShop.version.endswith(".human.lucene.rule")


def test_the_oracle_earns_everything_and_the_parts_of_the_reward_are_metrics():
    task = WebShop.get_task("dev", 3)
    with play(WebShop, split="dev", index=3) as episode:
        assert episode.prompt.startswith(str(task["instruction"]))
        for name, arguments in WebShop.gold_actions(task):
            output = episode.call(name, **arguments)
        assert (output.reward, output.finished, episode.summary.episode_return) == (1.0, True, 1.0)
    metadata = output.metadata or {}
    assert metadata["reward_extras"] == {"output": THANKS}
    assert metadata["score_parts"]["r_type"] == 1.0
    assert metadata["noun_finder"] == "rule"


def test_the_page_after_a_purchase_says_nothing_about_goal_or_reward():
    task = WebShop.get_task("test", 5)
    (_, first), *_, (_, last) = WebShop.gold_actions(task)
    with play(WebShop, split="test", index=5) as episode:
        page = text_of(episode.call("webshop_browser_action", **first))
        asin = page.split("'")[5]
        episode.call("webshop_browser", action="click", value=asin)
        assert text_of(episode.call("webshop_browser_action", **last)) == THANKS


def test_both_tools_take_the_same_actions_and_refusals_change_nothing():
    with play(WebShop, split="test", index=0) as episode:
        first = text_of(episode.call("webshop_browser", action="search", value="black cable"))
        assert text_of(episode.call("webshop_browser_action", action=" Search[BLACK cable] ")) == first
        asin = first.rpartition("Clickables: ")[2].split("'")[5]
        item = text_of(episode.call("webshop_browser_action", action=f"choose[{asin.upper()}]"))
        assert text_of(episode.call("webshop_browser", action="click", value="no such")).startswith(
            "Invalid action, action argument should be one of the clickables: ['back to search', '< prev'"
        )
        told = "Invalid action, action name should be 'click' or 'search'."
        assert text_of(episode.call("webshop_browser_action", action="buy it")) == told
        assert "must be either" in text_of(episode.call("webshop_browser", action="fly", value="home"))
        long = text_of(episode.call("webshop_browser", action="search", value="x" * 3000))
        assert "3,008 characters; at most 2,000" in long
        episode.call("webshop_browser", action="click", value="Features")
        assert text_of(episode.call("webshop_browser", action="click", value="< Prev")) == item
        assert not episode.call("webshop_browser", action="click", value="back to search").finished


def test_nothing_is_paid_for_a_visit_without_a_purchase():
    with play(WebShop, split="test", index=0) as episode:
        for _ in range(40):
            output = episode.call("webshop_browser", action="search", value="lamp")
        assert output.finished
        assert (episode.summary.episode_return, str(episode.summary.stop_reason)) == (0.0, "step_limit")


def test_random_products_are_the_same_for_the_same_seed_and_survive_a_fork():
    async def pages(client: Any, actions: list[str], **wanted: Any) -> list[str]:
        session = await client.create(split="test", index=1, **wanted)
        found = [text_of(await session.submit("webshop_browser_action", {"action": one})) for one in actions]
        await session.aclose()
        return found

    async def run() -> None:
        async with open_environment("webshop") as client:
            actions = ["search[<r>]", "click[next >]", "search[<r>]"]
            first = await pages(client, actions, seed=4)
            assert await pages(client, actions, seed=4) == first
            assert await pages(client, actions, seed=5) != first
            assert len(set(first)) == 3
            session = await client.create(split="test", index=1, seed=4)
            for action in actions[:2]:
                await session.submit("webshop_browser_action", {"action": action})
            (fork,) = await session.fork(1)
            for one in (session, fork):
                page = await one.submit("webshop_browser_action", {"action": actions[2]})
                assert text_of(page) == first[2]
                await one.aclose()

    anyio.run(run)


def test_a_game_of_its_own_has_agentfly_s_methods():
    game = WebShopGame()
    assert game.get_available_actions() == {"has_search_bar": True, "clickables": ["search"]}
    assert game.get_instruction_text() in game.observation
    assert game.step("get_reward", 0)["reward"] == 0.0
    assert game.score_parts() == {}
    assert game.is_healthy()
    with pytest.raises(IndexError, match="task_id must be from 0 to 1999, got 5000"):
        game.reset(5000)
    game.close()
    assert game.reset(3) == game.observation


# Both doors.


@pytest.fixture(scope="module")
def server(serve_live) -> str:
    return serve_live("webshop").url


@pytest.mark.parametrize("index", [0, 7])
async def test_an_episode_is_played_through_the_standard_and_through_mcp_alike(server, index):
    actions = WebShop.gold_actions(WebShop.get_task("test", index))
    order = {"environment": "webshop", "split": "test", "index": index}
    with anyio.fail_after(LIMIT):
        async with httpx2.AsyncClient(base_url=server, timeout=LIMIT) as http:
            texts = {"ors": await over_ors(http, order, actions), "mcp": await over_mcp(http, order, actions)}
    assert texts["ors"][-2:] == [THANKS, 1.0]
    texts["mcp"][-2] = texts["mcp"][-2].partition("\n\n")[0]  # MCP adds that the episode is over
    assert texts["ors"] == texts["mcp"]


async def over_ors(http: httpx2.AsyncClient, order: dict[str, Any], actions: Any) -> list[Any]:
    session = (await http.post("/_ors/sessions", json=order)).json()
    texts: list[Any] = []
    for name, arguments in actions:
        answer = await http.post(
            "/webshop/call",
            json={"name": name, "input": arguments},
            headers={"X-Session-ID": session["session_id"]},
        )
        (end,) = (event for event in answer.text.split("\n\n") if event.startswith("event: end"))
        result = json.loads(end.partition("data: ")[2])
        assert result["ok"], result
        texts.append(result["output"]["blocks"][0]["text"])
    return [*texts, await total(http, session)]


async def over_mcp(http: httpx2.AsyncClient, order: dict[str, Any], actions: Any) -> list[Any]:
    session = (await http.post("/_ors/sessions", json=order)).json()
    texts: list[Any] = []
    async with (
        httpx2.AsyncClient(timeout=LIMIT) as own,
        Client(streamable_http_client(session["agent_url"], http_client=own)) as agent,
    ):
        tools = [tool.name for tool in (await agent.list_tools()).tools]
        assert tools == ["webshop_browser", "webshop_browser_action"]
        for name, arguments in actions:
            result = await agent.call_tool(name, arguments)
            assert not result.is_error, result
            texts.append(result.content[0].text)
    return [*texts, await total(http, session)]


async def test_an_agent_reads_no_reward_and_no_goal_after_a_purchase_on_either_door(server):
    *browsing, (name, arguments) = WebShop.gold_actions(WebShop.get_task("test", 3))
    order = {"environment": "webshop", "split": "test", "index": 3}
    asked = [
        ("/_ors/sessions/{session_id}/calls", {"name": name, "arguments": arguments}),
        ("/webshop/call", {"name": name, "input": arguments}),
    ]
    with anyio.fail_after(LIMIT):
        async with httpx2.AsyncClient(base_url=server, timeout=LIMIT) as http:
            for path, body in asked:
                session = (await http.post("/_ors/sessions", json=order)).json()
                agent = {"X-Session-ID": session["session_id"], "X-API-Key": session["agent_token"]}
                calls = f"/_ors/sessions/{session['session_id']}/calls"
                for one, given in browsing:
                    await http.post(calls, json={"name": one, "arguments": given}, headers=agent)
                answer = await http.post(path.format(**session), json=body, headers=agent)
                given = json.loads(answer.text.rpartition("data: ")[2])["output"]
                (block,) = given.pop("blocks")
                assert block["text"] == THANKS
                assert given == {"metadata": None, "reward": None, "finished": True}
                assert await total(http, session) == 1.0


async def total(http: httpx2.AsyncClient, session: dict[str, Any]) -> float:
    path = f"/_ors/sessions/{session['session_id']}"
    episode_return = (await http.get(path)).json()["episode"]["return"]
    await http.delete(path)
    return episode_return


# Catalogues of one's own.


def run_check(**variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ors_server", "check", "webshop"],
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
        env={**os.environ, **variables},
    )


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"WEBSHOP_DATA": "/nowhere/at/all"}, "WEBSHOP_DATA=/nowhere/at/all: expected a folder"),
        ({"WEBSHOP_GOALS": "none"}, "WEBSHOP_GOALS=none: expected human or synthetic"),
        ({"WEBSHOP_LENGTHS": "long"}, "WEBSHOP_LENGTHS=long: expected lucene or exact"),
    ],
)
def test_a_catalogue_that_is_not_there_is_told_before_anything_is_served(variables, told):
    done = run_check(**variables)
    assert done.returncode != 0
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_package_is_told_with_the_command_that_installs_it():
    program = (
        "import sys; sys.modules['rapidfuzz'] = None; "
        "from ors_server.cli.main import main; sys.argv = ['ors-server', 'check', 'webshop']; "
        "sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=110
    )
    assert done.returncode != 0
    told = f"webshop: rapidfuzz not installed: run {install_hint('webshop')}"
    assert told in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_a_broken_catalogue_is_told_by_file_and_line_before_anything_is_served(tmp_path):
    folder = shutil.copytree(RECORDED, tmp_path / "data")
    path = folder / "items_shuffle_1000.json"
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[900] = lines[900].replace('"pricing": "$', '"pricing": "')
    path.write_text("\n".join(lines), encoding="utf-8")
    done = run_check(WEBSHOP_DATA=str(folder))
    assert done.returncode != 0
    assert "items_shuffle_1000.json, line 901: expected 'pricing' such as '$12.99'" in done.stderr


def test_a_catalogue_that_changes_while_it_is_served_starts_no_further_session(tmp_path):
    folder = shutil.copytree(RECORDED, tmp_path / "data")
    changing = type("Changing", (WebShop,), {"data": str(folder), "name": "changing"})
    with play(changing, split="test", index=0) as episode:
        episode.call("webshop_browser", action="search", value="cable")
    path = folder / "items_human_ins.json"
    path.write_text(path.read_text(encoding="utf-8") + " ", encoding="utf-8")

    def again() -> None:
        with play(changing, split="test", index=0) as episode:
            episode.call("webshop_browser", action="search", value="cable")

    with pytest.raises(Exception, match="changed while it was served"):
        again()


def test_a_search_by_chance_never_fails():
    rng = make_rng(11)
    pieces = [
        "search[",
        "click[",
        "]",
        "<r>",
        "<c>",
        " ",
        "\u2603",
        "'",
        "buy now",
        "next >",
        "[",
        "a" * 40,
        "<a> x",
    ]
    with play(WebShop, split="train", index=0) as episode:
        for _ in range(39):
            action = "".join(rng.choices(pieces, k=5))
            assert text_of(episode.call("webshop_browser_action", action=action))
