"""Background tasks: none ends another, and closing waits for those that can be stopped."""

import asyncio

import anyio

from ors_server.sessions.session_services import BackgroundTasks


async def test_a_task_that_fails_or_cancels_itself_ends_alone():
    background, ended = BackgroundTasks(), []

    async def fail():
        raise ValueError("a defect")

    async def cancel_itself():
        asyncio.current_task().cancel()
        await anyio.sleep_forever()

    async def go_on(number):
        await anyio.lowlevel.checkpoint()
        ended.append(number)

    for function, arguments in [(fail, ()), (cancel_itself, ()), (go_on, (1,)), (go_on, (2,))]:
        background.spawn(function, *arguments)
    await anyio.wait_all_tasks_blocked()
    assert ended == [1, 2]
    with anyio.fail_after(10):
        await background.aclose(1.0)


async def test_closing_cancels_and_waits_for_what_still_runs():
    background, stopped = BackgroundTasks(), []

    async def run():
        try:
            await anyio.sleep_forever()
        finally:
            stopped.append(True)

    background.spawn(run)
    await anyio.wait_all_tasks_blocked()
    with anyio.fail_after(10):
        await background.aclose(1.0)
    assert stopped == [True]


async def test_closing_leaves_behind_what_ignores_its_cancellation():
    background, released = BackgroundTasks(), anyio.Event()

    async def ignore():
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    background.spawn(ignore)
    await anyio.wait_all_tasks_blocked()
    with anyio.fail_after(10):
        await background.aclose(0.01)
    assert not released.is_set()
    released.set()
    await anyio.wait_all_tasks_blocked()
