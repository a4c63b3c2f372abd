"""A program is handed the episode's URL, and nothing of it is left when the attempt has ended."""

import sys
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from ors_server.evaluation.agents.base import AgentSettingsError
from ors_server.evaluation.agents.command_agent import MAX_OUTPUT, CommandAgent
from ors_server.evaluation.attempt_runner import AttemptRunner
from ors_server.evaluation.budgets import UsageBudget
from ors_server.evaluation.local_target import open_local_target
from ors_server.evaluation.runs import AttemptStatus
from ors_server.testing import FakeClock
from tests.fixtures.evaluated_environments import Guessing
from tests.fixtures.evaluation_plays import PLACE, ScriptedAgent, rules_of
from tests.fixtures.hurried_clock import HurriedClock

pytestmark = pytest.mark.timeout(60)


async def played(agent, clock=None, **changes):
    async with open_local_target(Guessing) as target:
        served = replace(target, gives_urls=True)
        return await AttemptRunner(served, agent, rules_of(**changes), clock or FakeClock()).play(PLACE)


def after_the_end(command):
    """Ends the episode before the program is started."""
    agent = CommandAgent(command, clock=HurriedClock())

    async def play(session):
        await session.call("guess", {"number": 2})
        return await agent.play(session)

    return ScriptedAgent(play)


def is_gone(pid):
    """Says whether a process is no more, or only waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


async def gone(pid):
    with anyio.fail_after(20):
        while not is_gone(pid):
            await anyio.lowlevel.checkpoint()


async def test_a_program_is_told_where_and_what_it_plays_and_its_output_is_kept():
    script = "'echo $0 $ORS_AGENT_URL; echo \"$1\" >&2'"
    command = f"sh -c {script} '{{url}} {{split}} {{index}} {{attempt}} {{seed}}' '{{prompt}}'"
    attempt, log = await played(CommandAgent(command))
    first, second = "".join(log).splitlines()
    url = first.partition(" ")[0]
    assert url.startswith("http://127.0.0.1/agent/")
    assert url.endswith("/mcp")
    assert first == f"{url} test 2 1 {attempt.seed} {url}"
    assert second == "Guess the number, which is 2."
    assert (attempt.status, attempt.stop_reason, attempt.steps) == (AttemptStatus.DONE, "exited", 0)


async def test_what_a_prompt_says_is_not_filled_in_again():
    class Sly(Guessing):
        name = "sly"

        def get_prompt(self):
            return "{url} {seed}"

    async with open_local_target(Sly) as target:
        served = replace(target, gives_urls=True)
        agent = CommandAgent("echo {prompt}")
        _, log = await AttemptRunner(served, agent, rules_of(), FakeClock()).play(PLACE)
    assert "".join(log) == "{url} {seed}\n"


async def test_a_program_that_fails_errs():
    attempt, log = await played(CommandAgent("sh -c 'echo no luck; exit 3'"))
    assert attempt.status is AttemptStatus.ERRORED
    assert "sh ended with status 3 while the episode was not over" in attempt.error
    assert log == ["no luck\n"]


async def test_a_program_that_is_not_there_errs():
    attempt, _ = await played(CommandAgent("/no/such/program {url}"))
    assert attempt.status is AttemptStatus.ERRORED
    assert "/no/such/program cannot be started" in attempt.error


async def test_a_program_that_fails_after_the_end_does_no_harm():
    attempt, _ = await played(after_the_end("sh -c 'exit 3'"))
    assert (attempt.status, attempt.episode_return) == (AttemptStatus.DONE, 1.0)


async def test_a_program_that_goes_on_after_the_end_is_ended_with_everything_it_started(tmp_path):
    children = tmp_path / "pid"
    attempt, _ = await played(after_the_end(f"sh -c 'sleep 1000 & echo $! > {children}; wait'"))
    assert attempt.status is AttemptStatus.DONE
    assert (attempt.episode_return, attempt.stop_reason) == (1.0, "completed")
    written = children.read_text() if children.exists() else ""
    if written:  # it may have been ended before it came so far
        await gone(int(written))


async def test_a_program_that_does_not_listen_is_killed_when_the_time_is_up(tmp_path):
    clock, mark = FakeClock(), tmp_path / "pids"
    stubborn = (
        "import os, signal, time; signal.signal(15, signal.SIG_IGN); "
        f"open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(1000)"
    )
    agent = CommandAgent(f'{sys.executable} -S -c "{stubborn}"', stop=0.01, clock=clock)
    found = []

    async def run():
        found.append(await played(agent, clock, budget=UsageBudget(seconds=60)))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        while not (mark.exists() and mark.read_text()):
            await anyio.lowlevel.checkpoint()
        await clock.until_sleeping(2)
        await clock.advance(60)
    ((attempt, _),) = found
    assert (attempt.status, attempt.stop_reason) == (AttemptStatus.OVER_BUDGET, "time_budget")
    await gone(int(mark.read_text()))


async def test_of_a_long_output_the_end_is_kept():
    program = f"print('x' * {2 * MAX_OUTPUT} + 'end')"
    _, log = await played(CommandAgent(f'{sys.executable} -S -c "{program}"'))
    assert len(log[0]) == MAX_OUTPUT
    assert log[0].endswith("end\n")


@pytest.mark.parametrize("command", ["", "  ", "say 'hello"], ids=["nothing", "blank", "an open quote"])
def test_a_command_line_that_cannot_be_read_is_refused(command):
    with pytest.raises(AgentSettingsError):
        CommandAgent(command)


def test_a_program_is_described_by_its_command_line():
    described = CommandAgent("/usr/bin/claude -p --mcp {url}").describe()
    assert described == {"kind": "command", "name": "claude", "command": "/usr/bin/claude -p --mcp {url}"}
    assert CommandAgent("x", name="mine").describe()["name"] == "mine"
