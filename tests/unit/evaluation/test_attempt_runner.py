"""One attempt, from the order for a session to its outcome, on an engine of this process."""

import anyio
import pytest

from ors_server import EpisodePolicy
from ors_server.evaluation.agents.base import AgentError, AgentReport
from ors_server.evaluation.agents.baselines import OracleAgent
from ors_server.evaluation.attempt_runner import AttemptRunner
from ors_server.evaluation.budgets import BudgetSpentError, Limit, UsageBudget
from ors_server.evaluation.local_target import choose_definition, open_local_target
from ors_server.evaluation.runs import AttemptStatus
from ors_server.evaluation.targets import TargetError
from ors_server.model.errors import StoreError, first_of
from ors_server.store.memory import MemoryStore
from ors_server.testing import FakeClock
from tests.fixtures.evaluated_environments import Broken, Guessing, Talking
from tests.fixtures.evaluation_plays import PLACE, ScriptedAgent, attempt_with, rules_of

LIMIT = 20.0


async def outcome(play, environment=Guessing, **changes):
    with anyio.fail_after(LIMIT):
        attempt, _ = await attempt_with(environment, ScriptedAgent(play), **changes)
    return attempt


async def test_an_attempt_tells_everything_that_is_known_of_it():
    async def play(session):
        assert await session.prompt() == "Guess the number, which is 2."
        await session.call("bonus")
        answer = await session.call("guess", {"number": 2})
        assert (answer.text, answer.reward, answer.finished) == ("So it is.", 1.0, True)
        session.spend(10, 2, 0.5)

    attempt = await outcome(play)
    assert attempt.status is AttemptStatus.DONE
    assert (attempt.episode_return, attempt.last_reward, attempt.success) == (1.25, 1.0, True)
    assert (attempt.steps, attempt.finished, attempt.stop_reason) == (2, True, "completed")
    assert (attempt.tokens_in, attempt.tokens_out, attempt.cost) == (10, 2, 0.5)
    assert len(attempt.task_hash) == 64
    assert len(attempt.episode_id) == 32
    assert attempt.session_id
    assert attempt.seconds > 0


async def test_the_episode_is_recorded_with_its_seed_and_its_place_in_the_run():
    store = MemoryStore()
    async with open_local_target(Guessing, store=store) as target:
        attempt, _ = await AttemptRunner(target, OracleAgent(), rules_of(), FakeClock()).play(PLACE)
        record = await store.find(attempt.episode_id)
    assert record.origin.seed == attempt.seed
    assert record.origin.labels == {"run": "run-1", "attempt": "1", "agent": "oracle"}
    assert (record.origin.split, record.origin.index, record.is_closed) == ("test", 2, True)


async def test_the_same_place_of_the_same_run_has_the_same_chances():
    async def roll(session):
        await session.call("roll")

    first, second = [await outcome(roll) for _ in range(2)]
    others = [(await outcome(roll, seed=seed)).episode_return for seed in range(8)]
    assert (first.seed, first.episode_return) == (second.seed, second.episode_return)
    assert len(set(others)) > 1


async def test_an_agent_that_leaves_says_why():
    async def leave(session):
        return AgentReport("bored", tokens_in=5, tokens_out=1)

    attempt = await outcome(leave)
    assert (attempt.status, attempt.stop_reason) == (AttemptStatus.DONE, "bored")
    assert (attempt.episode_return, attempt.steps, attempt.tokens_in) == (0.0, 0, 5)


async def test_an_agent_that_crashes_errs_and_leaves_its_traceback():
    async def crash(session):
        await session.call("bonus")
        raise KeyError("oops")

    with anyio.fail_after(LIMIT):
        attempt, log = await attempt_with(Guessing, ScriptedAgent(crash))
    assert attempt.status is AttemptStatus.ERRORED
    line = crash.__code__.co_firstlineno + 2
    assert attempt.error == f"KeyError: 'oops' (test_attempt_runner.py:{line})"
    assert (attempt.episode_return, attempt.success, attempt.steps) == (None, None, 1)
    assert "in crash" in "".join(log)


async def test_an_error_in_a_group_is_told_as_what_failed_first():
    async def fail():
        raise AgentError("the endpoint is down")

    async def play(session):
        async with anyio.create_task_group() as group:
            group.start_soon(fail)

    assert (await outcome(play)).error == "the endpoint is down"
    assert str(first_of(ExceptionGroup("", [ExceptionGroup("", [ValueError("x")])]))) == "x"


async def test_a_tool_that_fails_errs_even_if_the_agent_goes_on():
    async def play(session):
        with pytest.raises(Exception, match="the author's mistake"):
            await session.call("crash")
        await session.call("guess", {"number": 2})

    attempt = await outcome(play)
    assert attempt.status is AttemptStatus.ERRORED
    assert attempt.error == "the environment's own code failed in 1 of 2 calls"


async def test_an_environment_that_cannot_be_set_up_errs():
    async def play(session):
        await session.prompt()

    attempt = await outcome(play, Broken)
    assert attempt.status is AttemptStatus.ERRORED
    assert "no setup today" in attempt.error


async def test_an_end_without_a_judgement_is_no_return_of_zero():
    async def play(session):
        await session.call("bonus")
        await session.call("shrug")

    attempt = await outcome(play)
    assert (attempt.status, attempt.episode_return) == (AttemptStatus.ERRORED, None)
    assert "could not be graded" in attempt.error


