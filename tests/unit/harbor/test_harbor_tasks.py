"""Twelve folders in Harbor's format, played whole: their oracles pay, idle agents and cheats do not."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from ors_server.harbor.find_tasks import find_tasks
from ors_server.model.errors import EnvironmentFailedError
from ors_server.sandboxes.choose import BackendChoice, BackendRequest
from ors_server.testing.local_client import open_environment

TASKS = Path(__file__).parents[2] / "data" / "harbor" / "tasks"
ENVIRONMENT = find_tasks(str(TASKS))
NAMES = [folder.name for folder in ENVIRONMENT.folders()]
SECRETS = {"TASK_TOKEN": "r4nd0m"}
CHEATS = sorted(path.relative_to(TASKS) for path in TASKS.glob("*/cheats/*.sh"))
LEAST = {"many-figures": -1.0, "without-a-solution": 0.5}


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
async def client():
    async with AsyncExitStack() as stack:
        sandbox = BackendRequest(choice=BackendChoice.BUBBLEWRAP)
        yield await stack.enter_async_context(open_environment(ENVIRONMENT, sandbox=sandbox))


@pytest.fixture
async def start(client):
    sessions = []

    async def begin(name):
        session = await client.create(split="test", index=NAMES.index(name), secrets=SECRETS)
        sessions.append(session)
        return session

    yield begin
    for session in sessions:
        await session.aclose()


async def play_gold(session, name):
    (folder,) = [folder for folder in ENVIRONMENT.folders() if folder.name == name]
    outputs = []
    for tool, arguments in ENVIRONMENT.gold_actions(ENVIRONMENT.make_task("test", NAMES.index(name))) or ():
        outputs.append(await session.call(tool, **arguments))
    assert len([output for output in outputs if output.finished]) <= 1, folder
    return outputs


def test_there_are_twelve_folders_and_six_with_cheats():
    assert len(NAMES) == 12
    assert len({cheat.parts[0] for cheat in CHEATS}) >= 6


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name not in {"secret-token", "without-a-solution"}]
)
async def test_oracle_earns_the_most(start, name):
    session = await start(name)
    outputs = await play_gold(session, name)
    assert outputs[-1].finished
    assert outputs[-1].reward == 1.0, outputs[-1].metadata
    assert (await session.summary()).episode_return == 1.0


@pytest.mark.parametrize("name", NAMES)
async def test_idle_agent_earns_the_least(start, name):
    session = await start(name)
    for tool, arguments in ENVIRONMENT.blank_actions(ENVIRONMENT.make_task("test", NAMES.index(name))):
        output = await session.call(tool, **arguments)
        if output.finished:
            break
    assert output.finished
    assert output.reward == LEAST.get(name, 0.0), output.metadata


@pytest.mark.parametrize("cheat", CHEATS, ids=[f"{cheat.parts[0]}-{cheat.stem}" for cheat in CHEATS])
async def test_cheats_are_not_paid(start, cheat):
    session = await start(cheat.parts[0])
    await session.call("bash", command=(TASKS / cheat).read_text(), time_limit=30)
    output = await session.call("submit")
    assert output.finished
    assert output.reward == LEAST.get(cheat.parts[0], 0.0), output.metadata


async def test_agent_sees_the_instruction_and_neither_tests_nor_solution(start):
    session = await start("hidden-tests")
    assert await session.prompt() == "Implement `add(a, b)` in /app/calc.py."
    looked = await session.call(
        "bash",
        command="pwd; ls / /app; ls -A /logs/*; env; find / -xdev -name 'checks' -o -name 'solve.sh'",
    )
    text = looked.blocks[0].text
    assert text.startswith("/app\n")
    assert "calc.py" in text
    assert "checks" not in text
    assert "solve.sh" not in text
    assert "r4nd0m" not in text


async def test_steps_show_their_instructions_and_pay_the_mean(start):
    session = await start("three-steps")
    assert await session.prompt() == "Create /app/one."
    await session.call("bash", command="touch /app/one")
    first = await session.call("submit")
    assert (first.reward, first.finished) == (None, False)
    assert first.blocks[0].text == "The step is over. Step 2 of 3:\n\nCreate /app/two; /app/one must be gone."
    seen = await session.call("bash", command="ls -A /tests /logs/verifier; touch /app/two")
    assert "step" not in seen.blocks[0].text
    last = await session.call("submit")
    assert last.finished
    assert last.reward == 1.0
    extras = last.metadata["reward_extras"]
    assert extras == {"tidy": 0.0, "steps": 2.0}
    assert last.metadata["harbor"]["missed"] == "tidy is 0, below 1"


async def test_session_without_a_secret_that_its_verifier_needs_does_not_start(client):
    session = await client.create(split="test", index=NAMES.index("secret-token"))
    with pytest.raises(EnvironmentFailedError, match=r"toml:4: verifier\.env: TOKEN needs 'TASK_TOKEN'"):
        await session.call("submit")
    await session.aclose()


async def test_artefacts_are_kept_with_the_step(start):
    session = await start("kept-artefacts")
    (_, output) = await play_gold(session, "kept-artefacts")
    rows = {row["path"]: row for row in output.metadata["harbor"]["artifacts"]}
    assert rows["/app/report/a.txt"]["text"] == "all is well\n"
    assert rows["/app/data.bin"]["base64"] == "//4="
    assert rows["/logs/artifacts/log.txt"]["text"] == "seen\n"
    assert rows["/app/report/large"]["size"] == 100_000
    assert "text" not in rows["/app/report/large"]


async def test_fork_of_a_step_continues_it(start):
    session = await start("last-step-counts")
    await session.call("bash", command="touch /work/a")
    await session.call("submit")
    (fork,) = await session.fork()
    await fork.call("bash", command="touch /work/b")
    assert (await fork.call("submit")).reward == 1.0
    assert (await session.call("submit")).reward == 0.5
    await fork.aclose()


async def test_limits_and_variables_are_those_of_the_task(start):
    session = await start("word-count")
    shown = await session.call(
        "bash", command='echo "$RESULT/$KIND"; ls /data; stat -c %a "/opt/tools/count words"'
    )
    assert "/srv/result.txt/plain text\nmore.txt\npoem.txt\n755" in shown.blocks[0].text
    full = await session.call("bash", command="head -c 80M /dev/zero > /data/fill")
    assert "No space left" in full.blocks[0].text
