"""The border to author code: everything that an author may raise comes out as one error of ours."""

import asyncio
import functools
import threading
from functools import partial

import anyio
import pytest

from ors_server.environments.boundary import (
    MAX_ERROR_TEXT,
    AuthorRaisedError,
    call_author,
    call_hook,
    describe,
    encodable,
    is_async,
    text_of,
)
from ors_server.model.errors import CapacityError, EnvironmentFailedError
from ors_server.timing.workers import LingeringThread, Workers, set_workers


async def give(value):
    return value


@functools.wraps(give)
def wrapped(value):
    return give(value)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (give, True),
        (functools.partial(give, 1), True),
        (functools.partial(functools.partial(give), 1), True),
        (wrapped, True),
        (len, False),
        (functools.partial(len), False),
        (dict, False),
    ],
    ids=["function", "partial", "partial of partial", "wrapped", "builtin", "partial of builtin", "class"],
)
def test_async_functions_are_known_through_partials_and_decorators(function, expected):
    assert is_async(function) is expected


async def test_whatever_way_a_function_is_written_its_value_comes_back():
    assert await call_author(give, 1) == 1
    assert await call_author(wrapped, 2) == 2
    assert await call_author(functools.partial(give, 3)) == 3
    assert await call_author(lambda: 4) == 4
    assert await call_author(lambda: give(5)) == 5
    assert await call_author(len, "123456") == 6


async def test_blocking_functions_run_in_another_thread_and_async_ones_do_not():
    here = threading.get_ident()
    assert await call_author(threading.get_ident) != here

    async def where():
        return threading.get_ident()

    assert await call_author(where) == here


async def test_an_error_of_ours_passes_as_it_is():
    def full():
        raise CapacityError("full", retry_after=7)

    with pytest.raises(CapacityError) as raised:
        await call_author(full)
    assert raised.value.retry_after == 7


async def test_a_failed_hook_names_the_error_and_keeps_it_as_the_cause():
    def fail():
        raise ValueError("no")

    with pytest.raises(EnvironmentFailedError, match="ValueError: no") as raised:
        await call_hook(fail)
    assert isinstance(raised.value.__cause__, ValueError)


async def test_the_servers_own_cancellation_passes_through():
    with anyio.move_on_after(0.01) as scope:
        await call_author(anyio.sleep_forever)
    assert scope.cancelled_caught


async def test_a_cancellation_that_nobody_asked_for_is_an_error():
    async def pretend():
        raise asyncio.CancelledError

    with pytest.raises(AuthorRaisedError, match="CancelledError"):
        await call_author(pretend)
    await anyio.lowlevel.checkpoint()


async def test_a_task_that_cancelled_itself_goes_on():
    async def cancel_myself():
        asyncio.current_task().cancel()
        return "returned"

    async def cancel_myself_and_wait():
        asyncio.current_task().cancel()
        await anyio.sleep_forever()

    assert await call_author(cancel_myself) == "returned"
    with pytest.raises(AuthorRaisedError):
        await call_author(cancel_myself_and_wait)
    assert asyncio.current_task().cancelling() == 0
    await anyio.lowlevel.checkpoint()


async def test_a_coroutine_that_is_closed_closes():
    async def wait():
        await anyio.sleep_forever()

    coroutine = call_author(wait)
    task = asyncio.ensure_future(coroutine)
    await anyio.wait_all_tasks_blocked()
    task.cancel()
    with pytest.raises((asyncio.CancelledError, AuthorRaisedError)):
        await task


async def test_a_stray_thread_is_known_until_it_ends():
    begun, released = threading.Event(), threading.Event()
    thread = LingeringThread()

    def work():
        begun.set()
        released.wait(10)

    async with anyio.create_task_group() as group:
        group.start_soon(partial(call_author, work, thread=thread))
        while not begun.is_set():
            await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    assert thread.ended is not None
    assert not thread.ended.is_set()
    released.set()
    with anyio.fail_after(10):
        await thread.ended.wait()


async def test_a_function_that_never_got_its_thread_is_no_stray():
    set_workers(Workers(1))
    ran: list[int] = []
    released, thread = threading.Event(), LingeringThread()
    async with anyio.create_task_group() as group:
        group.start_soon(call_author, released.wait, 10)
        await anyio.wait_all_tasks_blocked()
        with anyio.move_on_after(0.01):
            await call_author(ran.append, 1, thread=thread)
        released.set()
    assert (thread.ended, ran) == (None, [])


def test_an_error_is_described_by_its_type_and_message():
    assert describe(ValueError("no")) == "ValueError: no"
    assert describe(ValueError()) == "ValueError"


def test_a_message_is_bounded_encodable_and_never_raises():
    class MuteError(Exception):
        def __str__(self):
            raise KeyboardInterrupt

    assert text_of(MuteError()) == ""
    assert text_of(ValueError("a\ud800")) == "a?"
    assert len(text_of(ValueError("x" * 100_000))) < MAX_ERROR_TEXT + 50
    assert encodable("é\udfff!") == "é?!"
    assert encodable("plain") == "plain"
