"""The bash tool: what it shows, what it says of a command's end, and what it refuses."""

import dataclasses
import math

import pytest

from ors_server import Environment, EpisodePolicy
from ors_server.environments.tool import ForbiddenActionError, ToolError
from ors_server.environments.toolsets.bash import BashTools
from ors_server.environments.toolsets.command_results import clamp_time_limit
from ors_server.model.errors import EnvironmentDefinitionError
from ors_server.model.policy import PenaltyCause
from ors_server.sandboxes.base import Killed, Limits
from ors_server.sandboxes.sandbox_errors import SandboxClosedError
from ors_server.sandboxes.scripted import answers, result

NOTE = "[Exit status 137 (128 + n stands for signal n, here 9).]"


async def test_a_silent_command_says_so_and_sends_no_empty_text(call, scripted):
    bash = BashTools(await scripted(answers({"true": b""})))
    output = await bash.bash(call(), command="true")
    assert [(block.text, block.detail) for block in output.blocks] == [("(no output)", {"stream": "stdout"})]
    assert output.metadata == {
        "bash": {
            "exit_code": 0,
            "timed_out": False,
            "killed": None,
            "shell_restarted": False,
            "state_lost": False,
            "output_limit": False,
            "stdout_bytes": 0,
            "stderr_bytes": 0,
            "cwd": "/work",
            "duration_s": 0.0,
        }
    }
    assert output.reward is None


async def test_a_failing_command_is_a_result_that_is_charged_and_said_in_words(call, scripted, texts):
    bash = BashTools(await scripted(lambda *_: result(exit_code=137, stdout=b"out\n", stderr=b"err\n")))
    called = call()
    output = await bash.bash(called, command="x")
    assert texts(output) == {"stdout": "out\n", "stderr": "err\n", "notes": NOTE}
    assert output.metadata["bash"]["stderr_bytes"] == 4
    assert called.charged == [PenaltyCause.COMMAND_ERROR]


async def test_a_command_that_succeeds_is_not_charged_and_one_whose_status_nobody_knows_did_not_succeed(
    call, scripted
):
    lost = dataclasses.replace(result(), exit_code=None, killed=Killed.SHELL_DIED)
    for answer, code, charged in ((lost, None, [PenaltyCause.COMMAND_ERROR]), (result(), 0, [])):
        called = call()
        bash = BashTools(await scripted(lambda *_, answer=answer: answer))
        output = await bash.bash(called, command="x")
        assert (output.metadata["bash"]["exit_code"], called.charged) == (code, charged)


@pytest.mark.parametrize(
    ("changes", "said", "told"),
    [
        ({"killed": Killed.TIME_LIMIT}, "stopped after its time limit of 2 seconds", "time limit"),
        ({"killed": Killed.OUTPUT_LIMIT}, "printed more than 67108864 bytes", "output limit"),
        ({"killed": Killed.PROCESS_LIMIT, "notes": ("All killed.",)}, "All killed.", "process limit"),
        (
            {"shell_restarted": True, "notes": ("The shell ended.",)},
            "A new shell was started: files, variables and functions are kept",
            None,
        ),
        (
            {"shell_restarted": True, "state_lost": True},
            "variables, functions, aliases, options and the umask are gone",
            None,
        ),
    ],
)
async def test_what_happened_to_a_command_is_said_and_recorded(call, scripted, texts, changes, said, told):

    bash = BashTools(await scripted(lambda *_: dataclasses.replace(result(), **changes)))
    output = await bash.bash(call(), command="x", time_limit=2)
    assert said in texts(output)["notes"]
    found = output.metadata["bash"]
    assert found["killed"] == told
    assert found["timed_out"] is (told == "time limit")
    assert found["output_limit"] is (told == "output limit")
    assert found["shell_restarted"] is changes.get("shell_restarted", False)
    assert found["state_lost"] is changes.get("state_lost", False)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "expected a command, or restart=true"),
        ({"command": "a\0b"}, "NUL characters; there is one at position 1"),
        ({"command": "a\udc80b"}, "lone surrogate at position 1"),
        ({"command": "é" * 11}, "at most 20 bytes, got 22"),
        ({"command": "x", "time_limit": 0}, "above 0, got 0"),
        ({"command": "x", "time_limit": -1.0}, r"above 0, got -1\.0"),
        ({"command": "x", "time_limit": math.nan}, "above 0, got nan"),
    ],
)
async def test_what_cannot_be_run_is_refused_with_what_was_expected(call, scripted, arguments, expected):
    bash = BashTools(await scripted(answers({}), limits=Limits(command_bytes=20)))
    with pytest.raises(ToolError, match=expected):
        await bash.bash(call(), **arguments)
    assert bash.environment.sandbox.commands == []


