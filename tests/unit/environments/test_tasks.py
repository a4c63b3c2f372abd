"""Tasks, whichever of the listing and index methods an author wrote."""

import asyncio

import anyio
import pytest

from ors_server import Environment
from ors_server.environments.tasks import LISTABLE_BY_INDEX, ClassTasks
from ors_server.model.errors import (
    EnvironmentFailedError,
    TasksNotListableError,
    UnknownSplitError,
    UnknownTaskError,
)


class Listed(Environment):
    reads = 0

    @classmethod
    def list_tasks(cls, split):
        cls.reads += 1
        return [{"n": n} for n in range(3)]


class Indexed(Environment):
    count = 5

    @classmethod
    async def num_tasks(cls, split):
        return cls.count

    @classmethod
    def get_task(cls, split, index):
        if index >= cls.count:
            raise IndexError(index)
        return {"n": index}


class Ranged(Indexed):
    @classmethod
    def get_task_range(cls, split, start=None, stop=None):
        return ({"ranged": n} for n in range(2)) if start == -1 else [{"ranged": start}]


class Undecided(Indexed):
    @classmethod
    def list_tasks(cls, split):
        raise NotImplementedError


def read(cls):
    return ClassTasks(cls, Environment, frozenset({"train"}))


@pytest.mark.parametrize("cls", [Listed, Indexed])
@pytest.mark.parametrize(
    ("start", "stop"), [(None, None), (1, 2), (-2, None), (None, -1), (2, 1), (0, 99), (99, None), (-99, 2)]
)
async def test_a_range_follows_the_rules_of_slices(cls, start, stop):
    everything = [{"n": n} for n in range(3 if cls is Listed else 5)]
    assert await read(cls).get_task_range("train", start, stop) == everything[start:stop]


@pytest.mark.parametrize("cls", [Listed, Indexed, Undecided])
async def test_an_index_counts_from_either_end_and_stops_there(cls):
    tasks = read(cls)
    count = await tasks.num_tasks("train")
    assert await tasks.get_task("train", 0) == {"n": 0}
    assert await tasks.get_task("train", -1) == {"n": count - 1}
    for index in (count, -count - 1, 10**30):
        with pytest.raises(UnknownTaskError, match=f"Invalid index .*: expected 0 to {count - 1}"):
            await tasks.get_task("train", index)


@pytest.mark.parametrize("ask", ["list_tasks", "num_tasks"])
async def test_an_unknown_split_is_the_clients_mistake(ask):
    with pytest.raises(UnknownSplitError, match="Invalid split 'nosuch'"):
        await getattr(read(Listed), ask)("nosuch")
    with pytest.raises(UnknownSplitError):
        await read(Listed).get_task("nosuch", 0)
    with pytest.raises(UnknownSplitError):
        await read(Listed).get_task_range("nosuch", None, None)


async def test_a_list_is_read_once_even_by_many_at_once():
    Listed.reads = 0
    tasks = read(Listed)
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(tasks.list_tasks, "train")
            group.start_soon(tasks.get_task, "train", 1)
    assert Listed.reads == 1


async def test_a_short_split_of_indexed_tasks_can_be_listed_and_a_long_one_cannot():
    assert len(await read(Indexed).list_tasks("train")) == 5

    class Many(Undecided):
        count = LISTABLE_BY_INDEX + 1

    with pytest.raises(TasksNotListableError, match="not supported"):
        await read(Many).list_tasks("train")


async def test_a_range_of_indexed_tasks_takes_few_turns_of_a_thread(monkeypatch):
    class Long(Indexed):
        count = 1_000

    turns = []
    loop = asyncio.get_running_loop()
    wake = loop.call_soon_threadsafe

    def count(*values, **options):
        turns.append(0)
        return wake(*values, **options)

    monkeypatch.setattr(loop, "call_soon_threadsafe", count)
    assert await read(Long).get_task_range("train", None, None) == [{"n": n} for n in range(1_000)]
    assert len(turns) < 50


@pytest.mark.parametrize("last", [ValueError("broken"), "no task", None], ids=repr)
async def test_a_range_with_a_task_that_cannot_be_read_is_refused_with_its_reason(last):
    class Broken(Indexed):
        @classmethod
        def get_task(cls, split, index):
            if isinstance(last, Exception) and index == 3:
                raise last
            return last if index == 3 else {"n": index}

    with pytest.raises(EnvironmentFailedError, match="broken" if isinstance(last, Exception) else "object"):
        await read(Broken).get_task_range("train", None, None)


async def test_a_range_is_read_where_a_method_returns_what_another_one_awaits():
    class Deferred(Indexed):
        @classmethod
        def get_task(cls, split, index):
            return cls.find(index)

        @classmethod
        async def find(cls, index):
            return {"n": index}

    assert await read(Deferred).get_task_range("train", 1, 3) == [{"n": 1}, {"n": 2}]


async def test_an_authors_own_range_is_used():
    assert await read(Ranged).get_task_range("train", 7, None) == [{"ranged": 7}]
    with pytest.raises(EnvironmentFailedError, match="list of JSON objects, got generator"):
        await read(Ranged).get_task_range("train", -1, None)


async def test_without_any_method_there_are_no_tasks():
    with pytest.raises(EnvironmentFailedError, match="must define list_tasks"):
        await read(Environment).num_tasks("train")
    with pytest.raises(UnknownTaskError):
        await read(Environment).get_task("train", 0)


@pytest.mark.parametrize("wrong", [None, 5, "train", {"n": 1}, [1], ["x"]], ids=repr)
async def test_tasks_of_another_form_are_the_authors_fault(wrong):
    class Wrong(Environment):
        @classmethod
        def list_tasks(cls, split):
            return wrong

    with pytest.raises(EnvironmentFailedError):
        await read(Wrong).list_tasks("train")


@pytest.mark.parametrize("wrong", [None, -1, "many", 1.5], ids=repr)
async def test_a_count_of_another_form_is_the_authors_fault(wrong):
    class Wrong(Environment):
        @classmethod
        def num_tasks(cls, split):
            return wrong

    with pytest.raises(EnvironmentFailedError, match="number of tasks"):
        await read(Wrong).num_tasks("train")


@pytest.mark.parametrize("error", [ValueError("broken"), SystemExit(1), IndexError(0)], ids=repr)
@pytest.mark.parametrize("method", ["list_tasks", "num_tasks", "get_task_range"])
async def test_a_method_that_raises_is_the_authors_fault(error, method):
    def fail(cls, *args):
        raise error

    broken = type("Broken", (Environment,), {method: classmethod(fail)})
    arguments = ("train", 0, 1) if method == "get_task_range" else ("train",)
    with pytest.raises(EnvironmentFailedError, match=type(error).__name__):
        await getattr(read(broken), method)(*arguments)


async def test_an_index_within_the_count_that_raises_is_the_authors_fault_and_one_beyond_is_not():
    class Careless(Environment):
        @classmethod
        def num_tasks(cls, split):
            return 2

        @classmethod
        def get_task(cls, split, index):
            return {0: {"n": 0}}[index]

    tasks = read(Careless)
    assert await tasks.get_task("train", 0) == {"n": 0}
    with pytest.raises(EnvironmentFailedError, match="KeyError"):
        await tasks.get_task("train", 1)
    with pytest.raises(UnknownTaskError):
        await tasks.get_task("train", 2)


async def test_a_single_task_of_another_form_is_the_authors_fault():
    class Wrong(Indexed):
        @classmethod
        def get_task(cls, split, index):
            return [index]

    with pytest.raises(EnvironmentFailedError, match="JSON object, got list"):
        await read(Wrong).get_task("train", 0)
