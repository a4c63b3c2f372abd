"""A run plays every attempt once, whatever interrupts it."""

import json
import threading
from dataclasses import replace

import anyio
import pytest

from ors_server.evaluation.agents.base import AgentError
from ors_server.evaluation.agents.baselines import OracleAgent
from ors_server.evaluation.attempt_runner import seed_of
from ors_server.evaluation.budgets import UsageBudget
from ors_server.evaluation.folder import RunFolder, read_attempts, read_run
from ors_server.evaluation.local_target import open_local_target
from ors_server.evaluation.runner import RunControls, RunError, Runner, Tally, log_path
from ors_server.evaluation.runs import AttemptKey, AttemptStatus
from ors_server.model.errors import RecordError
from tests.fixtures.evaluated_environments import Guessing
from tests.fixtures.evaluation_plays import ScriptedAgent, WatchedFolder, make_run, play_run

pytestmark = pytest.mark.timeout(60)
EVERY_PLACE = [AttemptKey("test", index, number) for index in (0, 1, 2) for number in (1, 2)]


@pytest.fixture
async def target():
    async with open_local_target(Guessing) as opened:
        yield opened


async def test_every_attempt_is_played_once_with_its_own_seed(target, tmp_path):
    run, attempts = await play_run(target, OracleAgent(), tmp_path)
    assert sorted(attempt.key for attempt in attempts) == EVERY_PLACE
    assert all(attempt.seed == seed_of(7, attempt.key) for attempt in attempts)
    assert all(attempt.episode_return == 1.0 for attempt in attempts)
    assert run.stop_reason is None
    assert run.ended_at is not None
    assert read_run(tmp_path) == run


async def test_the_disk_is_not_waited_for_on_the_event_loop(target, tmp_path):
    folder = WatchedFolder(tmp_path)
    run = make_run()
    folder.begin(run)
    folder.writers.clear()
    await Runner(target, OracleAgent(), folder, RunControls(concurrency=4)).play(run)
    assert len(folder.writers) == len(EVERY_PLACE) + 2
    assert threading.get_ident() not in folder.writers


async def test_every_task_is_played_before_any_is_played_again(target, tmp_path):
    _, attempts = await play_run(target, OracleAgent(), tmp_path, conduct=RunControls(concurrency=1))
    assert [attempt.attempt for attempt in attempts] == [1, 1, 1, 2, 2, 2]


async def test_no_more_attempts_run_at_a_time_than_wished(target, tmp_path):
    now, most = 0, 0
    full = anyio.Event()

    async def play(session):
        nonlocal now, most
        now += 1
        most = max(most, now)
        if now == 3:
            full.set()
        with anyio.fail_after(30):
            await full.wait()
        await session.call("bonus")
        now -= 1

    await play_run(target, ScriptedAgent(play), tmp_path, conduct=RunControls(concurrency=3))
    assert most == 3
    with pytest.raises(RunError, match="at least 1"):
        Runner(target, ScriptedAgent(), RunFolder(tmp_path), RunControls(concurrency=0))


async def test_a_cancelled_run_keeps_what_ended_and_goes_on_with_the_rest(target, tmp_path):
    played = []

    async def play(session):
        played.append((session.index, session.attempt))
        if len(played) == 4:
            scope.cancel()
            await anyio.sleep_forever()
        await session.call("guess", {"number": session.index})

    with anyio.CancelScope() as scope:
        await play_run(target, ScriptedAgent(play), tmp_path, conduct=RunControls(concurrency=1))
    ended = list(read_attempts(tmp_path))
    assert len(ended) == 3
    assert all(attempt.status is AttemptStatus.DONE for attempt in ended)
    assert read_run(tmp_path).ended_at is None
    _, attempts = await play_run(target, ScriptedAgent(play), tmp_path, conduct=RunControls(concurrency=1))
    assert list(attempts[:3]) == ended
    assert sorted(attempt.key for attempt in attempts) == EVERY_PLACE
    assert len(played) == 4 + 3


async def test_a_run_that_is_complete_is_left_as_it_is(target, tmp_path):
    run, attempts = await play_run(target, OracleAgent(), tmp_path)
    again, same = await play_run(target, ScriptedAgent(), tmp_path, run=run)
    assert (again, same) == (run, attempts)


async def test_a_spent_budget_stops_new_attempts_and_a_larger_one_goes_on(target, tmp_path):
    stop = RunControls(concurrency=1, budget=UsageBudget(steps=5))
    run, attempts = await play_run(target, OracleAgent(), tmp_path, conduct=stop)
    assert (run.stop_reason, len(attempts)) == ("step_budget", 3)
    again, same = await play_run(target, OracleAgent(), tmp_path, run=run, conduct=stop)
    assert (again.stop_reason, len(same)) == ("step_budget", 3)
    rest, attempts = await play_run(target, OracleAgent(), tmp_path, run=run)
    assert (rest.stop_reason, len(attempts)) == (None, 6)


async def test_a_run_gives_up_after_so_many_errors_in_a_row(target, tmp_path):
    async def fail(session):
        raise AgentError("the endpoint is down")

    run, attempts = await play_run(
        target, ScriptedAgent(fail), tmp_path, conduct=RunControls(concurrency=1, most_errors=2)
    )
    assert (run.stop_reason, len(attempts)) == ("error_budget", 2)
    assert {attempt.error for attempt in attempts} == {"the endpoint is down"}


