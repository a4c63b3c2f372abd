"""What `boundary.py` takes for granted of asyncio and anyio; a failure names what a version changed."""

import ast
import asyncio
import inspect
import math
from importlib.metadata import version
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from ors_server.environments import boundary

USED = {
    "anyio.current_effective_deadline": anyio.current_effective_deadline,
    "anyio.lowlevel.cancel_shielded_checkpoint": anyio.lowlevel.cancel_shielded_checkpoint,
    "asyncio.current_task": asyncio.current_task,
    "asyncio.Task.cancelling": asyncio.Task.cancelling,
    "asyncio.Task.uncancel": asyncio.Task.uncancel,
}


def test_the_version_is_one_that_was_checked():
    message = "anyio moved: check boundary.py against it, then its docstring, pin and this test"
    assert version("anyio").partition(".")[0] == "4", message


def test_the_table_names_what_the_module_uses():
    tree = ast.parse(Path(boundary.__file__).read_text())
    used = {
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node).startswith(("anyio.", "asyncio.", "task."))
    }
    used |= {
        f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(("anyio", "asyncio"))
        for alias in node.names
    }
    used = {name.replace("task.", "asyncio.Task.") for name in used}
    assert used - {"asyncio.CancelledError", "asyncio.Task"} == set(USED)


@pytest.mark.parametrize("name", USED)
def test_a_function_needs_no_arguments(name):
    parameters = inspect.signature(USED[name]).parameters.values()
    needed = [one.name for one in parameters if one.default is inspect.Parameter.empty and one.name != "self"]
    assert not needed


async def test_the_deadline_is_minus_infinity_exactly_in_a_cancelled_scope():
    assert anyio.current_effective_deadline() == math.inf
    assert not boundary.is_scope_cancelled()
    with anyio.CancelScope() as scope:
        scope.cancel()
        assert anyio.current_effective_deadline() == -math.inf
        assert boundary.is_scope_cancelled()
        with anyio.CancelScope(shield=True):
            assert not boundary.is_scope_cancelled()
            await anyio.lowlevel.checkpoint()


async def test_a_cancelled_scope_further_out_counts_too():
    with anyio.CancelScope() as outer, anyio.CancelScope():
        outer.cancel()
        assert boundary.is_scope_cancelled()
        await anyio.lowlevel.checkpoint()


def test_outside_of_an_event_loop_no_task_is_current():
    with pytest.raises(RuntimeError):
        asyncio.current_task()
    assert not boundary.is_current(None)


async def test_the_running_task_is_current():
    assert boundary.is_current(asyncio.current_task())
    assert not boundary.is_current(None)


async def test_a_cancellation_from_outside_every_scope_is_taken_back():
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    task.cancel()
    task.cancel()
    assert task.cancelling() == before + 2
    await boundary.take_back_cancellations(task, before)
    assert task.cancelling() == before
    await anyio.lowlevel.checkpoint()


async def test_a_cancellation_of_a_scope_is_not_taken_back():
    task = asyncio.current_task()
    with anyio.CancelScope() as scope:
        scope.cancel()
        with pytest.raises(asyncio.CancelledError):
            await anyio.lowlevel.checkpoint()
        pending = task.cancelling()
        await boundary.take_back_cancellations(task, pending - 1)
        assert task.cancelling() == pending
        await anyio.lowlevel.checkpoint()