async def test_an_agent_s_mistake_is_told_to_it_and_no_error():
    async def play(session):
        for tool, arguments in (("nothing", {}), ("guess", {"number": "many"})):
            answer = await session.call(tool, arguments)
            assert answer.is_error
            assert answer.text

    attempt = await outcome(play)
    assert (attempt.status, attempt.steps) == (AttemptStatus.DONE, 2)


async def test_after_the_end_nothing_is_called():
    async def play(session):
        await session.call("guess", {"number": 2})
        assert session.is_over
        answer = await session.call("bonus")
        assert (answer.finished, answer.is_error) == (True, True)

    attempt = await outcome(play)
    assert (attempt.steps, attempt.episode_return) == (1, 1.0)


async def test_calls_beyond_the_budget_are_not_made():
    async def play(session):
        while True:
            await session.call("bonus")

    attempt = await outcome(play, budget=UsageBudget(steps=3))
    assert (attempt.status, attempt.stop_reason) == (AttemptStatus.OVER_BUDGET, "step_budget")
    assert (attempt.steps, attempt.episode_return, attempt.success) == (3, 0.75, False)


async def test_a_budget_that_a_report_overdraws_is_over_too():
    async def play(session):
        return AgentReport("agent", tokens_in=100, tokens_out=1)

    attempt = await outcome(play, budget=UsageBudget(tokens=100))
    assert (attempt.stop_reason, attempt.tokens_in) == ("token_budget", 100)


async def test_what_an_agent_raises_after_its_budget_does_not_hide_the_budget():
    async def play(session):
        async with anyio.create_task_group() as group:
            group.start_soon(session.call, "bonus")
            raise BudgetSpentError(Limit.COST)

    assert (await outcome(play)).stop_reason == "cost_budget"


async def test_time_that_is_up_cancels_the_call_and_keeps_what_was_paid():
    clock, paid = FakeClock(), anyio.Event()

    async def play(session):
        await session.call("bonus")
        paid.set()
        await session.call("wait")

    async with open_local_target(Guessing) as target:
        player = AttemptRunner(target, ScriptedAgent(play), rules_of(budget=UsageBudget(seconds=60)), clock)
        found = []
        with anyio.fail_after(LIMIT):
            async with anyio.create_task_group() as group:

                async def run():
                    found.append((await player.play(PLACE))[0])

                group.start_soon(run)
                await clock.until_sleeping()
                await paid.wait()
                await anyio.wait_all_tasks_blocked()
                await clock.advance(60)
    (attempt,) = found
    assert (attempt.status, attempt.stop_reason) == (AttemptStatus.OVER_BUDGET, "time_budget")
    assert (attempt.episode_return, attempt.seconds) == (0.25, 60.0)


async def test_a_policy_is_passed_on_and_a_step_budget_becomes_one_for_agents_outside():
    class Outside(ScriptedAgent):
        plays_outside = True

    async def play(session):
        for _ in range(3):
            await session.call("bonus")

    attempt = await outcome(play, policy={"step_limit": 2})
    assert (attempt.status, attempt.stop_reason, attempt.steps) == (AttemptStatus.DONE, "step_limit", 2)
    outside, _ = await attempt_with(
        Guessing, Outside(play), budget=UsageBudget(steps=2), policy={"step_limit": 5}
    )
    assert (outside.status, outside.stop_reason) == (AttemptStatus.OVER_BUDGET, "step_budget")
    refused = await outcome(play, policy={"discount": 0.5})

    class Short(Guessing):
        name = "short"
        policy = EpisodePolicy(step_limit=2)

    own, _ = await attempt_with(Short, Outside(play), budget=UsageBudget(steps=9))
    assert (own.status, own.stop_reason, own.steps) == (AttemptStatus.DONE, "step_limit", 2)
    assert "may override" in refused.error


async def test_a_session_that_cannot_be_made_errs_without_an_episode():
    attempt = await outcome(None, policy={"nonsense": 1})
    assert attempt.status is AttemptStatus.ERRORED
    assert (attempt.episode_id, attempt.session_id, attempt.task_hash) == (None, None, "")


async def test_a_terminal_tool_is_there_for_whoever_asks():
    async def play(session):
        listing = await session.tools()
        await session.call(listing.terminal_tool.name, {listing.terminal_tool.arg: "yes"})

    attempt, _ = await attempt_with(Talking, ScriptedAgent(play), type(PLACE)("test", 0, 1))
    assert attempt.episode_return == 1.0


async def test_an_engine_that_is_not_served_gives_no_url():
    async def play(session):
        with pytest.raises(TargetError, match="not served"):
            await session.agent_url()
        assert not await session.has_ended()

    assert (await outcome(play)).status is AttemptStatus.DONE


async def test_a_store_that_fails_errs_instead_of_paying():
    class Full(MemoryStore):
        async def append(self, episode_id, step, summarise):
            raise StoreError("the disk is full")

    async def play(session):
        await session.call("bonus")

    async with open_local_target(Guessing, store=Full()) as target:
        attempt, _ = await AttemptRunner(target, ScriptedAgent(play), rules_of(), FakeClock()).play(PLACE)
    assert attempt.status is AttemptStatus.ERRORED
    assert attempt.error.startswith("the disk is full; ")


def test_one_of_several_environments_is_chosen_by_name():
    reference = "tests/fixtures/evaluated_environments.py"
    assert choose_definition(reference, "Talking").name == "talking"
    with pytest.raises(Exception, match=r"guessing, talking.*--environment|--environment"):
        choose_definition(reference)
    definition = choose_definition(Guessing)
    assert choose_definition(definition) is definition
