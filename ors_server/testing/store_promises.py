"""The promises of a store, one check each, on an empty store."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from typing import Any, TypeAlias

import anyio

from ors_server.model.errors import EpisodeNotFoundError, StoreError
from ors_server.model.recording import task_digest
from ors_server.model.trajectory import (
    EpisodeNote,
    EpisodeOrigin,
    EpisodeResult,
    EpisodeSummary,
    Fork,
    Incident,
    IncidentKind,
    Step,
    StepStatus,
    Transition,
    first_summary,
    greatest_of,
)
from ors_server.model.wire import ImageBlock, TextBlock
from ors_server.store.base import EpisodeStore
from ors_server.store.episode_filter import CONDITIONS, EpisodeFilter
from ors_server.store.episode_order import NEWEST_FIRST, OLDEST_FIRST, SORTS, parse_order
from ors_server.testing.promises import BrokenPromiseError, raises

StoreCheck: TypeAlias = Callable[[EpisodeStore], Awaitable[None]]
"""Checks a promise on an empty store; raises `BrokenPromiseError` if it is broken."""
MORNING = datetime(2026, 3, 1, 8, tzinfo=UTC)
LONG_TEXT = "a long text, \N{GREEK SMALL LETTER ALPHA} and \N{GRINNING FACE}; " * 5000


def require_equal(expected: object, actual: object, description: str) -> None:
    """Raise `BrokenPromiseError` unless two values are equal."""
    if expected != actual:
        raise BrokenPromiseError(f"{description}: expected {expected!r:.500}, got {actual!r:.500}")


def make_origin(number: int, **changes: Any) -> EpisodeOrigin:
    """Make an episode's origin, created `number` minutes after the first one."""
    task_spec = {"size": number, "name": "\N{SNOWMAN}", "walls": [[1, 2.5], None, {"deep": True}]}
    origin = EpisodeOrigin(
        session_id=f"session-{number}",
        environment="maze",
        environment_version="1.0",
        server_version="2.0",
        task_spec=task_spec,
        task_hash=task_digest(task_spec),
        split="train",
        index=number,
        created_at=MORNING + timedelta(minutes=number, microseconds=number),
        policy={"max_steps": 5},
    )
    return replace(origin, **changes)


def make_step(number: int, **changes: Any) -> Step:
    """Make a step with this number."""
    step = Step(
        number=number,
        call_id=f"call-{number}",
        tool="walk",
        arguments={"to": "north", "far": 0.1, "list": [1, None, "\0"]},
        status=StepStatus.GRADED,
        blocks=(TextBlock(text=f"step {number}", detail={"seen": [1]}),),
        reward=0.1,
        components={"tool": 0.3, "slow": -0.2},
        finished=False,
        error=None,
        error_code=None,
        metadata={"episode": {"step": number}},
        started_at=MORNING + timedelta(seconds=number),
        duration=0.25,
    )
    return replace(step, **changes)


def after(origin: EpisodeOrigin, steps: int, **changes: Any) -> EpisodeSummary:
    # Added as a store adds them, so that rounding is the same.
    """Return the figures after a number of steps of `make_step`."""
    total = sum([0.1] * steps)
    charged = sum([-0.2] * steps)
    last = 0.1 if steps else None
    summary = replace(
        first_summary(origin), phase="playing", steps=steps, episode_return=total, discounted_return=total
    )
    summary = replace(summary, reward_sum=sum([0.3] * steps), last_reward=last)
    summary = replace(summary, **greatest_of([make_step(1)] * steps))
    summary = replace(summary, penalty_sum=charged, penalties={"slow": charged} if steps else {})
    summary = replace(summary, penalised_steps=steps)
    return replace(summary, **changes)


async def play(store: EpisodeStore, origin: EpisodeOrigin, steps: int = 1, **ending: Any) -> EpisodeSummary:
    """Record an episode to its end and close it; `ending` are fields of the last summary."""
    await store.open(origin)
    for number in range(1, steps + 1):
        await store.append(origin.episode_id, make_step(number), partial(after, origin, number))
    last = after(origin, steps, **{"phase": "finished", "stop_reason": "completed", **ending})
    await store.close(origin.episode_id, last)
    return last


