"""Environments on real OpenEnv servers, played through the real WebSocket."""

import contextlib
import random

import anyio
import anyio.lowlevel
import pytest

from ors_server.adapters.openenv_server import SOURCE, OpenEnvSession, from_openenv
from ors_server.model.errors import EnvironmentDefinitionError, OrsServerError, UnknownEnvironmentError
from ors_server.resources.resource_errors import ResourceError
from ors_server.testing import check_environment
from ors_server.testing.local_client import CallRefusedError, open_environment
from tests.clients.conftest import SCRIPTS, client_python, free_port, running

COUNTS = [{"start": 1}, {"start": 2}]

pytestmark = [pytest.mark.external, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def serve():
    with contextlib.ExitStack() as servers:
        addresses = {}

        def start(name):
            if name not in addresses:
                port = free_port()
                command = [str(client_python("openenv")), str(SCRIPTS / "serve_openenv.py"), str(port), name]
                servers.enter_context(running(command, f"http://127.0.0.1:{port}"))
                addresses[name] = f"127.0.0.1:{port}"
            return addresses[name]

        yield start


def number_of(seed):
    return random.Random(seed).randint(0, 9)  # noqa: S311  (the server's game)


async def test_rewards_and_the_end_are_the_servers_and_the_seed_is_the_task(serve):
    guess = from_openenv(f"ws://{serve('guess')}")
    async with open_environment(guess) as client:
        for seed in (0, 3):
            session = await client.create(split="train", index=seed)
            assert await session.prompt() == "Guess a number from 0 to 9."
            assert [tool.name for tool in (await session.tools()).tools] == ["act"]
            wrong = (number_of(seed) + 1) % 9
            hint = await session.call("act", number=wrong)
            assert hint.blocks[0].text == ("Higher." if wrong < number_of(seed) else "Lower.")
            assert (hint.reward, hint.finished) == (0.0, False)
            last = await session.call("act", number=number_of(seed))
            assert (last.blocks[0].text, last.reward, last.finished) == ("Right.", 1.0, True)
            assert (await session.summary()).episode_return == 1.0
            await session.aclose()


async def test_a_lost_game_earns_nothing(serve):
    guess = from_openenv(f"ws://{serve('guess')}")
    async with open_environment(guess) as client:
        session = await client.create(split="train", index=1)
        wrong = (number_of(1) + 1) % 9
        outputs = [await session.call("act", number=wrong) for _ in range(4)]
        assert [one.finished for one in outputs] == [False, False, False, True]
        assert (await session.summary()).episode_return == 0.0
        await session.aclose()


async def test_a_wrong_action_is_the_agents_mistake_and_a_broken_environment_is_not(serve):
    guess = from_openenv(f"http://{serve('guess')}")
    async with open_environment(guess) as client:
        session = await client.create(split="train", index=2)
        for wrong in ({"number": 12}, {"number": "many"}, {}, {"number": 1, "other": 2}):
            with pytest.raises(CallRefusedError, match=r"number|other"):
                await session.submit("act", wrong)
        assert number_of(2) != 9
        with pytest.raises(OrsServerError, match="the nine is broken") as raised:
            await session.call("act", number=9)
        assert not isinstance(raised.value, CallRefusedError)
        assert (await session.summary()).episode_return == 0.0
        await session.aclose()


async def test_the_tools_of_an_mcp_environment_are_its_tools(serve):
    counter = from_openenv(f"ws://{serve('counter')}", tasks=COUNTS)
    assert [task["reset"] for task in counter.list_tasks("train")] == COUNTS
    async with open_environment(counter) as client:
        session = await client.create(split="train", index=1)
        assert await session.prompt() == "The counter is 2. Bring it to 3."
        listed = {tool.name: tool for tool in (await session.tools()).tools}
        assert sorted(listed) == ["add", "look"]
        assert listed["add"].description == "Adds to the counter."
        assert listed["add"].input_schema["required"] == ["by"]
        looked = await session.call("look")
        assert (looked.blocks[0].text, looked.reward, looked.finished) == ("2", None, False)
        with pytest.raises(CallRefusedError, match="by"):
            await session.call("add")
        done = await session.call("add", by=1)
        assert (done.blocks[0].text, done.reward, done.finished) == ("3", 1.0, True)
        await session.aclose()


async def test_sessions_do_not_share_an_episode(serve):
    counter = from_openenv(f"ws://{serve('counter')}", tasks=COUNTS)
    async with open_environment(counter) as client:
        first, second = (
            await client.create(split="train", index=0),
            await client.create(split="train", index=0),
        )
        assert (await first.call("add", by=1)).blocks[0].text == "2"
        assert (await second.call("look")).blocks[0].text == "1"
        assert (await second.call("add", by=5)).reward == 0.0
        assert (await first.call("add", by=1)).reward == 1.0
        await first.aclose()
        await second.aclose()


async def test_an_answer_that_nobody_read_is_never_taken_for_the_next_calls(serve):
    session = OpenEnvSession(f"ws://{serve('echo')}")
    await session.open()
    try:
        assert (await session.ask("reset", {}))["observation"]["times"] == 0
        async with anyio.create_task_group() as group:
            group.start_soon(session.ask, "step", {"word": "lost"})
            await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        with pytest.raises(ResourceError, match=r"given up during a call .*create a new session"):
            await session.ask("step", {"word": "next"})
    finally:
        await session.close()


async def test_the_other_form_of_an_action_is_the_tool_act(serve):
    echo = SOURCE.load(f"ws://{serve('echo')}")
    async with open_environment(echo) as client:
        session = await client.create(split="train", index=0)
        (act,) = (await session.tools()).tools
        assert sorted(act.input_schema["properties"]) == ["loud", "word"]
        heard = [await session.call("act", word=word, loud=True) for word in ("a", "bc", "def")]
        assert [one.reward for one in heard] == [0.01, 0.02, 0.03]
        assert '"heard": "DEF"' in heard[-1].blocks[0].text
        assert (await session.summary()).episode_return == pytest.approx(0.06)
        await session.aclose()


@pytest.mark.parametrize("address", ["ftp://127.0.0.1:1", "127.0.0.1:8000", "ws://", "guess"])
def test_an_address_of_another_form_is_refused(address):
    with pytest.raises(UnknownEnvironmentError, match="expected the URL of an OpenEnv server, such as ws://"):
        from_openenv(address)


def test_a_server_that_does_not_run_is_named():
    with pytest.raises(EnvironmentDefinitionError, match=r"did not answer: .*; start the server, then try"):
        from_openenv(f"ws://127.0.0.1:{free_port()}")


def test_a_task_without_arguments_of_reset_is_refused(serve):
    with pytest.raises(ValueError, match="expected a task with the arguments of reset, got"):
        from_openenv(f"ws://{serve('guess')}")({"id": "x"})


@pytest.mark.stress
@pytest.mark.parametrize("name", ["guess", "counter", "echo"])
def test_three_environments_pass_the_checks(serve, name):
    tasks = COUNTS if name == "counter" else None
    report = check_environment(from_openenv(f"ws://{serve(name)}", tasks=tasks))
    assert [verdict for verdict in report.verdicts if verdict.outcome == "fail"] == []
