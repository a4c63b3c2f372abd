"""The source of environments cannot be read from within a sandbox, or is not served without a word."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from ors_server.files.importing import import_file
from ors_server.sandboxes.cells.hidden_paths import HiddenPaths, find_visible, readable_around, source_paths
from ors_server.sandboxes.choose import BackendChoice, BackendRequest, choose
from ors_server.sandboxes.host.bubblewrap import BubblewrapBackend
from ors_server.sandboxes.host.landlock import LandlockBackend
from ors_server.sandboxes.sandbox_errors import SandboxUnavailableError
from ors_server.testing.local_client import open_environment
from tests.fixtures.opened_backend import open_backend

SYSTEM = Path("/usr/local/share")


@pytest.fixture
def installed():
    """A package with an answer, where sandboxes show the system; a file of its own beside it."""
    if os.geteuid() != 0:
        pytest.fail("only root can install under /usr")
    folder = SYSTEM / f"ors-test-{os.getpid()}"
    (folder / "quiz" / "data").mkdir(parents=True)
    (folder / "quiz" / "__init__.py").write_text("ANSWER = 42\n")
    (folder / "quiz" / "data" / "answers.json").write_text("[42]")
    (folder / "quiz.md").write_text("nothing hidden")
    (folder / "riddle.py").write_text("ANSWER = 43\n")
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("make", [BubblewrapBackend, LandlockBackend])
async def test_hidden_places_are_empty_or_closed_in_commands_and_fresh_programs(make, installed):
    hidden = HiddenPaths((installed / "quiz", installed / "riddle.py"), further=(installed / "not there",))
    async with open_backend(make) as backend:
        backend.state.hidden = hidden
        sandbox = await backend.start("curious")
        look = (
            f"cat {installed}/quiz/__init__.py {installed}/quiz/data/answers.json {installed}/riddle.py; "
            f"grep -r 4 {installed} ; cat {installed}/quiz.md; "
            f"cd {installed}/quiz && echo no > new; ls /usr/bin/env; python3 -c 'import json; print(json)'"
        )
        result = await sandbox.exec(look)
        run = await sandbox.run_fresh(["/bin/sh", "-c", look], time_limit=20)
        for said in (result.stdout.text, run.stdout.text):
            assert "42" not in said
            assert "43" not in said
            assert "nothing hidden" in said
            assert "/usr/bin/env" in said
            assert "<module 'json'" in said
        assert await find_visible(sandbox, hidden) is None
        assert await find_visible(sandbox, HiddenPaths((installed / "quiz.md",))) == str(
            installed / "quiz.md"
        )
        assert await find_visible(sandbox, HiddenPaths((), ("json",)))


async def test_an_isolation_that_shows_answers_is_refused_unless_that_is_allowed(installed):
    hidden = HiddenPaths((installed / "quiz",))
    wanted = BackendRequest(BackendChoice.NONE, allow_unsandboxed=True, hidden=hidden)
    with pytest.raises(SandboxUnavailableError, match=r"agents could read .*quiz.*--allow-visible-answers"):
        await choose(wanted)
    allowed = BackendRequest(
        BackendChoice.NONE, allow_unsandboxed=True, hidden=hidden, allow_visible_answers=True
    )
    chosen = await choose(allowed)
    await chosen.aclose()
    for choice in (BackendChoice.BUBBLEWRAP, BackendChoice.LANDLOCK):
        chosen = await choose(BackendRequest(choice, hidden=hidden))
        await chosen.aclose()


async def test_what_sessions_cannot_see_anyway_is_served_on_every_isolation(tmp_path):
    (tmp_path / "quiz.py").write_text("ANSWER = 42\n")
    tmp_path.chmod(0o700)  # as a home folder
    # Without root, commands that nothing isolates are those of the folder's owner.
    unisolated = [BackendChoice.NONE] if os.geteuid() == 0 else []
    for choice in (BackendChoice.BUBBLEWRAP, BackendChoice.LANDLOCK, *unisolated):
        wanted = BackendRequest(choice, allow_unsandboxed=True, hidden=HiddenPaths((tmp_path,)))
        chosen = await choose(wanted)
        assert chosen.backend.name == choice.value
        await chosen.aclose()


def test_what_leads_to_a_hidden_place_is_read_around_it(tmp_path):
    for name in ("a/b/hidden", "a/b/shown", "a/c", "d"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "d" / "link").symlink_to(tmp_path / "a" / "b" / "hidden")
    (tmp_path / "a" / "round").symlink_to(tmp_path / "a")
    readable, listed = readable_around([str(tmp_path), "/absent"], HiddenPaths((tmp_path / "a/b/hidden",)))
    assert sorted(readable) == ["/absent", *(str(tmp_path / name) for name in ("a/b/shown", "a/c", "d"))]
    assert sorted(listed) == [str(tmp_path / name) for name in (".", "a", "a/b")]
    assert readable_around([str(tmp_path)], HiddenPaths()) == ([str(tmp_path)], [])
    assert readable_around([str(tmp_path / "d")], HiddenPaths((tmp_path / "d",))) == ([], [])


def test_a_module_s_source_is_its_package_or_its_file_with_what_was_compiled_of_it(tmp_path):
    compiled = tmp_path / "__pycache__" / f"quiz.{sys.implementation.cache_tag}.pyc"
    compiled.parent.mkdir()
    compiled.touch()
    assert source_paths(str(tmp_path / "quiz.py")) == [tmp_path / "quiz.py", compiled]
    assert source_paths(str(tmp_path / "quiz" / "main.py"), [str(tmp_path / "quiz")]) == [tmp_path / "quiz"]


QUIZ = """
from tests.fixtures.single_task import SingleTask
class Quiz(SingleTask):
    name = "hidden-quiz"
    toolsets = ("bash", "submit")
    answer = "forty-" + "two"  # answered: forty-two
    async def grade_submission(self, submission): return float(submission.answer == self.answer)
"""


@pytest.mark.parametrize("choice", [BackendChoice.BUBBLEWRAP, BackendChoice.LANDLOCK])
async def test_an_agent_cannot_read_the_environment_that_it_plays(installed, choice):
    file = installed / "hidden_quiz.py"
    file.write_text(QUIZ)
    quiz = import_file(file, f"hidden_quiz_{choice}").Quiz
    async with open_environment(quiz, sandbox=BackendRequest(choice)) as client:
        session = await client.create(split="train", index=0)
        output = await session.submit(
            "bash", {"command": f"cat {file} {installed}/quiz.md; grep -r forty {installed}"}
        )
    assert "nothing hidden" in output.blocks[0].text
    assert "forty-two" not in output.blocks[0].text