async def _find_by_either_name(store: EpisodeStore) -> None:
    origin = make_origin(
        1,
        forked_from=Fork("other", 2),
        sandbox={"tier": 3},
        credential_id="me",
        seed=2**53 - 1,
        labels={"run": "a\0b", "group": "\N{SNOWMAN}"},
        packages={"python": "3.11"},
        toolset="bash",
    )
    await store.open(origin)
    for name in (origin.episode_id, origin.session_id):
        record = await store.find(name)
        require_equal(origin, record and record.origin, "the origin")
        require_equal(first_summary(origin), record and record.summary, "the figures of a new episode")
        require_equal(
            (None, (), False), record and (record.prompt, record.transitions, record.is_closed), "the rest"
        )
    require_equal(None, await store.find(origin.episode_id[:8]), "a part of a name")


async def _find_the_newest(store: EpisodeStore) -> None:
    first, second = (make_origin(1, session_id="again", seed=seed) for seed in (1, 2))
    await play(store, first)
    await store.open(second)
    record = await store.find("again")
    require_equal(
        second.episode_id, record and record.origin.episode_id, "the newest episode of a session's id"
    )


async def _open_twice(store: EpisodeStore) -> None:
    origin = make_origin(1)
    await store.open(origin)
    await store.append(origin.episode_id, make_step(1), partial(after, origin, 1))
    await store.open(origin)
    record = await store.find(origin.episode_id)
    require_equal(1, record and record.summary.steps, "the steps of an episode that was opened twice")
    await store.append(origin.episode_id, make_step(2), partial(after, origin, 2))
    require_equal(2, len(await store.steps(origin.episode_id)), "the steps after that")


async def _read_slices(store: EpisodeStore) -> None:
    origin = make_origin(1)
    image = ImageBlock(data="aGVsbG8" * 20_000, mimeType="image/png")
    steps = [
        make_step(1, blocks=(TextBlock(text="short"), TextBlock(text=LONG_TEXT, detail={"a": 1}), image)),
        make_step(2, status=StepStatus.UNGRADED, reward=None, components={}, blocks=(), metadata=None),
        make_step(3, blocks=(image, TextBlock(text=""), TextBlock(text=LONG_TEXT))),
        make_step(4, status=StepStatus.FAILED, error="it broke", error_code="tool_failed"),
        make_step(5, finished=True, reward=1e-300),
    ]
    await store.open(origin)
    for step in steps:
        await store.append(origin.episode_id, step, partial(after, origin, step.number))
    for start, stop in ((0, None), (0, 2), (1, 3), (4, None), (2, 2), (5, None), (9, 12), (0, 100)):
        require_equal(steps[start:stop], list(await store.steps(origin.episode_id, start, stop)), "a slice")
    require_equal([], list(await store.steps("nobody")), "the steps of an unknown episode")
    for name in (origin.episode_id, origin.session_id):
        whole = await store.whole(name)
        actual = None if whole is None else (whole[0], list(whole[1]))
        require_equal((await store.find(name), steps), actual, "an episode with its steps")
    require_equal(None, await store.whole("nobody"), "an unknown episode with its steps")


async def _append_again(store: EpisodeStore) -> None:
    origin = make_origin(1)
    await store.open(origin)
    for step in (make_step(1), make_step(2), make_step(2), make_step(2, tool="run")):
        await store.append(origin.episode_id, step, partial(after, origin, step.number))
    steps = await store.steps(origin.episode_id)
    require_equal(
        [make_step(1), make_step(2, tool="run")], list(steps), "steps of which one was appended again"
    )


