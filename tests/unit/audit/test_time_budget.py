"""The time of an audit is shared out, and what needs more is cancelled."""

import anyio
import pytest

from ors_server.audit.audit_context import BudgetOverError
from ors_server.audit.auditing import TimeBudget


async def test_what_takes_longer_than_its_share_is_cancelled():
    budget = TimeBudget(60.0)
    assert 0.0 < budget.share(4) <= 15.0
    with anyio.fail_after(30), pytest.raises(BudgetOverError), budget.limit(0.01):
        await anyio.sleep_forever()
    with budget.limit(30.0):
        await anyio.lowlevel.checkpoint()


async def test_nothing_begins_after_the_end():
    budget = TimeBudget(0.0)
    with pytest.raises(BudgetOverError), budget.limit(10.0):
        raise AssertionError
    assert budget.left == 0.0


async def test_without_a_limit_nothing_is_cancelled():
    budget = TimeBudget(None)
    assert budget.share(20) == budget.left == float("inf")
    with budget.limit(budget.left):
        await anyio.lowlevel.checkpoint()
