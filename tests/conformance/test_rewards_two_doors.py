"""What a reward came to is the same behind every door, and hidden from agents as every reward is."""

import json
from typing import Any, ClassVar

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from ors_server import EpisodePolicy, ToolOutput, graded_output, math_equal_reward, reward, tool
from ors_server.testing.local_client import LocalSession, open_environment
from tests.fixtures.single_task import SingleTask

LIMIT = 20.0
"""Seconds within which anything in these tests happens."""
RESULT_KEY = "org.openrewardstandard/result"
KEYS = "trainer:t:trainer-key-0123456789,agent:a:agent-key-0123456789"
TRAINER = {"X-API-Key": "trainer-key-0123456789"}
GOLD = "271828"
SECRETS = (GOLD, "reward_status", "reward_reason", "reward_extras", "half_right")


@reward(range=(0.0, 1.0))
def telling_reward(final_response: str, answer: str, trajectory: Any, step: int) -> dict[str, Any]:
    """Grades, or fails in the way that the response names; whatever it says has the gold in it."""
    match final_response:
        case "raise":
            raise ValueError(f"the gold is {answer}")
        case "nan":
            return {"reward": float("nan"), "gold": answer}
        case "beyond":
            return {"reward": 1.5, "gold": answer}
        case _:
            right = float(final_response == answer)
            return {"reward": right, "half_right": 0.5, "gold": answer, "at": [len(trajectory.steps), step]}


class Oracle(SingleTask):
    """Has a tool that asks its reward, and one that leaves it to the server."""

    name = "oracle"
    policy = EpisodePolicy(reward_range=(0.0, 1.0))
    reward = telling_reward
    toolsets = ("submit",)
    grader: ClassVar[Any] = math_equal_reward
    TASKS = ({"answer": GOLD}, {"answer": ""})
    WORDS = "Guess."

    @tool
    async def guess(self, number: str) -> ToolOutput:
        """Guesses."""
        return graded_output(await self.grade(final_response=number), "Noted.")

    @tool
    async def compute(self, number: str) -> ToolOutput:
        """Guesses a number."""
        return graded_output(await self.grade(self.grader, final_response=number), "Noted.")

    @tool
    async def stop(self, answer: str) -> ToolOutput:
        """Ends the episode."""
        return ToolOutput(finished=True)


MOVES: list[tuple[str, dict[str, Any]]] = [
    ("guess", {"number": "1"}),
    ("guess", {"number": GOLD}),
    ("guess", {"number": "raise"}),
    ("guess", {"number": "nan"}),
    ("guess", {"number": "beyond"}),
    ("compute", {"number": f"{GOLD}.0"}),
    ("compute", {"number": "I do not know"}),
]
ENDINGS: list[tuple[str, dict[str, Any]]] = [
    ("stop", {"answer": GOLD}),
    ("stop", {"answer": "raise"}),
    ("submit", {"answer": GOLD}),
    ("submit", {"answer": "beyond"}),
]
EXPECTED = [
    (0.0, None),
    (1.0, None),
    (None, "error"),
    (None, "error"),
    (None, "error"),
    (1.0, None),
    (0.0, "unparsed_answer"),
]
EXPECTED_ENDINGS = [(1.0, None), (None, "error"), (1.0, None), (None, "error")]


@pytest.fixture(scope="module")
def server(serve_live):
    return serve_live(Oracle, api_keys=KEYS)


async def create(server, index: int = 0, visibility: str | None = None) -> dict[str, Any]:
    order = {"split": "train", "index": index, "visibility": visibility}
    async with httpx2.AsyncClient(base_url=server.url, timeout=LIMIT, headers=TRAINER) as http:
        return (await http.post("/_ors/sessions", json=order)).json()


def read_stream(text: str) -> dict[str, Any]:
    """Puts together what the events of a call say."""
    pieces = [
        line.removeprefix("data: ")
        for event in text.split("\n\n")
        if event.startswith(("event: chunk", "event: end"))
        for line in event.split("\n")[1:]
    ]
    found: dict[str, Any] = json.loads("".join(pieces))
    return found


async def over_ors(server, session_id: str, moves, headers=TRAINER) -> tuple[list[Any], str]:
    told, heard = [], ""
    async with httpx2.AsyncClient(base_url=server.url, timeout=LIMIT, headers=headers) as http:
        for name, arguments in moves:
            answer = await http.post(
                "/oracle/call", json={"name": name, "input": arguments}, headers={"X-Session-ID": session_id}
            )
            heard += answer.text
            output = read_stream(answer.text)["output"]
            told.append((output["reward"], output["finished"], output["metadata"]))
    return told, heard