async def _refuse_gaps(store: EpisodeStore) -> None:
    origin = make_origin(1)
    await store.open(origin)
    episode_id = origin.episode_id
    early = store.append(episode_id, make_step(2), partial(after, origin, 2))
    await raises(StoreError, early, "step 2 before step 1")
    await store.append(episode_id, make_step(1), partial(after, origin, 1))
    late = store.append(episode_id, make_step(3), partial(after, origin, 3))
    await raises(StoreError, late, "step 3 after step 1")
    lost = store.append("nobody", make_step(1), partial(after, origin, 1))
    await raises(StoreError, lost, "no such episode")
    record = await store.find(episode_id)
    require_equal(1, record and record.summary.steps, "the figures after what was refused")
    require_equal(None, await store.find("nobody"), "an episode that was never opened")


async def _note(store: EpisodeStore) -> None:
    origin = make_origin(1)
    moves = [Transition(f"event-{number}", "ready", None, MORNING) for number in range(30)]
    moves.append(Transition("end", "finished", "completed", MORNING + timedelta(microseconds=1)))
    prompt = (TextBlock(text="go"), TextBlock(text=LONG_TEXT), ImageBlock(data="eA==", mimeType="image/png"))
    await store.open(origin)
    for number, move in enumerate(moves):
        store.record_transition(origin.episode_id, move, after(origin, 0, ungraded_steps=number))
    store.record_prompt(origin.episode_id, prompt)
    store.record_prompt(origin.episode_id, (TextBlock(text="another"),))
    store.record_transition("nobody", moves[0], after(origin, 0))
    store.record_prompt("nobody", prompt)
    record = await store.find(origin.episode_id)
    require_equal(tuple(moves), record and record.transitions, "the transitions")
    require_equal(len(moves) - 1, record and record.summary.ungraded_steps, "the figures after the last one")
    require_equal(prompt, record and record.prompt, "the prompt")
    require_equal(None, await store.find("nobody"), "an episode that was never opened")


async def _incidents(store: EpisodeStore) -> None:
    origin = make_origin(1)
    happened = [
        Incident(IncidentKind.RESTORED, MORNING, "restored to step 1", (2,)),
        Incident(IncidentKind.REBUILT, MORNING + timedelta(seconds=1), "rebuilt \N{SNOWMAN}"),
    ]
    await store.open(origin)
    for incident in happened:
        await store.record_incident(origin.episode_id, incident)
    await store.record_incident("nobody", happened[0])
    record = await store.find(origin.episode_id)
    require_equal(tuple(happened), record and record.incidents, "the incidents")
    for listed in await store.page(EpisodeFilter()):
        require_equal((), listed.incidents, "the incidents in a list")


async def _close(store: EpisodeStore) -> None:
    origin = make_origin(1)
    last = await play(store, origin, 3)
    record = await store.find(origin.episode_id)
    require_equal((last, True), record and (record.summary, record.is_closed), "a closed episode")
    require_equal(3, len(await store.steps(origin.episode_id)), "its steps")
    store.record_transition(origin.episode_id, Transition("late", "deleted", None, MORNING), last)
    record = await store.find(origin.episode_id)
    require_equal((1, True), record and (len(record.transitions), record.is_closed), "a note after the end")
    await store.close("nobody", last)


async def _page(store: EpisodeStore) -> None:
    origins = [make_origin(number) for number in range(7)]
    origins += [make_origin(6, session_id="same-time", index=99)]
    for origin in reversed(origins):
        await store.open(origin)
        store.record_transition(
            origin.episode_id, Transition("event", "ready", None, MORNING), first_summary(origin)
        )
    ids = [
        origin.episode_id
        for origin in sorted(origins, key=lambda origin: (origin.created_at, origin.episode_id))
    ]
    # Pages of three over eight episodes of which two have the same time: the id decides their order.
    for order, wanted in ((OLDEST_FIRST, ids), (NEWEST_FIRST, ids[::-1])):
        listed: list[str] = []
        last: str | None = None
        while page := await store.page(EpisodeFilter(), after=last, limit=3, order=order):
            require_equal([()] * len(page), [record.transitions for record in page], "a page's transitions")
            listed += (record.origin.episode_id for record in page)
            last = listed[-1]
        require_equal(wanted, listed, "all pages")
    page_after = store.page(EpisodeFilter(), after="nobody")
    await raises(EpisodeNotFoundError, page_after, "a page after nothing")


