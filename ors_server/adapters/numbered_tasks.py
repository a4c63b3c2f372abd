"""Tasks that a package generates from numbers: those of `train` come first, those of `test` after them."""

from collections.abc import Sequence
from typing import ClassVar

from typing_extensions import override

from ors_server.environments.indexed_tasks import IndexedTasks
from ors_server.model.errors import EnvironmentDefinitionError
from ors_server.model.wire import JSONObject, Split, named_split


class SplitSizes:
    """The part of an environment's settings that states the number of tasks of each split."""

    train_tasks: int
    test_tasks: int

    @property
    def sizes(self) -> dict[str, int]:
        """Number of tasks by split, in the order of their numbers."""
        return {"train": self.train_tasks, "test": self.test_tasks}

    def check_sizes(self, source: str) -> None:
        """Raise `EnvironmentDefinitionError`, which begins with `source`, if there is no task."""
        if min(self.sizes.values()) < 0 or not sum(self.sizes.values()):
            raise EnvironmentDefinitionError(
                f"{source}: expected at least one task, got train_tasks={self.train_tasks}, "
                f"test_tasks={self.test_tasks}"
            )


def share_tasks(sizes: SplitSizes, count: int) -> tuple[int, int]:
    """Divide `count` tasks into those of `train` and `test`, in the proportion of the sizes.

    A split that has tasks in the sizes gets one at least, `train` before `test`.
    """
    total = sizes.train_tasks + sizes.test_tasks
    # Rounded down, but never to an empty split; `train` wins if there is one task only.
    test = max(sizes.test_tasks * count // total, min(sizes.test_tasks, 1))
    test = min(test, count - min(sizes.train_tasks, 1))
    return count - test, test


class NumberedTasks(IndexedTasks):
    """Base of environments whose tasks differ in a number."""

    _split_sizes: ClassVar[SplitSizes]

    @classmethod
    def _task_of(cls, number: int) -> JSONObject:
        """Return the task of a number."""
        return {"seed": number}

    @override
    @classmethod
    def list_splits(cls) -> list[Split]:
        return [named_split(name) for name, size in cls._split_sizes.sizes.items() if size]

    @override
    @classmethod
    def num_tasks(cls, split: str) -> int:
        return cls._split_sizes.sizes[split]

    @override
    @classmethod
    def make_task(cls, split: str, index: int) -> JSONObject:
        return cls._task_of(index if split == "train" else cls._split_sizes.train_tasks + index)


class SeededTasks(NumberedTasks):
    """Base of games whose tasks differ in the seed, of a list of those whose games differ."""

    prompts_may_repeat: ClassVar[bool] = False
    """Whether games that begin alike are different tasks."""
    _seeds: ClassVar[Sequence[int]]

    @override
    @classmethod
    def _task_of(cls, number: int) -> JSONObject:
        return {"seed": cls._seeds[number]}
