"""Outputs that a session no longer keeps in memory: read from the record, run no second time."""

import gc
import tracemalloc

import anyio
import pytest

from ors_server import ToolError, ToolOutput, tool
from ors_server.authoring.loading import define
from ors_server.errors import CallIdReusedError, StoreError
from ors_server.sessions.call_table import OUTPUT_SIZE_KEPT, OUTPUTS_KEPT
from ors_server.sessions.manager import open_manager
from ors_server.sessions.session_request import SessionRequest
from ors_server.sessions.session_services import SessionOptions
from ors_server.store.open import open_store
from tests.fixtures.single_task import SingleTask

MEGABYTE = 1024 * 1024


class Printer(SingleTask):
    """Prints."""

    name = "printer"
    runs = 0

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
    count = OUTPUTS_KEPT * 2
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
    for number in range(OUTPUTS_KEPT + 5):
        await play(engine, session, f"c{number}", number=number)
    with pytest.raises(CallIdReusedError):
        await play(engine, session, "c0", number=1)
    with pytest.raises(CallIdReusedError):
        await play(engine, session, "c1", "jam")
    assert await engine.find(session).cancel("c2") is False
    assert Printer.runs == OUTPUTS_KEPT + 5


async def test_many_who_ask_for_old_calls_at_once_run_nothing(engine):
    session = await start(engine)
    for number in range(OUTPUTS_KEPT * 2):
        await play(engine, session, f"c{number}", number=number, size=OUTPUT_SIZE_KEPT // 4)
    seen: list[int] = []

    async def ask(number: int) -> None:
        seen.append(
            (await play(engine, session, f"c{number}", number=number, size=OUTPUT_SIZE_KEPT // 4)).step
        )

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in [*range(20), *range(20), *range(20)]:
                tasks.start_soon(ask, number)
    assert sorted(seen) == sorted([*range(1, 21)] * 3)
    assert Printer.runs == OUTPUTS_KEPT * 2


async def test_a_record_that_cannot_be_read_runs_nothing_again(engine, monkeypatch):
    session = await start(engine)
    for number in range(OUTPUTS_KEPT + 1):
        await play(engine, session, f"c{number}", number=number)

    async def broken(*_: object) -> None:
        raise StoreError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(type(engine.services.store), "steps", broken)
        with pytest.raises(StoreError):
            await play(engine, session, "c0", number=0)
    assert (await play(engine, session, "c0", number=0)).step == 1
    assert Printer.runs == OUTPUTS_KEPT + 1


async def test_two_hundred_long_outputs_leave_memory(engine):
    session = await start(engine)
    await play(engine, session, "warm", number=0, size=2 * MEGABYTE)
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(200):
            await play(engine, session, f"c{number}", number=number, size=2 * MEGABYTE)
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 40 * MEGABYTE
    oldest = await play(engine, session, "c0", number=0, size=2 * MEGABYTE)
    assert len(oldest.output.blocks[0].text) == 2 * MEGABYTE
    assert Printer.runs == 201