async def test_what_errored_is_played_again_only_on_request_and_the_later_outcome_stands(target, tmp_path):
    async def fail_at_first(session):
        if session.index == 1:
            raise AgentError("not today")
        await session.call("guess", {"number": session.index})

    _, attempts = await play_run(target, ScriptedAgent(fail_at_first), tmp_path)
    _, same = await play_run(target, OracleAgent(), tmp_path)
    assert same == attempts
    tallies = []
    conduct = RunControls(
        concurrency=1,
        retry_errored=True,
        on_attempt=lambda attempt, tally: tallies.append((tally.ended, tally.mean)),
    )
    _, more = await play_run(target, OracleAgent(), tmp_path, conduct=conduct)
    assert [attempt.key for attempt in more[6:]] == [AttemptKey("test", 1, 1), AttemptKey("test", 1, 2)]
    assert [attempt.status for attempt in more[6:]] == [AttemptStatus.DONE] * 2
    assert tallies[-1] == (6, 1.0)
    _, again = await play_run(target, ScriptedAgent(fail_at_first), tmp_path, conduct=conduct)
    assert again == more


async def test_a_run_is_played_by_one_at_a_time(target, tmp_path):
    async def meddle(session):
        with pytest.raises(RecordError, match="another process plays"):
            await play_run(target, OracleAgent(), tmp_path)

    _, attempts = await play_run(target, ScriptedAgent(meddle), tmp_path)
    assert [attempt.error for attempt in attempts] == [None] * 6


async def test_a_budget_of_cost_is_refused_where_there_are_no_prices(target, tmp_path):
    class Free(ScriptedAgent):
        tells_cost = False

    with pytest.raises(RunError, match="price_in and price_out"):
        await play_run(target, Free(), tmp_path, conduct=RunControls(budget=UsageBudget(cost=1.0)))
    with pytest.raises(RunError, match="price_in and price_out"):
        await play_run(target, Free(), tmp_path, budget=UsageBudget(cost=1.0))


async def test_a_run_s_budget_of_tokens_demands_that_they_are_told(target, tmp_path):
    async def play(session):
        assert session.counts_tokens
        session.spend(6, 5)

    run, attempts = await play_run(
        target,
        ScriptedAgent(play),
        tmp_path,
        conduct=RunControls(concurrency=1, budget=UsageBudget(tokens=20)),
    )
    assert (run.stop_reason, len(attempts)) == ("token_budget", 2)
    assert [attempt.error for attempt in attempts] == [None, None]


async def test_what_agents_leave_to_read_is_kept_beside_the_attempts(target, tmp_path):
    async def play(session):
        if session.index == 0:
            session.log += ["one", "two\n"]

    await play_run(target, ScriptedAgent(play), tmp_path)
    assert log_path(tmp_path, AttemptKey("test", 0, 1)).read_text() == "one\ntwo\n"
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["test-0-1.log", "test-0-2.log"]
    assert log_path(tmp_path, AttemptKey("a/../b", 0, 1)).name == "a____b-0-1.log"


async def test_a_folder_with_attempts_of_another_run_is_refused(target, tmp_path):
    await play_run(target, OracleAgent(), tmp_path)
    lines = tmp_path / "attempts.jsonl"
    whole = lines.read_text()
    for broken, message in (
        (whole.replace('"run-1"', '"run-2"'), "not part of the run"),
        (whole.replace('"index":2', '"index":77'), "not part of the run"),
        (whole + whole, "recorded twice"),
    ):
        lines.write_text(broken)
        with pytest.raises(RunError, match=message):
            await play_run(target, OracleAgent(), tmp_path, run=make_run())


async def test_a_folder_that_cannot_be_written_ends_the_run(target, tmp_path):
    async def play(session):
        session.log.append("something to keep")
        (tmp_path / "logs").touch()

    with pytest.raises(ExceptionGroup) as group:
        await play_run(target, ScriptedAgent(play), tmp_path)
    assert group.group_contains(OSError)


async def test_every_line_is_a_whole_attempt_whenever_one_looks(target, tmp_path):
    def look(attempt, tally):
        lines = (tmp_path / "attempts.jsonl").read_bytes().splitlines(keepends=True)
        assert all(line.endswith(b"\n") for line in lines)
        assert json.loads(lines[-1])["index"] == attempt.index
        assert len(lines) == tally.ended

    _, attempts = await play_run(
        target, OracleAgent(), tmp_path, conduct=RunControls(concurrency=3, on_attempt=look)
    )
    assert len(attempts) == 6


async def test_a_tally_has_no_mean_before_there_is_a_return():
    assert Tally(3).mean is None


async def test_a_run_does_not_go_on_over_tasks_that_are_other_ones_now(target, tmp_path):
    whole, played = await play_run(target, OracleAgent(), tmp_path / "run")
    for attempts, is_same in ((played[:-1], True), ((replace(played[0], task_hash="f" * 64),), False)):
        folder = RunFolder(tmp_path / f"again-{is_same}")
        begun = replace(whole, ended_at=None)
        folder.begin(begun)
        with folder:
            for attempt in attempts:
                folder.append(attempt)
        again = Runner(target, OracleAgent(), folder)
        if is_same:
            assert (await again.play(begun)).ended_at is not None
        else:
            with pytest.raises(
                RunError, match=r"1 of 1 have another hash, the first at test/\d: begin a new"
            ):
                await again.play(begun)
            assert len(list(read_attempts(folder.path))) == 1