async def _order(store: EpisodeStore) -> None:
    values = ((0.5, 3, 20), (-1.0, 1, None), (0.5, 2, 10), (2.0, 0, 30), (0.0, 4, None))
    for number, (value, steps, seconds) in enumerate(values):
        origin, ends = make_origin(number), MORNING + timedelta(seconds=seconds or 0)
        times = {} if seconds is None else {"started_at": MORNING, "finished_at": ends}
        await play(store, origin, steps, episode_return=value, **times)
    wanted = {
        "created": [0, 1, 2, 3, 4],
        "-created": [4, 3, 2, 1, 0],
        "return": [1, 4, 0, 2, 3],
        "-return": [3, 2, 0, 4, 1],
        "steps": [3, 1, 2, 0, 4],
        "-steps": [4, 0, 2, 1, 3],
        "duration": [2, 0, 3, 1, 4],
        "-duration": [3, 0, 2, 4, 1],
    }
    require_equal({*SORTS}, {*wanted}, "the orders with a case")
    for text, numbers in wanted.items():
        order, forward, backward = parse_order(text), list[str](), list[str]()
        after: str | None = None
        while page := await store.page(EpisodeFilter(), after=after, limit=2, order=order):
            forward += (record.origin.session_id for record in page)
            after = page[-1].origin.episode_id
        require_equal([f"session-{number}" for number in numbers], forward, f"all pages by {text}")
        while page := await store.page(EpisodeFilter(), before=after, limit=2, order=order):
            backward[:0] = (record.origin.session_id for record in page)
            after = page[0].origin.episode_id
        require_equal(forward[:-1], backward, f"the pages before the last episode by {text}")


async def _filter(store: EpisodeStore) -> None:
    first = make_origin(1, labels={"run": "a", "try": "1", "more": ""}, credential_id="me")
    second = make_origin(2, environment="chess", split="test", labels={"run": "a", "try": "2"})
    await play(store, first, 2, ungraded_steps=1)
    await play(store, second, 4, phase="failed", stop_reason="failed", unjudged_steps=1, failed_steps=1)
    await store.open(make_origin(3, split=None, index=None, forked_from=Fork("parent", 1)))
    cases: Sequence[tuple[dict[str, Any], list[int]]] = (
        ({}, [1, 2, 3]),
        ({"environment": "maze"}, [1, 3]),
        ({"split": "test"}, [2]),
        ({"index": 1}, [1]),
        ({"index": 2**70}, []),
        ({"task_hash": first.task_hash}, [1]),
        ({"session_id": "session-3"}, [3]),
        ({"phase": "failed"}, [2]),
        ({"stop_reason": "completed"}, [1]),
        ({"credential_id": "me"}, [1]),
        ({"labels": {"run": "a"}}, [1, 2]),
        ({"labels": {"run": "a", "try": "2"}}, [2]),
        ({"labels": {"run": "2"}}, []),
        ({"environment": ("maze", "chess")}, [1, 2, 3]),
        ({"environment": ("go", "chess")}, [2]),
        ({"split": ("test",)}, [2]),
        ({"has_label": ("run",)}, [1, 2]),
        ({"has_label": ("run", "more")}, [1]),
        ({"environment_version": "1.0"}, [1, 2, 3]),
        ({"server_version": ("1.0", "9")}, []),
        ({"forked_from": "parent"}, [3]),
        ({"live": True}, [3]),
        ({"live": False}, [1, 2]),
        ({"tool": "walk"}, [1, 2]),
        ({"tool": ("fly", "walk"), "environment": "chess"}, [2]),
        ({"tool": "fly"}, []),
        ({"has": ("penalty",)}, [1, 2]),
        ({"has": ("failed",)}, [2]),
        ({"has": ("failed", "penalty")}, [2]),
        ({"has": ("refused",)}, []),
        ({"has": ("ungraded",)}, [1]),
        ({"text": "STEP 4"}, [2]),
        ({"text": "step 2"}, [1, 2]),
        ({"text": "\N{SNOWMAN}"}, [1, 2, 3]),
        ({"text": '"a_b'}, []),
        ({"text": "100%"}, []),
        ({"since": second.created_at}, [2, 3]),
        ({"until": second.created_at}, [1]),
        ({"min_return": sum([0.1] * 4)}, [2]),
        ({"max_return": 0.2}, [1, 3]),
        ({"closed": True}, [1, 2]),
        ({"closed": False, "environment": "maze"}, [3]),
        ({"unjudged": True}, [2]),
        ({"unjudged": False}, [1, 3]),
    )
    tried = {name for fields, _ in cases for name in fields}
    require_equal({*CONDITIONS}, tried, "the conditions with a case")
    for fields, numbers in cases:
        ids = [f"session-{number}" for number in numbers]
        page = await store.page(EpisodeFilter(**fields), order=OLDEST_FIRST)
        require_equal(ids, [record.origin.session_id for record in page], f"the page of {fields}")
        streamed = [record.origin.session_id async for record, _ in store.stream(EpisodeFilter(**fields))]
        require_equal(ids, streamed, f"the stream of {fields}")
        totals = await store.totals(EpisodeFilter(**fields))
        require_equal(len(numbers), totals.episodes, f"the number of {fields}")


