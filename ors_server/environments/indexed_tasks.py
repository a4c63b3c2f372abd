"""The base class of environments that make each task from its split and index."""

from collections.abc import Mapping
from typing import ClassVar

from typing_extensions import override

from ors_server.environments.environment import Environment
from ors_server.model.wire import JSONObject, Split, named_split


class IndexedTasks(Environment):
    """Base of environments that make each task from its split and index, such as generators and tables.

    A subclass sets `split_sizes` and defines `make_task`; counts, slices, negative indices and lists follow
    from these two. Where sizes are known only after something was loaded, it overrides `num_tasks` and
    `list_splits` instead of setting `split_sizes`.
    """

    split_sizes: ClassVar[Mapping[str, int]] = {}
    """Number of tasks by split, in the order in which splits are listed. Splits of size 0 are not listed."""

    @classmethod
    def make_task(cls, split: str, index: int) -> JSONObject:
        """Return the task of an index, which is at least 0 and less than the size of the split."""
        raise NotImplementedError(f"{cls.__name__} must define make_task(split, index)")

    @override
    @classmethod
    def list_splits(cls) -> list[Split]:
        return [named_split(name) for name, size in cls.split_sizes.items() if size]

    @override
    @classmethod
    def num_tasks(cls, split: str) -> int:
        return cls.split_sizes[split]

    @override
    @classmethod
    def get_task(cls, split: str, index: int) -> JSONObject:
        size = cls.num_tasks(split)
        if not -size <= index < size:
            raise IndexError(f"index {index} is out of range: split {split!r} has {size} tasks")
        return cls.make_task(split, index % size)

    @override
    @classmethod
    def get_task_range(
        cls, split: str, start: int | None = None, stop: int | None = None
    ) -> list[JSONObject]:
        return [cls.make_task(split, index) for index in range(cls.num_tasks(split))[start:stop]]

    @override
    @classmethod
    def list_tasks(cls, split: str) -> list[JSONObject]:
        return cls.get_task_range(split)
