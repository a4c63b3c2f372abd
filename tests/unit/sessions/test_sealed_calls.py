"""Writing a call's result: no wish to stop interrupts it, and what is kept of a call is small."""

import anyio
from anyio.lowlevel import checkpoint

from ors_server.errors import CallCancelledError
from ors_server.sessions.session_call import Call, Failure

RESULT = Failure(CallCancelledError("withdrawn"))


async def write(call):
    with call.seal():
        await checkpoint()
        call.resolve(RESULT)


async def test_a_wish_to_stop_does_not_interrupt_the_writing_and_comes_too_late_during_it():
    call = Call("c", "echo", {})
    with anyio.CancelScope() as call.scope, call.seal():
        call.cancel()
        await checkpoint()
        call.resolve(RESULT)
    assert call.result is RESULT
    call = Call("c", "echo", {})
    with anyio.CancelScope() as call.scope:
        call.cancel()
        await write(call)
    assert call.result is RESULT


async def test_everybody_who_waited_is_told_and_nothing_is_kept_of_the_waiting():
    call = Call("c", "echo", {})
    told = []

    async def listen():
        told.append(await call.wait())

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(listen)
            group.start_soon(listen)
            await anyio.wait_all_tasks_blocked()
            await write(call)
    assert told == [RESULT, RESULT]
    assert call._readers is None


async def test_who_waits_for_a_while_only_is_let_go_and_may_wait_again():
    call = Call("c", "pay", {})
    with anyio.fail_after(10):
        assert await call.wait_for(0.0) is None
        async with anyio.create_task_group() as group:
            group.start_soon(call.wait_for, 10.0)
            await anyio.wait_all_tasks_blocked()
            assert len(call._readers) == 1
            group.cancel_scope.cancel()
        assert call._readers == []
        call.resolve(RESULT)
        assert await call.wait_for(0.0) is RESULT