async def test_an_empty_command_is_a_command(call, scripted):
    bash = BashTools(await scripted(answers({"": b""})))
    await bash.bash(call(), command="")
    assert bash.environment.sandbox.commands == [""]


async def test_a_restart_is_said_and_may_be_followed_by_a_command(call, scripted, texts):
    bash = BashTools(await scripted(answers({"pwd": b"/work\n"})))
    alone = await bash.bash(call(), restart=True)
    assert "shell was restarted" in texts(alone)["notes"]
    assert alone.metadata["bash"]["shell_restarted"] is True
    assert alone.metadata["bash"]["exit_code"] is None
    both = await bash.bash(call(), restart=True, command="pwd")
    assert texts(both)["stdout"] == "/work\n"
    assert both.metadata["bash"]["shell_restarted"] is True
    assert bash.environment.sandbox.restarts == 2


async def test_a_forbidden_command_is_not_run_and_its_rule_is_named(call, scripted):
    bash = BashTools(await scripted(answers({})))
    policy = EpisodePolicy(forbidden_commands=("curl", "rm -rf"))
    with pytest.raises(ForbiddenActionError, match=r"the rule 'rm -rf' matches 'rm -fr x'"):
        await bash.bash(call(policy=policy), command="ls; rm -fr x", restart=True)
    assert bash.environment.sandbox.commands == []
    assert bash.environment.sandbox.restarts == 0
    with pytest.raises(ToolError, match="write a simpler one"):
        await bash.bash(call(policy=policy), command="sudo " * 40 + "rm")
    await bash.bash(call(policy=policy), command="echo 'rm -rf x'")
    assert bash.environment.sandbox.commands == ["echo 'rm -rf x'"]


def test_a_pattern_that_is_none_is_the_authors_error_when_the_class_is_loaded():
    class Wrong(Environment):
        policy = EpisodePolicy(forbidden_commands=("rm 'x",))

    with pytest.raises(EnvironmentDefinitionError, match=r"Wrong: a forbidden command is shell words"):
        BashTools.check_environment(Wrong)


async def test_a_dead_sandbox_is_the_machinerys_fault(call, scripted):
    bash = BashTools(await scripted(answers({})))
    await bash.environment.sandbox.aclose()
    with pytest.raises(SandboxClosedError):
        await bash.bash(call(), command="x")


@pytest.mark.parametrize(
    ("wanted", "call_limit", "given"),
    [
        (None, None, 120.0),
        (5.0, None, 5.0),
        (1e9, None, 600.0),
        (math.inf, None, 600.0),
        (None, 100.0, 87.0),
        (50.0, 100.0, 50.0),
        (None, 20.0, 10.0),
        (30.0, 1.0, 0.5),
    ],
)
def test_a_commands_time_ends_before_its_calls(wanted, call_limit, given):
    assert clamp_time_limit(wanted, Limits(), call_limit) == given


async def test_a_real_shell_keeps_its_state_and_keeps_its_streams_apart(call, real, texts):
    async with real() as place:
        bash = BashTools(place)
        await bash.bash(call(), command="mkdir d; cd d; x=1")
        output = await bash.bash(call(), command="echo $x; pwd >&2; exit_with() { return 3; }; exit_with")
        assert texts(output) == {"stdout": "1\n", "stderr": "/work/d\n", "notes": "[Exit status 3.]"}
        assert output.metadata["bash"]["cwd"] == "/work/d"
        slow = await bash.bash(call(), command="echo begun; sleep 1000", time_limit=2)
        assert slow.metadata["bash"]["timed_out"] is True
        assert texts(slow)["stdout"] == "begun\n"
        later = await bash.bash(call(), command="(sleep 0.2; echo late) & wait; echo $x")
        assert texts(later)["stdout"] == "late\n1\n"
        gone = await bash.bash(call(), command="exit 4")
        assert gone.metadata["bash"]["shell_restarted"] is True
        assert texts(await bash.bash(call(), command="pwd"))["stdout"] == "/work/d\n"
        fresh = await bash.bash(call(), restart=True, command="echo ${x-none}; ls; pwd")
        assert texts(fresh)["stdout"] == "none\nd\n/work\n"


async def test_the_middle_of_a_long_output_is_left_out_in_words(call, real, texts):
    async with real() as place:
        bash = BashTools(place)
        output = await bash.bash(call(), command="seq 100000")
        shown = texts(output)["stdout"]
        assert shown.startswith("1\n2\n")
        assert shown.endswith("\n100000\n")
        assert "bytes omitted" in shown
        assert output.metadata["bash"]["stdout_bytes"] == 588_895
