"""Two calls side by side: both results, or the first error as it is."""

import anyio
import pytest

from ors_server.audit.side_by_side import run_both


async def test_both_run_at_the_same_time_and_both_results_are_returned():
    first, second = anyio.Event(), anyio.Event()

    async def one():
        first.set()
        await second.wait()
        return 1

    async def other():
        await first.wait()
        second.set()
        return "two"

    with anyio.fail_after(30):
        assert await run_both(one, other) == (1, "two")


@pytest.mark.parametrize("is_first", [True, False])
async def test_an_error_cancels_the_other_call_and_is_raised_as_it_is(is_first):
    cancelled = []

    async def wait():
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append(True)

    async def fail():
        raise ValueError("no")

    calls = (fail, wait) if is_first else (wait, fail)
    with anyio.fail_after(30), pytest.raises(ValueError, match=r"^no$"):
        await run_both(*calls)
    assert cancelled == [True]