async def _long_names(store: EpisodeStore) -> None:
    text = "".join(sha256(bytes([number])).hexdigest() for number in range(200))  # nothing compresses it
    for number, name in enumerate((f"{text}1", f"{text}2"), 1):
        origin = make_origin(number, labels={"run": name, "agent": name, name: name}, split=name)
        await store.open(origin)
        step = make_step(1, tool=name)
        await store.append(origin.episode_id, step, partial(after, origin, 1))
        require_equal((step,), tuple(await store.steps(origin.episode_id)), "a step with a long name")
        await store.close(origin.episode_id, after(origin, 1, phase="finished", stop_reason="completed"))
        cases: Sequence[dict[str, Any]] = (
            {"tool": name},
            {"labels": {"run": name}},
            {"labels": {name: name, "agent": name}},
            {"has_label": (name,)},
            {"split": name},
            {"tool": (name, "walk")},
        )
        for conditions in cases:
            page = await store.page(EpisodeFilter(**conditions), limit=9)
            require_equal([origin], [record.origin for record in page], "what a long name finds")


async def _totals(store: EpisodeStore) -> None:
    empty = await store.totals()
    require_equal((0, 0, None, None, None), _figures(empty), "figures of nothing")
    await play(store, make_origin(1), 1, episode_return=-1.0)
    await play(store, make_origin(2, environment="chess"), 2, episode_return=4.0)
    endings: Sequence[tuple[str, int, dict[str, Any]]] = (
        ("abandoned", 1, {"phase": "deleted", "stop_reason": "deleted"}),
        ("abandoned", 0, {"phase": "expired", "stop_reason": "expired"}),
        ("failed", 1, {"phase": "failed", "stop_reason": "failed"}),
        ("ungraded", 0, {"stop_reason": "step_limit"}),
        ("unjudged", 1, {"episode_return": 9.0, "unjudged_steps": 1}),
    )
    for number, (_, steps, ending) in enumerate(endings, 3):
        await play(store, make_origin(number), steps, **ending)
    await store.open(make_origin(8))
    live = make_origin(9)
    await store.open(live)
    await store.append(live.episode_id, make_step(1), partial(after, live, 1))
    totals = await store.totals()
    require_equal((9, 7, 1.5, -1.0, 4.0), _figures(totals), "figures over the graded episodes")
    counts = {result.value: getattr(totals, result.value) for result in EpisodeResult}
    wanted = Counter(["graded", "graded", "live", "live", *(result for result, _, _ in endings)])
    require_equal(dict(wanted), counts, "the number of episodes by result")
    kinds = (dict(totals.by_environment), dict(totals.by_phase), dict(totals.by_stop_reason))
    phases = {"created": 1, "deleted": 1, "expired": 1, "failed": 1, "finished": 4, "playing": 1}
    reasons = {"completed": 3, "deleted": 1, "expired": 1, "failed": 1, "step_limit": 1}
    require_equal(({"chess": 1, "maze": 8}, phases, reasons), kinds, "figures by kind")


