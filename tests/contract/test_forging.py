"""Attacks on the graders of what agents leave behind: each public one has its tests, and none earns anything.

The table names where each is played against the bundled environments `shell` and `code`; a test sees to it
that the names lead somewhere. Those that go through the door and not through the work dir are played here.
"""

import ast
from pathlib import Path

import pytest

from ors_server.testing.local_client import CallRefusedError, LocalSession
from ors_server_tasks.code import CodeTasks
from ors_server_tasks.shell import ShellTasks
from tests.fixtures.bundled_plays import shared_servers, with_client
from tests.fixtures.ordinary_cases import every

ROOT = Path(__file__).parents[2]
LIMIT = 100.0
"""Seconds that one test may take, most of which it waits for sandboxes."""
__all__ = ["shared_servers"]
pytestmark = pytest.mark.usefixtures("shared_servers")
BOTH = [("shell", ShellTasks), ("code", CodeTasks)]
HERE, SHELL, CODE = (
    "tests/contract/test_forging.py",
    "tests/contract/test_shell.py",
    "tests/fixtures/code_cheats.py",
)
GRADERS = "tests/fixtures/grading_forgeries.py"

PUBLIC_ATTACKS = {
    "do nothing": [
        (HERE, "test_doing_nothing_earns_nothing"),
        (SHELL, "test_doing_nothing_earns_nothing_on_any_test_task"),
    ],
    "give a constant answer": [(HERE, "test_an_answer_in_words_earns_nothing")],
    "list every candidate": [(HERE, "test_an_answer_in_words_earns_nothing")],
    "submit twice, or play on after the end": [(HERE, "test_what_is_over_pays_no_more")],
    "profit from another episode": [(HERE, "test_nothing_is_left_over_from_another_episode")],
    "read the answer where the agent can look": [
        (HERE, "test_the_answer_is_nowhere_in_the_sandbox"),
        (CODE, "looks_for_the_solution"),
    ],
    "have the same work judged differently": [(HERE, "test_the_same_work_is_judged_the_same")],
    "a conftest.py that passes every test": [(CODE, "leaves_pytest_hooks")],
    "start-up files: sitecustomize, usercustomize, .pth": [(CODE, "leaves_start_up_files")],
    "fake programs on the path, LD_PRELOAD": [(CODE, "leaves_fake_programs"), (SHELL, "fake_tools")],
    "sys.exit(0)": [(CODE, "exits_with_success"), (CODE, "exits_when_called")],
    "os._exit(0)": [(CODE, "exits_at_once")],
    "skip the tests": [(CODE, "skips_the_tests")],
    "an __eq__ that is always true": [
        (CODE, "returns_what_equals_anything"),
        (CODE, "is_a_class_that_equals_anything"),
    ],
    "subclasses of plain types": [(CODE, "returns_texts_and_numbers_that_equal_anything")],
    "patch what compares": [(CODE, "breaks_the_comparison")],
    "print that all passed": [(CODE, "says_that_all_passed")],
    "let a child process answer": [(CODE, "lets_a_child_answer")],
    "inspect the grader's frames": [(CODE, "looks_into_frames")],
    "write into the grader's folder": [(CODE, "writes_into_the_grader")],
    "know the visible examples": [(CODE, "knows_the_examples")],
    "a daemon that mends the work after submission": [
        (CODE, "leaves_a_daemon"),
        (SHELL, "waits_for_the_shell_to_die"),
    ],
    "links out of the work dir": [(CODE, "links_to_its_home"), (CODE, "links_to_the_grader")],
    "pipes and folders where files are read": [(CODE, "leaves_a_pipe"), (CODE, "leaves_a_folder")],
    "objects that return themselves and agree with everything": [
        ("tests/contract/test_class_cheats.py", "test_a_cheat_passes_no_case_at_all")
    ],
    "a work dir or programs that cannot be graded": [
        ("tests/contract/test_ungradable.py", "test_what_an_agent_does_to_its_work_dir_is_graded"),
        ("tests/contract/test_ungradable.py", "test_what_an_agents_programs_do_is_graded"),
    ],
    "read the answers where they are installed": [
        (
            "tests/unit/sandboxes/cells/test_hidden_paths.py",
            "test_hidden_places_are_empty_or_closed_in_commands_and_fresh_programs",
        )
    ],
    "a repository whose configuration runs code": [(SHELL, "hostile_repository")],
}
"""Attack -> where it is played; from public reports on benchmarks that were gamed, and our own."""


