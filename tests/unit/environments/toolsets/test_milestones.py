"""Milestones pay once, when they are so, and never when nobody could tell."""

import math

import pytest

from ors_server import (
    CommandSucceeds,
    Environment,
    FileExists,
    FileMatches,
    Milestone,
    OffloadLimits,
    ToolOutput,
)
from ors_server.environments.toolsets import milestones as milestones_module
from ors_server.environments.toolsets.bash import BashTools
from ors_server.environments.toolsets.file_tools import FileTools
from ors_server.environments.toolsets.milestones import (
    check_milestones,
    load_reached_milestones,
    pay_progress,
    reached_milestones,
)
from ors_server.environments.toolsets.python import PythonTools
from ors_server.grading.evidence import gather_evidence
from ors_server.model.errors import EnvironmentDefinitionError, EnvironmentFailedError
from ors_server.sandboxes.base import Limits
from ors_server.sandboxes.sandbox_errors import SandboxClosedError
from tests.fixtures.loop_slices import measured_slices, yardstick

FIRST = Milestone("first", 0.25, FileExists("a"))
SECOND = Milestone("second", 0.5, FileMatches("b", content="done\n"))


async def pay(place, reward=None):
    output = await pay_progress(place, ToolOutput(reward=reward, metadata={"bash": {}}))
    assert output.metadata["bash"] == {}
    return output.reward, output.metadata["progress"]


async def test_each_pays_once_in_the_order_of_declaration(scripted):
    place = await scripted(milestones=(FIRST, SECOND))
    assert await pay(place) == (None, {"reached": [], "new": []})
    place.sandbox.files["b"] = b"done\n"
    assert await pay(place) == (0.5, {"reached": ["second"], "new": ["second"]})
    place.sandbox.files["a"] = b""
    del place.sandbox.files["b"]
    assert await pay(place, 1.0) == (1.25, {"reached": ["first", "second"], "new": ["first"]})
    assert await pay(place, 1.0) == (1.0, {"reached": ["first", "second"], "new": []})
    place.sandbox.files.clear()
    assert await pay(place) == (None, {"reached": ["first", "second"], "new": []})


async def test_all_that_one_call_reaches_is_paid_together(scripted):
    place = await scripted(milestones=(FIRST, SECOND))
    place.sandbox.files |= {"a": b"", "b": b"done\n"}
    assert await pay(place) == (0.75, {"reached": ["first", "second"], "new": ["first", "second"]})


async def test_an_environment_without_milestones_says_nothing_of_them(scripted):
    output = await pay_progress(await scripted(), ToolOutput())
    assert output.metadata is None


async def test_a_copy_of_a_session_is_not_paid_again(scripted):
    place, copy = await scripted(milestones=(FIRST,)), await scripted(milestones=(FIRST,))
    place.sandbox.files["a"] = copy.sandbox.files["a"] = b""
    await pay(place)
    load_reached_milestones(copy, reached_milestones(place))
    assert await pay(copy) == (None, {"reached": ["first"], "new": []})


async def test_nothing_of_the_agents_runs_while_milestones_are_looked_at(scripted):
    seen = []

    async def look(evidence):
        seen.append(evidence.sandbox.is_frozen)
        return True

    place = await scripted(milestones=(Milestone("look", 1.0, look),))
    await pay(place)
    await pay(place)
    assert seen == [True]
    assert place.sandbox.is_frozen is False


async def _raise(_evidence):
    raise KeyError("author")


async def _vague(_evidence):
    return "yes"


async def _careless(evidence):
    return await evidence.read_file("none") == b""


@pytest.mark.parametrize(
    ("predicate", "said"),
    [(_raise, "KeyError"), (_vague, "True or False, got a str"), (_careless, "no such file")],
)
async def test_a_predicate_that_fails_is_the_authors_error_and_pays_nothing(scripted, predicate, said):
    place = await scripted(milestones=(FIRST, Milestone("broken", 1.0, predicate)))
    place.sandbox.files["a"] = b""
    with pytest.raises(EnvironmentFailedError, match=said):
        await pay(place)
    assert reached_milestones(place) == []
    assert place.sandbox.is_frozen is False
    place.milestones = (FIRST,)
    assert (await pay(place))[0] == 0.25


async def test_a_dead_sandbox_is_not_a_milestone_missed(scripted):
    place = await scripted(milestones=(FIRST,))
    await place.sandbox.aclose()
    with pytest.raises(SandboxClosedError):
        await pay(place)


@pytest.mark.parametrize("reward", [0.0, -1.0, math.nan, math.inf])
def test_a_reward_that_is_no_gain_is_refused(reward):
    with pytest.raises(ValueError, match="finite number above 0"):
        Milestone("m", reward, FileExists("a"))


def test_what_is_no_milestone_is_refused():
    with pytest.raises(ValueError, match="has a name"):
        Milestone("", 1.0, FileExists("a"))
    with pytest.raises(TypeError, match="must be callable"):
        Milestone("m", 1.0, "a")
    with pytest.raises(ValueError, match="one of them"):
        FileMatches("a")
    with pytest.raises(ValueError, match="one of them"):
        FileMatches("a", pattern="x", content="x")
    with pytest.raises(TypeError, match="takes a list"):
        CommandSucceeds("make test")
    with pytest.raises(ValueError, match="at least a program"):
        CommandSucceeds([])
    with pytest.raises(ValueError, match="above 0"):
        CommandSucceeds(["true"], time_limit=0)