async def _runs(store: EpisodeStore) -> None:
    require_equal((0, 0), (len(await store.runs()), len(await store.by_task())), "runs and tasks of nothing")
    for number, (run, value) in enumerate((("a", 1.0), ("a", 0.0), ("b", 0.5), ("a", 1.0), ("", 1.0))):
        labels = {"run": run, "agent": f"agent-{run}"} if run else {}
        origin = make_origin(number, labels=labels, task_hash="ab"[number % 2] * 64, index=number % 2)
        await play(store, origin, 1, episode_return=value)
    live = make_origin(9, labels={"run": "b"}, environment="chess", index=0)
    await store.open(live)
    runs = await store.runs()
    require_equal(["b", "a"], [run.run for run in runs], "runs, the one with the newest episode first")
    newer, older = runs
    require_equal(
        (2, 1, 1, 0.5, None, 0.0, ("chess", "maze"), ("agent-b",), live.created_at),
        (
            *(newer.episodes, newer.graded, newer.live, newer.returns.mean, newer.returns.low),
            *(newer.success, newer.environments, newer.agents, newer.last_created_at),
        ),
        "the figures of a run",
    )
    require_equal((3, 3, 2 / 3), (older.episodes, older.steps, older.success), "the figures of another run")
    require_equal(0.577, round(older.returns.std or 0, 3), "the deviation of its returns")
    only = await store.runs(EpisodeFilter(environment="chess"))
    require_equal([("b", 1)], [(run.run, run.episodes) for run in only], "runs in one environment")
    tasks = await store.by_task()
    require_equal(
        [("chess", 0, 1, 0, None), ("maze", 0, 3, 3, 2.5 / 3), ("maze", 1, 2, 2, 0.5)],
        [(task.environment, task.index, task.episodes, task.graded, task.returns.mean) for task in tasks],
        "the figures of each task",
    )
    require_equal(tasks[:1], list(await store.by_task(limit=1)), "the first task")
    some = await store.by_task(EpisodeFilter(labels={"run": "b"}, index=0))
    require_equal([1, 1], [task.episodes for task in some], "the tasks of a run")