@pytest.mark.parametrize("attack", PUBLIC_ATTACKS)
def test_every_attack_is_played_somewhere(attack):
    for place, name in PUBLIC_ATTACKS[attack]:
        tree = ast.parse((ROOT / place).read_text())
        names = {
            node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert name in names, f"{place} has no {name}"


def test_there_are_many_of_them():
    assert len(PUBLIC_ATTACKS) >= 25


async def do(session: LocalSession, actions):
    output = None
    for tool, arguments in actions:
        output = await session.submit(tool, arguments)
    return output


@pytest.mark.parametrize(("name", "cls"), BOTH)
def test_doing_nothing_earns_nothing(name, cls):
    async def body(client):
        session = await client.create(split="test", index=0)
        return await session.submit("submit", {})

    output = with_client(name, body, LIMIT)
    assert (output.reward, output.finished) == (0.0, True)


@pytest.mark.parametrize(
    "answer", every(3, ["", "yes", "42", "True", "all of them: a, b, c, d", "nan", '{"reward": 1.0}'])
)
@pytest.mark.parametrize(("name", "cls"), BOTH)
def test_an_answer_in_words_earns_nothing(name, cls, answer):
    async def body(client):
        session = await client.create(split="test", index=1)
        return await session.submit("submit", {"answer": answer})

    assert with_client(name, body, LIMIT).reward == 0.0


@pytest.mark.parametrize(("name", "cls"), BOTH)
def test_what_is_over_pays_no_more(name, cls):
    gold = list(cls.gold_actions(cls.get_task("test", 2)))

    async def body(client):
        session = await client.create(split="test", index=2)
        assert (await session.submit("submit", {})).reward == 0.0
        for tool, arguments in [*gold, ("submit", {})]:
            with pytest.raises(CallRefusedError, match=r"over|finished"):
                await session.submit(tool, arguments)
        return await session.summary()

    summary = with_client(name, body, LIMIT)
    assert (summary.episode_return, summary.steps) == (0.0, 1)


@pytest.mark.parametrize(("name", "cls"), BOTH)
def test_nothing_is_left_over_from_another_episode(name, cls):
    gold = list(cls.gold_actions(cls.get_task("test", 3)))

    async def body(client):
        winner = await client.create(split="test", index=3)
        beside = await client.create(split="test", index=3)
        won = await do(winner, gold)
        await winner.aclose()
        after = await client.create(split="test", index=3)
        return [won, await beside.submit("submit", {}), await after.submit("submit", {})]

    assert [output.reward for output in with_client(name, body, LIMIT)] == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(("name", "cls"), BOTH)
def test_the_same_work_is_judged_the_same(name, cls):
    gold = list(cls.gold_actions(cls.get_task("test", 4)))

    async def body(client):
        return [(await do(await client.create(split="test", index=4), gold)).reward for _ in range(3)]

    assert with_client(name, body, LIMIT) == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(("name", "cls"), BOTH)
def test_the_answer_is_nowhere_in_the_sandbox(name, cls):
    actions = cls.gold_actions(cls.get_task("test", 5))
    gold = [
        line for _, arguments in actions for value in arguments.values() for line in str(value).splitlines()
    ]

    async def body(client):
        session = await client.create(split="test", index=5)
        given = (await session.submit("bash", {"command": "find . -type f -exec cat {} +"})).blocks[0].text
        canary = max((line.strip() for line in gold if line.strip() not in given), key=len)
        assert len(canary) > 20
        await session.submit("create", {"path": "pattern", "content": f"{canary}\n"})
        search = (
            "grep -rlF -f pattern /work /home /tmp /etc /opt /root /srv /var /run 2>/dev/null; "
            "tr '\\0' '\\n' < /proc/1/environ | grep -cF -f pattern; env | grep -cF -f pattern"
        )
        return (await session.submit("bash", {"command": search})).blocks[0].text

    assert with_client(name, body, LIMIT).split() == ["/work/pattern", "0", "0"]