@pytest.mark.parametrize("toolset", [BashTools, PythonTools, FileTools])
def test_milestones_are_checked_when_the_class_is_loaded(toolset):
    class Twice(Environment):
        milestones = (FIRST, FIRST)

    odd = type("Odd", (Environment,), {"milestones": ("first",)})
    with pytest.raises(EnvironmentDefinitionError, match="each name must occur once"):
        toolset.check_environment(Twice)
    with pytest.raises(EnvironmentDefinitionError, match="not a Milestone"):
        toolset.check_environment(odd)
    check_milestones(type("Fine", (Environment,), {"milestones": (FIRST, SECOND)}))


async def judge(place, predicate):
    async with gather_evidence(place.sandbox) as evidence:
        return await predicate(evidence)


async def test_predicates_judge_what_is_really_there(real):
    async with real(Limits(read_bytes=1000)) as place:
        await place.sandbox.exec(
            "mkdir d; echo done >d/f; ln -s /etc/passwd out; mkfifo pipe; printf '\\xe9' >raw;"
            "head -c 2000 /dev/zero >big"
        )
        assert await judge(place, FileExists("d/f")) is True
        assert await judge(place, FileExists("d")) is True
        for path in ("none", "out", "pipe", "../work", "/etc/passwd"):
            assert await judge(place, FileExists(path)) is False
            assert await judge(place, FileMatches(path, pattern="")) is False
        assert await judge(place, FileMatches("d/f", content="done\n")) is True
        assert await judge(place, FileMatches("d/f", content=b"done")) is False
        assert await judge(place, FileMatches("d/f", pattern="^d.n")) is True
        assert await judge(place, FileMatches("d/f", pattern="^one")) is False
        assert await judge(place, FileMatches("raw", content=b"\xe9")) is True
        assert await judge(place, FileMatches("big", pattern="x")) is False
        assert await judge(place, FileMatches("d", pattern="")) is False
        with pytest.raises(EnvironmentFailedError, match="looking for '\\('"):
            await judge(place, FileMatches("d/f", pattern="("))


async def test_commands_are_run_afresh_and_never_in_the_agents_shell(real):
    async with real() as place:
        await place.sandbox.exec(
            "echo 'exit 3' >fails.sh; x=1; ls() { return 0; }; touch ~/mark; PATH=/nowhere"
        )
        assert await judge(place, CommandSucceeds(["true"])) is True
        assert await judge(place, CommandSucceeds(["sh", "fails.sh"])) is False
        assert await judge(place, CommandSucceeds(["sh", "-c", 'test -z "$x" && ! test -e ~/mark'])) is True
        assert await judge(place, CommandSucceeds(["ls", "none"])) is False
        assert await judge(place, CommandSucceeds(["sh", "-c", "! touch written"])) is True
        assert await judge(place, CommandSucceeds(["./none"])) is False
        assert await judge(place, CommandSucceeds(["sleep", "1000"], time_limit=0.3)) is False
        with pytest.raises(EnvironmentFailedError, match="no such program"):
            await judge(place, CommandSucceeds(["no-such-program"]))


async def test_every_tool_that_changes_the_sandbox_pays(real, call):
    milestones = tuple(Milestone(name, 1.0, FileExists(name)) for name in ("bash", "python", "files", "late"))
    async with real(milestones=milestones) as place:
        bash = BashTools(place)
        output = await bash.bash(call(), command="(sleep 0.5; touch late) & touch bash; false")
        assert (output.reward, output.metadata["progress"]["new"]) == (1.0, ["bash"])
        assert output.metadata["bash"]["exit_code"] == 1
        output = await PythonTools(place).python(call(), code="open('python', 'w').close()")
        assert "python" in output.metadata["progress"]["new"]
        output = await FileTools(place).create("files", "")
        assert "files" in output.metadata["progress"]["new"]
        output = await bash.bash(call(), command="wait")
        assert output.metadata["progress"]["reached"] == ["bash", "python", "files", "late"]
        assert (await bash.bash(call(), restart=True)).metadata["progress"]["new"] == []


async def test_a_pattern_that_is_slow_on_the_agents_text_reaches_nothing(scripted, monkeypatch):
    monkeypatch.setattr(milestones_module, "_SEARCH_LIMITS", OffloadLimits(cpu_seconds=0.3))
    place = await scripted(milestones=(Milestone("done", 1.0, FileMatches("log", pattern=r"\s+done")),))
    place.sandbox.files["log"] = b" " * 300_000
    with measured_slices() as slices:
        assert await pay(place) == (None, {"reached": [], "new": []})
    assert slices.worst < yardstick(), slices.where
    place.sandbox.files["log"] = b"all done"
    assert await pay(place) == (1.0, {"reached": ["done"], "new": ["done"]})