async def _series(store: EpisodeStore) -> None:
    every = 600.0
    require_equal([], list(await store.series(EpisodeFilter(), every)), "a series of nothing")
    require_equal((0, (), ()), _bins(await store.histogram()), "a histogram of nothing")
    require_equal([], list(await store.groups("a")), "groups of nothing")
    for number in range(9):
        labels = {"run": "a", "group": f"g{number // 5}", "step": "1", "kind": "xy"[number % 2]}
        ending = {"episode_return": number % 2 / 2 if number // 5 else 1.0}
        await play(store, make_origin(number * 3, labels=labels, task_hash="a" * 64), 1, **ending)
    await store.open(make_origin(30, environment="chess", labels={"run": "a"}))
    points = await store.series(EpisodeFilter(), every, ("environment", "label:kind"))
    shown = [
        (point.start.minute, *point.group.values(), point.episodes, point.returns.mean, point.quantiles)
        for point in points
    ]
    wanted: list[tuple[Any, ...]] = [
        (0, "maze", "x", 2, 1.0, (1.0, 1.0, 1.0)),
        (0, "maze", "y", 2, 1.0, (1.0, 1.0, 1.0)),
        (10, "maze", "x", 2, 0.5, (0.1, 0.5, 0.9)),
        (10, "maze", "y", 1, 0.5, (0.5, 0.5, 0.5)),
        (20, "maze", "x", 1, 0.0, (0.0, 0.0, 0.0)),
        (20, "maze", "y", 1, 0.5, (0.5, 0.5, 0.5)),
        (30, "chess", "", 1, None, None),
    ]
    require_equal(wanted, shown, "a series by environment and label")
    whole = await store.series(EpisodeFilter(labels={"kind": "x"}), 3600.0, ("label:run",))
    require_equal([("a", 5, 0.6)], [(p.group["label:run"], p.episodes, p.success) for p in whole], "one span")
    histogram = await store.histogram(bins=4)
    require_equal((9, (0.0, 0.25, 0.5, 0.75, 1.0), (2, 0, 2, 5)), _bins(histogram), "a histogram")
    one_value = await store.histogram(EpisodeFilter(min_return=1.0))
    require_equal((5, (1.0, 1.0), (5,)), _bins(one_value), "a histogram of one value")
    groups = [
        (group.group, group.step, group.graded, group.kind, group.is_dead)
        for group in await store.groups("a")
    ]
    task = make_origin(30).task_hash
    require_equal(
        [("g0", "1", 5, "pass", True), ("g1", "1", 4, "fail", False), (task, "", 0, "small", None)],
        groups,
        "the groups of a run",
    )
    for number, environment in enumerate(("maze", "chess")):
        labels = {"run": "b"}
        await play(
            store, make_origin(40 + number, environment=environment, labels=labels, task_hash="b" * 64), 1
        )
    groups_of_two = [(group.group, group.episodes) for group in await store.groups("b")]
    require_equal([("b" * 64, 1), ("b" * 64, 1)], groups_of_two, "equal tasks of two environments")
    # A return on a border is of the bin above it, however its distance from the least one is rounded.
    for number, value in enumerate((-2.1, -1.0, -0.1)):
        await play(store, make_origin(50 + number, environment="border"), 1, episode_return=value)
    histogram = await store.histogram(EpisodeFilter(environment="border"), bins=20)
    for value, edge, height in ((-2.1, 0, 1), (-1.0, 11, 1), (-0.1, 19, 1)):
        require_equal(height, histogram.counts[edge], f"the bin of {value} by its borders")


async def _notes(store: EpisodeStore) -> None:
    origin = make_origin(1)
    last = await play(store, origin, 2)
    later = EpisodeNote("b", "ann", MORNING + timedelta(hours=1), "looks forged \N{SNOWMAN}", "cheated", 2)
    first = EpisodeNote("c", "local", MORNING, "first")
    for note in (later, first, later):
        await store.add_note(origin.episode_id, note)
    await store.add_note("nobody", first)
    require_equal([first, later], list(await store.notes(origin.episode_id)), "the notes, oldest first")
    require_equal([], list(await store.notes("nobody")), "notes about nothing")
    record = await store.find(origin.episode_id)
    require_equal((last, True), record and (record.summary, record.is_closed), "the record beside its notes")


async def _minutes(store: EpisodeStore) -> None:
    origin = make_origin(1)
    await store.open(origin)
    require_equal([], list(await store.calls_by_minute(MORNING)), "calls before the first one")
    kinds = (StepStatus.GRADED, StepStatus.REFUSED, StepStatus.FAILED, StepStatus.UNGRADED)
    begun = [MORNING + timedelta(seconds=seconds) for seconds in (59, 60, 100, 400)]
    for number, (at, status) in enumerate(zip(begun, kinds, strict=True), 1):
        step = make_step(number, started_at=at, status=status)
        await store.append(origin.episode_id, step, partial(after, origin, number))
    again = make_step(4, started_at=begun[3], status=StepStatus.UNGRADED)
    await store.append(origin.episode_id, again, partial(after, origin, 4))
    minutes = [
        ((minute.start - MORNING).total_seconds(), minute.calls, minute.refused, minute.failed)
        for minute in await store.calls_by_minute(MORNING + timedelta(seconds=30))
    ]
    require_equal([(0.0, 1, 0, 0), (60.0, 2, 1, 1), (360.0, 1, 0, 0)], minutes, "the calls of each minute")
    late = await store.calls_by_minute(MORNING + timedelta(seconds=120))
    require_equal([1], [minute.calls for minute in late], "the calls of the minutes after a time")


def _bins(histogram: Any) -> tuple[Any, ...]:
    return histogram.episodes, histogram.edges, histogram.counts


def _figures(totals: Any) -> tuple[Any, ...]:
    return totals.episodes, totals.steps, totals.mean_return, totals.least_return, totals.greatest_return


async def _stream(store: EpisodeStore) -> None:
    origins = [make_origin(number) for number in range(70)]
    for origin in origins:
        await play(store, origin, (origin.index or 0) % 3)
    streamed = [(record, list(steps)) async for record, steps in store.stream()]
    require_equal(
        [origin.episode_id for origin in origins], [r.origin.episode_id for r, _ in streamed], "the order"
    )
    for record, steps in streamed:
        require_equal(record.summary.steps, len(steps), "the steps of a streamed episode")
        require_equal(list(await store.steps(record.origin.episode_id)), steps, "what they are")


async def _resolve(store: EpisodeStore) -> None:
    ids = ["a" * 32, "a" * 31 + "b", "ab" + "0" * 30, "b" * 32]
    for number, episode_id in enumerate(reversed(ids)):
        await store.open(make_origin(number, episode_id=episode_id))
    require_equal(ids[:2], list(await store.resolve("a")), "ids with the same beginning, two at most")
    require_equal(ids[:3], list(await store.resolve("a", 9)), "ids with the same beginning")
    require_equal([ids[2]], list(await store.resolve("ab")), "one id")
    require_equal([], list(await store.resolve("c%_")), "no id")


async def _attempts(store: EpisodeStore) -> None:
    names = [f"{number:032x}" for number in range(6)]
    for number, name in enumerate(names):
        task = 7 if number else 8
        await store.open(make_origin(number, episode_id=name, index=task, credential_id="key"))
    claimed: list[int | None] = []

    async def claim(name: str) -> None:
        claimed.append(await store.claim_attempt(name, range(1, 4)))

    async with anyio.create_task_group() as group:
        for name in names[1:]:
            group.start_soon(claim, name)
    require_equal([1, 2, 3], sorted(filter(None, claimed)), "the numbers of five attempts of at most three")
    require_equal(1, await store.claim_attempt(names[0], [1]), "the number of an attempt at another task")
    require_equal(1, await store.claim_attempt(names[0], [2]), "the number of an episode that has one")
    require_equal(None, await store.claim_attempt("f" * 32, [1]), "the number of an unknown episode")


async def _crowd(store: EpisodeStore) -> None:
    origins = [make_origin(number) for number in range(40)]

    async with anyio.create_task_group() as group:
        for origin in origins:
            group.start_soon(play, store, origin, 10)
    totals = await store.totals()
    require_equal(
        (40, 400, 40), (totals.episodes, totals.steps, totals.by_phase.get("finished")), "a crowd's record"
    )
    for origin in origins:
        numbers = [step.number for step in await store.steps(origin.episode_id)]
        require_equal(list(range(1, 11)), numbers, "the steps of one of them")


STORE_PROMISES: dict[str, StoreCheck] = {
    "an episode is found by its own id and its session's": _find_by_either_name,
    "an id of a session that was used again leads to the newest episode": _find_the_newest,
    "an episode that is opened twice is there once": _open_twice,
    "steps come back as they were, in any slice": _read_slices,
    "a step that is appended again is there once": _append_again,
    "a step that does not follow is refused": _refuse_gaps,
    "notes are on record before any later read": _note,
    "incidents are kept in their order": _incidents,
    "a closed episode keeps its final figures": _close,
    "pages follow one another in the order of creation": _page,
    "pages have every order, forward and backward": _order,
    "a filter means the same everywhere": _filter,
    "names of any length are recorded and found": _long_names,
    "figures are those of the episodes": _totals,
    "runs and tasks add up their episodes": _runs,
    "series, histograms and groups are those of the episodes": _series,
    "calls are counted by the minute in which they began": _minutes,
    "notes are kept apart from the record": _notes,
    "a stream goes through everything, oldest first": _stream,
    "a beginning leads to ids": _resolve,
    "no two attempts at a task have the same number": _attempts,
    "many episodes at once do not mix": _crowd,
}
"""Every promise, and its check."""
