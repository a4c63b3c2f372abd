"""Chooses the task of an episode that is started in the lobby, if the agent leaves that to the server."""

from dataclasses import dataclass
from random import Random
from secrets import randbits

from ors_server.authoring.definition import EnvironmentDefinition
from ors_server.errors import UnknownTaskError

SEED_BITS = 53
"""Bits of a seed, so that every JSON reader keeps it whole."""


@dataclass(frozen=True, slots=True)
class TaskChoice:
    """A task by split and index, and the seed that chose it."""

    split: str
    index: int
    seed: int
    is_chosen: bool
    """Whether the server chose the split or the index."""

    @property
    def sentence(self) -> str:
        """The choice in words; empty where the agent named the task."""
        if not self.is_chosen:
            return ""
        return f"The server chose the task: split {self.split!r}, index {self.index}, seed {self.seed}."


async def choose_task(
    definition: EnvironmentDefinition, split: str | None, index: int | None, seed: int | None
) -> TaskChoice:
    """Choose what the agent did not name; the same seed chooses the same task.

    Args:
        split: `None` chooses among the splits that have the index.
        index: From 0; `None` chooses one.
        seed: In [0, 2**53); `None` draws one.

    Raises:
        UnknownSplitError: If the environment has no such split.
        UnknownTaskError: If there is no task to choose.
    """
    seed = randbits(SEED_BITS) if seed is None else seed
    if split is not None and index is not None:
        return TaskChoice(split, index, seed, is_chosen=False)
    names = [one.name for one in definition.splits] if split is None else [split]
    sizes = {name: await definition.tasks.num_tasks(name) for name in names}
    open_splits = [name for name, size in sizes.items() if size > (index or 0)]
    if not open_splits:
        sizes_in_words = ", ".join(f"{name!r} has {size} tasks" for name, size in sizes.items())
        what = "a task" if index is None else f"index {index}"
        raise UnknownTaskError(f"no split of {definition.name!r} has {what}: {sizes_in_words}")
    chance = Random(seed)  # noqa: S311  (a choice that can be repeated, no secret)
    chosen = chance.choice(open_splits)
    position = chance.randrange(sizes[chosen]) if index is None else index
    return TaskChoice(chosen, position, seed, is_chosen=True)
