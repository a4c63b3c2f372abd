"""The time of a session whose calls wait for the server side by side; when its episode counts as over."""

import anyio
import pytest

from ors_server import EpisodePolicy, ToolOutput
from ors_server.sessions.episode_recorder import SessionClock
from ors_server.sessions.session_call import RefusalReason
from ors_server.timing.call_clock import CallClock, paused_call_clock
from ors_server.timing.loop_watch import LoopWatch


class Time:
    """What a watch takes for the time."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time():
    return Time()


class PunctualWatch(LoopWatch):
    """A watch of a loop that is never late."""

    def late_until(self, moment: float) -> float:
        return 0.0


@pytest.fixture
def watch(time):
    return PunctualWatch(time)


def run(clock, watch) -> CallClock:
    call = CallClock(watch=watch)
    clock.enter(call)
    return call


def test_waits_of_calls_side_by_side_count_once_and_only_while_all_wait(time, watch):
    clock = SessionClock(watch)
    first, second = run(clock, watch), run(clock, watch)
    first.pause()
    time.now = 2.0
    second.pause()
    time.now = 5.0
    assert clock.waived_s == 3.0
    first.resume()
    time.now = 6.0
    second.resume()
    assert (clock.waived_s, first.waived_s, second.waived_s) == (3.0, 5.0, 4.0)
    clock.leave(first)
    second.pause()
    time.now = 10.0
    clock.leave(second)
    time.now = 20.0
    assert clock.waived_s == 7.0


def test_a_wait_that_a_thread_ends_is_waived_up_to_its_start(time, watch):
    clock = SessionClock(watch)
    first, second = run(clock, watch), run(clock, watch)
    started = first.wait_for_start()
    second.pause()
    time.now = 4.0
    started.note()
    time.now = 9.0
    assert clock.waived_s == 4.0
    assert first.spent_s == 5.0
    time.now = 10.0
    second.resume()
    assert clock.waived_s == 4.0


def test_a_call_that_waited_while_others_played_has_no_more_time_than_its_session(time, watch):
    left = [3.0]
    call = CallClock(3.0, watch=watch, bound=lambda: left[0])
    call.pause()
    time.now, left[0] = 2.0, 1.0
    call.resume()
    assert call.left_s == 1.0


async def test_parallel_waits_of_the_server_are_waived_once(open_player, stage, clock):
    gate = anyio.Event()

    async def queue(env, context):
        with paused_call_clock():
            await gate.wait()
        return ToolOutput(reward=1.0)

    stage.acts["queue"] = queue
    async with open_player(policy=EpisodePolicy(time_limit=30.0)) as player:
        session = await player.create()
        calls = [await player.engine.find(session).call("together", {"act": "queue"}) for _ in range(5)]
        await anyio.sleep(0.3)
        gate.set()
        for call in calls:
            await call.wait()
        waived = player.engine.find(session).recorder.state.waived
        assert 0.25 < waived < 1.0


async def test_an_episode_is_not_over_while_a_call_runs_that_will_count(open_player, stage, clock):
    gate = anyio.Event()

    async def work(env, context):
        await gate.wait()
        return ToolOutput(reward=1.0)

    stage.acts["work"] = work
    async with open_player(policy=EpisodePolicy(time_limit=30.0)) as player:
        session = await player.create()
        running = await player.engine.find(session).call("together", {"act": "work"})
        await anyio.wait_all_tasks_blocked()
        await clock.advance(31.0)
        assert (await player.summary(session)).phase == "ready"
        late = await player.engine.find(session).call("together", {"act": "work"})
        unknown = await player.engine.find(session).call("nonesuch", {})
        await anyio.wait_all_tasks_blocked()
        assert (late.result, unknown.result) == (None, None)
        gate.set()
        assert (await running.wait()).output.finished
        assert (await late.wait()).reason is RefusalReason.EPISODE_FINISHED
        assert (await unknown.wait()).reason is RefusalReason.EPISODE_FINISHED
        summary = await player.summary(session)
        assert (summary.phase, summary.steps, summary.episode_return) == ("finished", 1, 1.0)


async def test_calls_side_by_side_have_numbers_of_their_own(player, session, stage):
    numbers, gate = [], anyio.Event()

    async def note(env, context):
        numbers.append(context.step)
        await gate.wait()
        return ToolOutput(reward=1.0)

    stage.acts["note"] = note
    calls = [await player.engine.find(session).call("together", {"act": "note"}) for _ in range(3)]
    await anyio.wait_all_tasks_blocked()
    gate.set()
    for call in calls:
        await call.wait()
    await player.act(session, "note", "together")
    assert numbers == [1, 2, 3, 4]
