"""Outputs that a session no longer keeps in memory: read from the record, run no second time."""

import gc
import tracemalloc
from typing import ClassVar

import anyio
import pytest

from ors_server import ToolError, ToolOutput, tool
from ors_server.environments.loading import define
from ors_server.model.errors import CallIdReusedError, CapacityError, InvalidRequestError, StoreError
from ors_server.sessions.call_runner import MAX_KEPT_OUTPUTS, MAX_KEPT_SIZE
from ors_server.sessions.manager import open_manager
from ors_server.sessions.session_request import SessionRequest
from ors_server.sessions.session_services import SessionOptions
from ors_server.store.open import open_store
from tests.fixtures.single_task import SingleTask

pytestmark = pytest.mark.usefixtures("quick_collections")

MEGABYTE = 1024 * 1024


class Printer(SingleTask):
    """Prints."""

    name = "printer"
    runs = 0
    gate: ClassVar[anyio.Event]

    @tool
    async def print_page(self, number: int, size: int = 10) -> ToolOutput:
        """Prints a page."""
        type(self).runs += 1
        text = f"{number:08d}" * (size // 8)
        return ToolOutput.ongoing(text, reward=float(number), metadata={"number": number})

    @tool
    async def jam(self) -> str:
        """Jams."""
        type(self).runs += 1
        raise ToolError("jammed")

    @tool
    async def break_down(self, text: str) -> str:
        """Breaks."""
        raise RuntimeError(f"broken by {text[:8]}")

    @tool
    async def say(self, text: str) -> str:
        """Says it."""
        return text

    @tool
    async def wait(self) -> str:
        """Waits until it is cancelled."""
        await anyio.sleep_forever()
        return "never"

    @tool(concurrent=True)
    async def gather(self, text: str) -> str:
        """Waits for the others."""
        await self.gate.wait()
        return text[:8]

    async def save_state(self):
        """Keeps nothing."""
        return {}

    async def load_state(self, state):
        """Has nothing."""

    @tool
    async def hand_in(self) -> ToolOutput:
        """Ends the episode."""
        return ToolOutput.final("over", reward=1.0)


@pytest.fixture
async def engine(tmp_path):
    Printer.runs = 0
    store = await open_store(str(tmp_path / "episodes.db"))
    try:
        async with open_manager([define(Printer)], SessionOptions(), store=store) as opened:
            yield opened
    finally:
        await store.aclose()


async def start(engine) -> str:
    status = await engine.create(SessionRequest(split="train", index=0))
    return status.origin.session_id


async def play(engine, session: str, call_id: str, tool_name: str = "print_page", **arguments):
    return await (await engine.find(session).call(tool_name, arguments, call_id=call_id)).wait()


async def test_every_call_is_answered_again_by_its_id_and_runs_once(engine):
    session = await start(engine)
    count = MAX_KEPT_OUTPUTS * 2
    first = [await play(engine, session, f"c{n}", number=n) for n in range(count)]
    first.append(await play(engine, session, "jam", "jam"))
    again = [await play(engine, session, f"c{n}", number=n) for n in range(count)]
    again.append(await play(engine, session, "jam", "jam"))
    resumed = [await (await engine.find(session).resume(f"c{n}")).wait() for n in range(count)]
    for before, after in zip([*first, *first[:-1]], [*again, *resumed], strict=True):
        assert (after.step, after.is_error) == (before.step, before.is_error)
        assert list(after.output.blocks) == list(before.output.blocks)
        assert after.output.metadata == before.output.metadata
        assert (after.output.reward, after.output.finished) == (before.output.reward, False)
    assert Printer.runs == count + 1
    assert (await engine.status(session)).summary.steps == count + 1


async def test_an_old_id_with_other_arguments_is_refused(engine):
    session = await start(engine)
    for number in range(MAX_KEPT_OUTPUTS + 5):
        await play(engine, session, f"c{number}", number=number)
    with pytest.raises(CallIdReusedError):
        await play(engine, session, "c0", number=1)
    with pytest.raises(CallIdReusedError):
        await play(engine, session, "c1", "jam")
    assert await engine.find(session).cancel("c2") is False
    assert Printer.runs == MAX_KEPT_OUTPUTS + 5


async def test_many_who_ask_for_old_calls_at_once_run_nothing(engine):
    session = await start(engine)
    for number in range(MAX_KEPT_OUTPUTS * 2):
        await play(engine, session, f"c{number}", number=number, size=MAX_KEPT_SIZE // 4)
    seen: list[int] = []

    async def ask(number: int) -> None:
        seen.append((await play(engine, session, f"c{number}", number=number, size=MAX_KEPT_SIZE // 4)).step)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in [*range(20), *range(20), *range(20)]:
                tasks.start_soon(ask, number)
    assert sorted(seen) == sorted([*range(1, 21)] * 3)
    assert Printer.runs == MAX_KEPT_OUTPUTS * 2


async def test_a_record_that_cannot_be_read_runs_nothing_again(engine, monkeypatch):
    session = await start(engine)
    for number in range(MAX_KEPT_OUTPUTS + 1):
        await play(engine, session, f"c{number}", number=number)

    async def broken(*_: object) -> None:
        raise StoreError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(type(engine.services.store), "steps", broken)
        with pytest.raises(StoreError):
            await play(engine, session, "c0", number=0)
    assert (await play(engine, session, "c0", number=0)).step == 1
    assert Printer.runs == MAX_KEPT_OUTPUTS + 1


async def test_a_hundred_long_outputs_leave_memory(engine):
    session = await start(engine)
    await play(engine, session, "warm", number=0, size=2 * MEGABYTE)
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(100):
            await play(engine, session, f"c{number}", number=number, size=2 * MEGABYTE)
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 40 * MEGABYTE
    oldest = await play(engine, session, "c0", number=0, size=2 * MEGABYTE)
    assert len(oldest.output.blocks[0].text) == 2 * MEGABYTE
    assert Printer.runs == 101


def traced(work):
    """Says how many bytes are kept after some work, garbage aside."""
    gc.collect()
    tracemalloc.start()

    async def trace(*args):
        try:
            await work(*args)
            gc.collect()
            return tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()

    return trace


BULKY = [
    pytest.param("nonesuch", lambda n: {"text": f"{n:08d}" * (MEGABYTE // 8)}, id="unknown"),
    pytest.param("print_page", lambda n: {"number": f"{n:08d}" * (MEGABYTE // 8)}, id="invalid"),
    pytest.param(
        "print_page", lambda n: {"number": n, "nested": [f"{n:08d}" * (MEGABYTE // 8)]}, id="nested"
    ),
    pytest.param("break_down", lambda n: {"text": f"{n:08d}" * (MEGABYTE // 8)}, id="failed"),
]


@pytest.mark.parametrize(("tool_name", "arguments"), BULKY)
async def test_arguments_of_every_kind_of_call_leave_memory(engine, tool_name, arguments):
    session = await start(engine)
    await play(engine, session, "warm", tool_name, **arguments(0))
    results = {}

    async def work():
        for number in range(60):
            result = await play(engine, session, f"c{number}", tool_name, **arguments(number))
            results[number] = (type(result), result.step, str(getattr(result, "error", ""))[:80])

    assert await traced(work)() < 25 * MEGABYTE
    again = await play(engine, session, "c0", tool_name, **arguments(0))
    assert (type(again), again.step, str(getattr(again, "error", ""))[:80]) == results[0]
    with pytest.raises(CallIdReusedError):
        await play(engine, session, "c1", tool_name, **arguments(0))
    assert (await engine.status(session)).summary.steps == 61


async def test_a_call_that_failed_comes_back_from_the_record_with_its_own_error(engine):
    session = await start(engine)
    first = await play(engine, session, "broken", "break_down", text="x" * (2 * MEGABYTE))
    for number in range(MAX_KEPT_OUTPUTS + 1):
        await play(engine, session, f"c{number}", number=number)
    again = await play(engine, session, "broken", "break_down", text="x" * (2 * MEGABYTE))
    assert (type(again.error), str(again.error), again.step) == (
        type(first.error),
        str(first.error),
        first.step,
    )


async def test_calls_after_the_end_leave_memory(engine):
    session = await start(engine)
    await play(engine, session, "end", "hand_in")

    async def work():
        for number in range(100):
            await play(engine, session, f"c{number}", text=f"{number:08d}" * (MEGABYTE // 8))

    assert await traced(work)() < 25 * MEGABYTE


async def test_calls_that_were_cancelled_before_they_ran_leave_memory_and_stay_cancelled(engine):
    session = await start(engine)
    live = engine.find(session)

    async def work():
        for number in range(100):
            call = await live.call("print_page", bulky(number), call_id=f"c{number}")
            call.cancel()
            await call.wait()

    def bulky(number):
        return {"number": number, "text": f"{number:08d}" * (MEGABYTE // 8)}

    assert await traced(work)() < 25 * MEGABYTE
    again = await (await live.call("print_page", bulky(0), call_id="c0")).wait()
    assert again.error.code == "call_cancelled"
    with pytest.raises(CallIdReusedError):
        await live.call("print_page", bulky(1), call_id="c0")
    assert Printer.runs == 0


async def test_calls_that_wait_are_refused_when_their_arguments_are_too_many_bytes(engine):
    session = await start(engine)
    live = engine.find(session)
    first = await live.call("wait", {})
    await anyio.wait_all_tasks_blocked()

    async def send_many():
        for number in range(200):
            await live.call("print_page", {"number": number, "text": f"{number:08d}" * (MEGABYTE // 8)})

    with pytest.raises(CapacityError, match="arguments"):
        await send_many()
    first.cancel()
    assert (await play(engine, session, "later", number=1)).step > 1


@pytest.mark.parametrize("call_id", ["x" * 257, "\ud800"], ids=["long", "surrogate"])
async def test_a_call_id_that_cannot_be_kept_is_refused(engine, call_id):
    session = await start(engine)
    with pytest.raises(InvalidRequestError, match="call id"):
        await play(engine, session, call_id, number=1)


@pytest.mark.parametrize(
    ("tool_name", "arguments"),
    [
        ("no\ud800tool", {}),
        ("nonesuch", {"text": "\ud800"}),
        ("print_page", {"number": 1, "\ud800": 1}),
        ("break_down", {"text": "a\udfffb"}),
        ("say", {"text": "a\udfffb"}),
        ("print_page", {"number": 1, "nested": ["\ud800"]}),
    ],
)
async def test_lone_surrogates_stick_nothing(engine, tool_name, arguments):
    session = await start(engine)
    await play(engine, session, "odd", tool_name, **arguments)
    assert (await engine.status(session)).pending_steps == 0
    assert (await play(engine, session, "plain", number=1)).step == 2
    again = await play(engine, session, "odd", tool_name, **arguments)
    assert again.step == 1


async def test_arguments_leave_memory_once_a_snapshot_has_written_the_steps_of_their_calls(
    engine, monkeypatch
):
    session = await start(engine)
    await play(engine, session, "warm", number=0)
    Printer.gate = anyio.Event()

    async def broken(*_: object) -> None:
        raise StoreError("the disk is full")

    async def work():
        calls = [
            await engine.find(session).call("gather", {"text": f"{number:08d}" * (MEGABYTE // 8)})
            for number in range(30)
        ]
        await anyio.wait_all_tasks_blocked()
        with monkeypatch.context() as patch:
            patch.setattr(type(engine.services.store), "append", broken)
            Printer.gate.set()
            for call in calls:
                await call.wait()
        del calls, call
        assert (await engine.status(session)).pending_steps == 30
        await engine.find(session).snapshots.keep()
        assert (await engine.status(session)).pending_steps == 0

    with anyio.fail_after(60):
        assert await traced(work)() < 6 * MEGABYTE
    assert (await engine.status(session)).summary.steps == 31


async def test_calls_that_were_answered_at_the_end_of_their_session_are_counted_once(engine, monkeypatch):
    session = await start(engine)
    live = engine.find(session)
    await play(engine, session, "warm", number=0)
    Printer.gate, disk = anyio.Event(), anyio.Event()
    append, size = engine.services.store.append, MAX_KEPT_SIZE // 6

    async def wait_for_disk(*args: object) -> None:
        await disk.wait()
        await append(*args)

    monkeypatch.setattr(engine.services.store, "append", wait_for_disk)
    object.__setattr__(engine.services.options, "ending_time_limit", 0.0)
    for number in range(5):
        await live.call("gather", {"text": f"{number:08d}" * (size // 8)})
    await anyio.wait_all_tasks_blocked()
    for number in range(10):  # the first is being written, the others wait behind it
        await live.call("nonesuch", {"text": f"{number:08d}" * (size // 8)})
    await anyio.wait_all_tasks_blocked()
    Printer.gate.set()  # these steps wait to be written, too
    await anyio.wait_all_tasks_blocked()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(engine.delete, session)
        await anyio.wait_all_tasks_blocked()
        disk.set()
    kept = [len(call.arguments.get("text", "")) for call in live._runner.calls._known.values()]
    assert sum(kept) <= MAX_KEPT_SIZE
