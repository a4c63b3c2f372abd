"""What an environment's own gold and blank actions earn: the figures that other formats ask for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ors_server.environments.definition import EnvironmentDefinition
from ors_server.model.errors import OrsServerError
from ors_server.model.wire import ImageBlock, JSONObject
from ors_server.packaging.environment_source import PackagingError
from ors_server.testing.environment_subject import Actions, spread
from ors_server.testing.local_client import CallRefusedError, LocalClient, open_environment

SEED = 0
MAX_TASKS = 10_000
"""Maximum number of tasks of one package."""


@dataclass(frozen=True, slots=True)
class KnownReturn:
    """One task, its gold actions, and what they and the blank actions earn."""

    split: str
    index: int
    task_spec: JSONObject
    prompt: str
    has_images: bool
    """Whether the prompt has more than its text."""
    gold: Actions
    gold_return: float
    blank_return: float | None
    """`None` if the class has no blank actions for the task."""
    schemas: dict[str, JSONObject]
    """Arguments of each tool of the session, by its name."""


async def returns_of_known_plays(
    definition: EnvironmentDefinition, *, per_split: int | None, splits: Sequence[str] = ()
) -> list[KnownReturn]:
    """Play the gold and the blank actions of tasks.

    Args:
        per_split: Evenly spaced tasks of each split; all of them by default.
        splits: Names of the splits; all by default.

    Raises:
        PackagingError: If the class has no gold actions, or they fail.
    """
    gold_actions: Any = getattr(definition.source, "gold_actions", None)
    if not callable(gold_actions):
        raise PackagingError(
            f"{definition.name}: this package states what the right actions earn; give the class "
            "gold_actions(task_spec), or the declaration a gold or an answer"
        )
    names = [split.name for split in definition.splits if not splits or split.name in splits]
    unknown = sorted(set(splits) - set(names))
    if unknown:
        existing = ", ".join(split.name for split in definition.splits)
        raise PackagingError(f"{definition.name}: unknown split {unknown[0]!r}; expected one of {existing}")
    plays: list[KnownReturn] = []
    async with open_environment(definition) as client:
        for name in names:
            size = await definition.tasks.num_tasks(name)
            for index in spread(size, size if per_split is None else per_split):
                if len(plays) >= MAX_TASKS:
                    raise PackagingError(
                        f"{definition.name}: expected at most {MAX_TASKS:,} tasks; choose fewer with --tasks"
                    )
                spec = await definition.tasks.get_task(name, index)
                gold = cast("Callable[[JSONObject], Actions | None]", gold_actions)(spec)
                if gold is not None:
                    plays.append(await _play(client, definition, name, index, gold))
    if not plays:
        raise PackagingError(f"{definition.name}: gold_actions knows no task")
    return plays


async def _play(
    client: LocalClient, definition: EnvironmentDefinition, split: str, index: int, gold: Actions
) -> KnownReturn:
    spec = await definition.tasks.get_task(split, index)
    blank_actions: Any = getattr(definition.source, "blank_actions", None)
    blank: Actions | None = (
        cast("Callable[[JSONObject], Actions | None]", blank_actions)(spec)
        if callable(blank_actions)
        else None
    )
    session = await client.create(split=split, index=index, seed=SEED)
    blocks = await session.blocks()
    schemas = {tool.name: tool.input_schema or {} for tool in (await session.tools()).tools}
    prompt = await session.prompt()
    await session.aclose()
    task_name = f"{definition.name}/{split}/{index}"
    return KnownReturn(
        split=split,
        index=index,
        task_spec=spec,
        prompt=prompt,
        has_images=any(isinstance(block, ImageBlock) for block in blocks),
        gold=list(gold),
        gold_return=await _earn(client, split, index, gold, task_name),
        blank_return=None if blank is None else await _earn(client, split, index, blank, task_name),
        schemas=schemas,
    )


async def _earn(client: LocalClient, split: str, index: int, actions: Actions, task_name: str) -> float:
    session = await client.create(split=split, index=index, seed=SEED)
    for name, arguments in actions:
        try:
            await session.submit(name, arguments)
        except CallRefusedError:
            continue  # a blank action may be one that no tool takes: it earns nothing
        except OrsServerError as error:
            raise PackagingError(
                f"{task_name}: {name} failed: {error}; ors-server check shows more"
            ) from error
    summary = await session.summary()
    await session.aclose()
    return summary.episode_return
