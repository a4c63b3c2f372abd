"""Whatever an agent does to its files and processes, its episode ends with a number: the least."""

from collections.abc import Iterable

import anyio
import pytest

from ors_server import TimeLimits
from ors_server.model.errors import InvalidRequestError
from ors_server.sandboxes.choose import BackendChoice, BackendRequest
from ors_server.testing.local_client import LocalClient, open_environment
from ors_server_tasks.code.catalogue import SPLITS
from tests.fixtures.ungradable import IN_THE_FILE, IN_THE_WORK_DIR, Actions, written

LIMIT = 1_500.0
"""Seconds that one test may take: programs that do nothing run into their limits."""
AT_ONCE = 2
SANDBOXES = ("bubblewrap", "landlock")
PROGRAM, FUNCTION, CLASS = "word_counts", "ordinal", "class_stream"
"""Tasks of `code`."""
QUICK_IN_THE_WORK_DIR = (
    "a work dir that nobody may enter",
    "a work dir that can be read but not entered",
    "a closed work dir and a restart",
    "a loop of links",
    "a pipe",
    "names that are not UTF-8",
)
QUICK_IN_THE_FILE = ("its group killed", "status 127", "bubblewrap's own words")

pytestmark = pytest.mark.timeout(LIMIT + 30)
Plays = dict[str, tuple[str, int, Actions]]


@pytest.fixture(autouse=True)
def _limits(monkeypatch):
    monkeypatch.setattr("ors_server_tasks.code.grading.LIMITS", TimeLimits(case=2.0, whole=6.0))


async def play_one(client: LocalClient, split: str, index: int, actions: Actions) -> str | None:
    """Plays an episode; returns how it ended, if that was not with the least reward."""
    session = await client.create(split=split, index=index)
    try:
        for tool, arguments in [*actions, ("submit", {})]:
            try:
                output = await session.submit(tool, arguments)
            except InvalidRequestError:
                continue  # no door carries it, so it is no call, and the episode goes on
            if output.finished:
                return None if output.reward == 0.0 else f"paid {output.reward}: {output.metadata}"
    except Exception as error:  # noqa: BLE001 # what ended it is the finding
        return f"{type(error).__name__}: {error}"
    finally:
        await session.aclose()
    return "not finished"


async def play(environment: str, sandbox: str, plays: Plays) -> dict[str, str]:
    """Plays episodes by their names; returns those that did not end with the least reward, and how."""
    wrong: dict[str, str] = {}
    gate = anyio.CapacityLimiter(AT_ONCE)

    async def one(name: str) -> None:
        async with gate:
            problem = await play_one(client, *plays[name])
            if problem is not None:
                wrong[name] = problem

    with anyio.fail_after(LIMIT):
        async with (
            open_environment(environment, sandbox=BackendRequest(BackendChoice(sandbox))) as client,
            anyio.create_task_group() as group,
        ):
            for name in plays:
                group.start_soon(one, name)
    return wrong


def in_the_work_dir(environment: str, names: Iterable[str]) -> Plays:
    is_code = environment == "code"
    (split, index), file = (place_of(FUNCTION), "solution.py") if is_code else (("test", 0), "notes.txt")
    return {name: (split, index, written(file, IN_THE_WORK_DIR[name])) for name in names}


def in_the_file(task: str, names: Iterable[str]) -> Plays:
    split, index = place_of(task)
    files = {name: [("create", {"path": "solution.py", "content": IN_THE_FILE[name]})] for name in names}
    return {name: (split, index, actions) for name, actions in files.items()}


def place_of(task: str) -> tuple[str, int]:
    split = next(split for split, names in SPLITS.items() if task in names)
    return split, SPLITS[split].index(task)


def test_there_are_many_ways():
    assert len(IN_THE_WORK_DIR) + len(IN_THE_FILE) >= 80


@pytest.mark.parametrize("sandbox", SANDBOXES)
@pytest.mark.parametrize("environment", ["code", "shell"])
async def test_what_an_agent_does_to_its_work_dir_is_graded(environment, sandbox):
    assert await play(environment, sandbox, in_the_work_dir(environment, QUICK_IN_THE_WORK_DIR)) == {}


async def test_what_an_agents_programs_do_is_graded():
    assert await play("code", "bubblewrap", in_the_file(PROGRAM, QUICK_IN_THE_FILE)) == {}


@pytest.mark.stress
@pytest.mark.parametrize("sandbox", SANDBOXES)
@pytest.mark.parametrize("environment", ["code", "shell"])
async def test_all_that_an_agent_does_to_its_work_dir_is_graded(environment, sandbox):
    assert await play(environment, sandbox, in_the_work_dir(environment, IN_THE_WORK_DIR)) == {}


@pytest.mark.stress
@pytest.mark.parametrize("sandbox", SANDBOXES)
@pytest.mark.parametrize("task", [PROGRAM, FUNCTION, CLASS])
async def test_all_that_an_agents_programs_do_is_graded(task, sandbox):
    assert await play("code", sandbox, in_the_file(task, IN_THE_FILE)) == {}