async def over_mcp(url: str, moves) -> tuple[list[Any], str]:
    """Plays over MCP; returns the same."""
    told, heard = [], ""
    async with (
        httpx2.AsyncClient(timeout=LIMIT) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        for name, arguments in moves:
            result = await client.call_tool(name, arguments)
            heard += result.model_dump_json()
            figures = (result.meta or {}).get(RESULT_KEY)
            told.append(figures and (figures["reward"], figures["finished"], figures["metadata"]))
    return told, heard


async def inside(moves) -> list[Any]:
    """Plays in this process; returns the same."""
    async with open_environment(Oracle) as client:
        session: LocalSession = await client.create(split="train", index=0)
        outputs = [await session.submit(name, arguments) for name, arguments in moves]
    return [(output.reward, output.finished, output.metadata) for output in outputs]


def said(metadata: dict[str, Any] | None) -> dict[str, Any]:
    return {key: value for key, value in (metadata or {}).items() if key.startswith("reward_")}


@pytest.mark.parametrize("last", range(len(ENDINGS)))
async def test_every_door_tells_a_trainer_the_same_of_a_reward(server, last):
    moves = [*MOVES, ENDINGS[last]]
    ors, _ = await over_ors(server, (await create(server))["session_id"], moves)
    made = await create(server, visibility="visible")
    mcp, _ = await over_mcp(made["agent_url"], moves)
    local = await inside(moves)
    for way in (ors, mcp, local):
        rewards = [(reward_, said(metadata).get("reward_status")) for reward_, _, metadata in way]
        assert rewards == [*EXPECTED, EXPECTED_ENDINGS[last]]
        assert [finished for _, finished, _ in way] == [False] * len(MOVES) + [True]
    assert (
        [said(step[2]) for step in ors]
        == [said(step[2]) for step in mcp]
        == [said(step[2]) for step in local]
    )
    assert said(ors[1][2])["reward_extras"]["at"] == [1, 2]


async def test_a_gold_that_cannot_be_read_is_told_as_such_at_every_door(server):
    moves = [("compute", {"number": "3"})]
    ors, _ = await over_ors(server, (await create(server, 1))["session_id"], moves)
    mcp, _ = await over_mcp((await create(server, 1, "visible"))["agent_url"], moves)
    for ((paid, _, metadata),) in (ors, mcp):
        assert (paid, metadata["reward_status"]) == (None, "bad_gold")


@pytest.mark.parametrize("visibility", ["hidden", "meta"])
async def test_an_agent_over_ors_learns_nothing_of_a_reward_but_that_the_episode_is_over(server, visibility):
    made = await create(server, visibility=visibility)
    headers = {"Authorization": f"Bearer {made['agent_token']}"}
    moves = [("guess", {"number": "raise"}), ("compute", {"number": "?"}), ("stop", {"answer": "1"})]
    told, heard = await over_ors(server, made["session_id"], moves, headers)
    assert told == [(None, False, None), (None, False, None), (None, True, None)]
    assert not [secret for secret in SECRETS if secret in heard]


async def test_an_agent_over_mcp_learns_nothing_where_rewards_are_hidden(server):
    moves = [("guess", {"number": "raise"}), ("compute", {"number": "?"}), ("stop", {"answer": "1"})]
    told, heard = await over_mcp((await create(server, visibility="hidden"))["agent_url"], moves)
    assert told == [None] * 3
    assert not [secret for secret in SECRETS if secret in heard]


async def test_what_hosts_keep_from_the_model_is_the_only_place_of_a_reward_by_default(server):
    moves = [("guess", {"number": "raise"}), ("stop", {"answer": "1"})]
    url = (await create(server, visibility="meta"))["agent_url"]
    async with (
        httpx2.AsyncClient(timeout=LIMIT) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        for name, arguments in moves:
            result = (await client.call_tool(name, arguments)).model_dump()
            assert result.pop("meta")[RESULT_KEY]["metadata"]["episode"]
            assert not [secret for secret in SECRETS if secret in json.dumps(result)]


async def test_the_record_says_how_each_reward_was_come_by_and_sums_up_what_it_reported(server):
    made = await create(server)
    await over_ors(server, made["session_id"], [*MOVES, ENDINGS[1]])
    async with httpx2.AsyncClient(base_url=server.url, timeout=LIMIT, headers=TRAINER) as http:
        steps = (await http.get(f"/_ors/sessions/{made['session_id']}/steps")).json()["steps"]
        episode = (await http.get(f"/_ors/sessions/{made['session_id']}")).json()["episode"]
    assert [(step["reward"], said(step["metadata"]).get("reward_status")) for step in steps] == [
        *EXPECTED,
        (None, "error"),
    ]
    assert [step["status"] for step in steps] == [
        "graded" if paid is not None else "ungraded" for paid, _ in [*EXPECTED, (None, "error")]
    ]
    assert (episode["return"], episode["ungraded_steps"], episode["failed_steps"]) == (2.0, 4, 0)
    assert (episode["phase"], episode["stop_reason"], episode["last_reward"]) == (
        "finished",
        "completed",
        0.0,
    )
    assert episode["metrics"] == {
        "reward_extra/half_right/mean": 0.5,
        "reward_extra/half_right/max": 0.5,
        "reward_extra/half_right/min": 0.5,
    }


async def test_a_group_is_scored_over_ors(serve_live):
    @reward(name="longest_reward")
    def longest(rollouts: list[Any]) -> list[float]:
        most = max(len(rollout.final_response) for rollout in rollouts)
        return [float(len(rollout.final_response) == most) for rollout in rollouts]

    class Essays(Oracle):
        name = "essays"
        reward = longest

    server = serve_live(Essays)
    group = [
        {"messages": [{"role": "assistant", "blocks": [{"type": "text", "text": text}]}]}
        for text in ("a", "bcd", "ef")
    ]
    async with httpx2.AsyncClient(base_url=server.url, timeout=LIMIT) as http:
        listing = (await http.get("/essays/tools")).json()
        session = {"X-Session-ID": "group"}
        await http.post("/create", json={"split": "train", "index": 0}, headers=session)
        answer = await http.post("/essays/score_group", json={"candidates": group}, headers=session)
    assert listing["supports_score_group"] is True
    assert [score["reward"] for score in read_stream(answer.text)["scores"]] == [0.0, 1.0, 0.0]
