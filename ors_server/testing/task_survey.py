"""Compares an environment's tasks with each other: equal tasks, equal prompts, golds that contradict.

The work is linear in the number of tasks, and bounded: `MAX_COMPARED` tasks are read, of which only digests
are kept, and `MAX_PROMPTS` prompts, in `MAX_SECONDS`. Larger environments are compared in part: every split
gets an equal share, and what a small split does not need goes to the larger ones. Prompts of declared
environments need no session, so they are read of all compared tasks.
"""

import hashlib
import json
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, cast

from ors_server.environments.definition import EnvironmentDefinition
from ors_server.model.errors import OrsServerError
from ors_server.model.wire import JSONObject
from ors_server.resources.resource_pool import ResourcePool
from ors_server.testing.local_client import LocalClient, open_environment

MAX_COMPARED = 100_000
"""Tasks of an environment that are compared; they take some 50 MiB."""
MAX_PROMPTS = 1_000
"""Prompts that are read in sessions."""
MAX_GOLDS = 2_000
"""Maximum number of gold actions that are computed; only for tasks with the same prompt."""
MAX_SECONDS = 60.0
"""Seconds after which no more prompts and gold actions are read."""
MAX_PAIRS = 3
"""Pairs of equal tasks that a report names."""
_SEED = 0
_CHUNK = 500
"""Tasks that are read at once."""
_READING_ORDER = {"train": 0, "validation": 1, "test": 2}
"""Training tasks first, so that the counted tasks are those of the other splits."""
_DIGEST_BYTES = 16

Splits: TypeAlias = tuple[str, str]
"""The splits of an earlier and a later task."""


@dataclass(frozen=True, slots=True)
class TaskPosition:
    """Where a task is."""

    split: str
    index: int


@dataclass
class EqualTasks:
    """How many tasks are equal in some way to an earlier one, and the first of them."""

    counts: Counter[Splits] = field(default_factory=Counter[Splits])
    pairs: dict[Splits, list[tuple[int, int]]] = field(default_factory=dict[Splits, list[tuple[int, int]]])
    """Indices of the earlier and the later task, of the first `MAX_PAIRS` pairs."""

    def add(self, first: TaskPosition, second: TaskPosition) -> None:
        """Count a task that is equal to an earlier one."""
        splits = (first.split, second.split)
        self.counts[splits] += 1
        pairs = self.pairs.setdefault(splits, [])
        if len(pairs) < MAX_PAIRS:
            pairs.append((first.index, second.index))

    def merge(self, further: "EqualTasks") -> None:
        """Add the counts of another survey."""
        self.counts += further.counts
        for splits, pairs in further.pairs.items():
            self.pairs[splits] = [*self.pairs.get(splits, []), *pairs][:MAX_PAIRS]

    def across(self, types: Mapping[str, str]) -> "EqualTasks":
        """Return those whose two tasks are in splits of different types."""
        kept = [splits for splits in self.counts if types[splits[0]] != types[splits[1]]]
        return EqualTasks(
            Counter({splits: self.counts[splits] for splits in kept}),
            {splits: self.pairs[splits] for splits in kept},
        )

    def describe(self, relation: str, sizes: Mapping[str, int]) -> str:
        """Return one sentence for each two splits, with the count and the first pairs; empty without any.

        Args:
            relation: What the tasks have in common, such as "have the prompt of".
            sizes: How many tasks of each split were compared.
        """
        return "; ".join(
            f"{count} of {sizes[second]} tasks of split {second!r} {relation} "
            + ("an earlier one" if first == second else f"one of split {first!r}")
            + f" ({self._list(splits)})"
            for splits, count in self.counts.items()
            for first, second in (splits,)
        )

    def _list(self, splits: Splits) -> str:
        pairs = ", ".join(f"{first} and {second}" for first, second in self.pairs[splits])
        return f"{'' if splits[0] == splits[1] else f'{splits[0]} and {splits[1]} '}indices {pairs}" + (
            ", ..." if self.counts[splits] > len(self.pairs[splits]) else ""
        )


@dataclass
class TaskSurvey:
    """The comparison of the tasks of an environment."""

    compared: dict[str, int] = field(default_factory=dict[str, int])
    """How many tasks of each split were compared."""
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    """How many tasks each split has."""
    prompts: int = 0
    """How many prompts were compared."""
    prompts_are_partial: bool = False
    """Whether agents are given files, too, which are not read."""
    prompt_failure: str = ""
    """Why no more prompts were read, if one could not be."""
    leaks: EqualTasks = field(default_factory=EqualTasks)
    """Tasks that are in splits of two types: equal as JSON, or in prompt and gold."""
    contradictions: EqualTasks = field(default_factory=EqualTasks)
    """Tasks with the same prompt and different golds, where nothing but the prompt decides the answer."""
    repeats: EqualTasks = field(default_factory=EqualTasks)
    """Tasks equal as JSON or in their prompts, that are neither leaks nor contradictions."""

    @property
    def leak_text(self) -> str:
        """The leaks in words; empty without any."""
        return self._text(self.leaks, "are the same (equal as JSON, or in prompt and gold) as")

    @property
    def contradiction_text(self) -> str:
        """The contradictions in words; empty without any."""
        return self._text(self.contradictions, "have the prompt, but not the gold, of")

    @property
    def repeat_text(self) -> str:
        """The repeats in words; empty without any."""
        return self._text(self.repeats, "are equal, as JSON or in the prompt, to")

    def _text(self, equal_tasks: EqualTasks, relation: str) -> str:
        text = equal_tasks.describe(relation, self.compared)
        read, total = sum(self.compared.values()), sum(self.sizes.values())
        return f"{text}; {read} of {total} tasks were compared" if text and read < total else text


async def survey_tasks(
    definition: EnvironmentDefinition,
    resources: ResourcePool,
    on_progress: Callable[[str], None] = lambda _: None,
    on_prompt: Callable[[TaskPosition, Any], None] = lambda _, __: None,
) -> TaskSurvey:
    """Compare the tasks of an environment.

    No session has a sandbox, and its setup is not run if it would need one: the prompts of sandboxed
    environments are compared, but not their files.

    Args:
        resources: Resources that the sessions share.
        on_progress: Called from time to time with how many tasks were compared.
        on_prompt: Called with each prompt that was read, as JSON; not with those of tasks that are equal as
            JSON to an earlier one.

    Raises:
        OrsServerError: If tasks cannot be read.
    """
    return await _Surveyor(definition, resources, on_progress, on_prompt).run()


class _Surveyor:
    def __init__(
        self,
        definition: EnvironmentDefinition,
        resources: ResourcePool,
        on_progress: Callable[[str], None],
        on_prompt: Callable[[TaskPosition, Any], None],
    ) -> None:
        self._definition, self._resources, self._on_progress = definition, resources, on_progress
        self._on_prompt = on_prompt
        self._types = {split.name: split.type for split in definition.splits}
        self._survey = TaskSurvey()
        self._prompts = _PromptReader(definition, resources)
        self._golds = _GoldReader(definition)
        self._tasks: dict[bytes, list[TaskPosition]] = {}
        """Digest of a task -> its first position in each split."""
        self._shown: dict[bytes, list[TaskPosition]] = {}
        """Digest of a prompt -> the first position in each split of a task with it."""

    async def run(self) -> TaskSurvey:
        """Compare the tasks, split by split."""
        survey, tasks = self._survey, self._definition.tasks
        names = sorted(self._types, key=lambda name: _READING_ORDER.get(self._types[name], 0))
        survey.sizes = {name: await tasks.num_tasks(name) for name in names}
        survey.compared = share_out(survey.sizes, MAX_COMPARED)
        budgets = survey.compared if self._prompts.is_cheap else share_out(survey.compared, MAX_PROMPTS)
        if getattr(self._definition.source, "prompts_may_repeat", False):
            budgets = dict.fromkeys(names, 0)
        async with self._prompts:
            for name in names:
                async for index, spec in self._read(name):
                    await self._add(TaskPosition(name, index), spec, reads_prompt=index < budgets[name])
        survey.prompts, survey.prompt_failure = self._prompts.count, self._prompts.failure
        survey.prompts_are_partial = self._prompts.are_partial
        if not self._golds.follow_from_prompts:  # a later gold may have been the first to have several calls
            survey.repeats.merge(survey.contradictions)
            survey.contradictions = EqualTasks()
        return survey

    async def _read(self, split: str) -> AsyncGenerator[tuple[int, JSONObject]]:
        size = self._survey.compared[split]
        for start in range(0, size, _CHUNK):
            self._on_progress(f"compares task {start} of split {split!r}")
            stop = min(start + _CHUNK, size)
            for index, spec in enumerate(
                await self._definition.tasks.get_task_range(split, start, stop), start
            ):
                yield index, spec

    async def _add(self, position: TaskPosition, spec: JSONObject, *, reads_prompt: bool) -> None:
        # The id that a declared environment gives a task says its position, and does not belong to it.
        is_named = self._prompts.is_cheap and spec.get("id") == f"{position.split}/{position.index}"
        own = {name: value for name, value in spec.items() if name != "id"} if is_named else spec
        first = self._note(self._tasks, digest(own), position)
        if first is not None:
            # Equal tasks have equal prompts: to read them would cost two sessions and show nothing new.
            self._count(first, position, is_same=True)
            return
        prompt = await self._prompts.read(position, spec) if reads_prompt else None
        if prompt is None:
            return
        self._on_prompt(position, prompt)
        first = self._note(self._shown, digest(prompt), position)
        if first is not None:
            await self._count_prompt(first, position, spec)

    def _note(
        self, before: dict[bytes, list[TaskPosition]], key: bytes, position: TaskPosition
    ) -> TaskPosition | None:
        """Note a position, and return an earlier one with the same key, in a split of another type if any."""
        positions = before.setdefault(key, [])
        # A position in a split of another type first, since a leak matters more than a repeat.
        earlier = sorted(positions, key=lambda noted: self._types[noted.split] == self._types[position.split])
        if all(noted.split != position.split for noted in positions):
            positions.append(position)
        return earlier[0] if earlier else None

    async def _count_prompt(self, first: TaskPosition, second: TaskPosition, spec: JSONObject) -> None:
        earlier = self._golds.read(await self._definition.tasks.get_task(first.split, first.index))
        later = self._golds.read(spec)
        are_known = earlier is not None and later is not None
        is_same = earlier is not None and later is not None and not earlier.isdisjoint(later)
        # The files of a sandbox are not read, so that equal prompts alone prove nothing there.
        if are_known and not is_same and self._golds.follow_from_prompts:
            self._survey.contradictions.add(first, second)
        elif not self._prompts.are_partial or (
            is_same and self._types[first.split] != self._types[second.split]
        ):
            self._count(first, second, is_same=is_same)

    def _count(self, first: TaskPosition, second: TaskPosition, *, is_same: bool) -> None:
        if is_same and self._types[first.split] != self._types[second.split]:
            self._survey.leaks.add(first, second)
        else:
            self._survey.repeats.add(first, second)


def share_out(sizes: Mapping[str, int], total: int) -> dict[str, int]:
    """Divide at most `total` among splits: equal shares; what a split does not need goes to the others."""
    shares: dict[str, int] = {}
    # Small splits first: the shares that they leave over go to the larger ones.
    for name in sorted(sizes, key=lambda name: sizes[name]):
        shares[name] = min(sizes[name], (total - sum(shares.values())) // (len(sizes) - len(shares)))
    return shares


def digest(value: Any) -> bytes:
    """Return a digest of a JSON value; the order of keys does not matter."""
    text = json.dumps(value, sort_keys=True, default=str)
    # A task may hold half of a surrogate pair, which strict UTF-8 refuses.
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES).digest()


class _PromptReader:
    """Reads the prompt and the files with which an agent begins."""

    def __init__(self, definition: EnvironmentDefinition, resources: ResourcePool) -> None:
        self._definition, self._resources = definition, resources
        self._shown: Callable[[JSONObject], Any] | None = getattr(definition.source, "shown_at_start", None)
        self.is_cheap = self._shown is not None
        """Whether a prompt needs no session."""
        self.are_partial = not self.is_cheap and definition.may_need_sandbox
        """Whether the agent is given files, too, which are not read."""
        self.count = 0
        self.failure = ""
        self._stack = AsyncExitStack()
        self._client: LocalClient | None = None
        self._deadline = time.monotonic() + MAX_SECONDS

    async def __aenter__(self) -> None:
        if not self.is_cheap:
            definition = self._definition
            if self.are_partial:
                # A setup that needs a sandbox would fail without one.
                hooks = replace(definition.hooks, setup=None)
                definition = replace(definition, hooks=hooks, sandbox=None)
            opened = open_environment(definition, resources=self._resources)
            self._client = await self._stack.enter_async_context(opened)

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def read(self, position: TaskPosition, spec: JSONObject) -> Any:
        """Return the prompt as JSON, with the files of a declared environment; `None` if it is not read."""
        if self.failure:
            return None
        if time.monotonic() > self._deadline:
            self.failure = f"{self.count} prompts were read in {MAX_SECONDS:.0f} seconds"
            return None
        try:
            shown = await self._shown_to_agent(position, spec)
        # One failure ends the reading: the others would fail the same way, each after a time limit.
        except (OrsServerError, ValueError) as error:
            self.failure = f"task {position.index} of split {position.split!r} has no prompt: {error}"
            return None
        self.count += 1
        return shown

    async def _shown_to_agent(self, position: TaskPosition, spec: JSONObject) -> Any:
        if self._shown is not None:
            return self._shown(spec)
        assert self._client is not None  # noqa: S101  (opened by `__aenter__`)
        session = await self._client.create(split=position.split, index=position.index, seed=_SEED)
        try:
            return [message.model_dump(mode="json") for message in await session.messages()]
        finally:
            await session.aclose()


class _GoldReader:
    """Reads the gold answers of tasks."""

    def __init__(self, definition: EnvironmentDefinition) -> None:
        source: Any = definition.source
        method = getattr(source, "gold_actions", None)
        self._gold_actions: Callable[[JSONObject], Any] | None = method if callable(method) else None
        self._is_declared = hasattr(source, "shown_at_start")
        tools = len(definition.listing.tools) + (definition.listing.terminal_tool is not None)
        is_single = definition.hooks.task_tools is None and not definition.may_need_sandbox and tools == 1
        # The output of a call that leaves the episode open may tell more than the prompt: "Higher.", "Lower."
        ends_at_once = (
            self._is_declared
            or definition.listing.terminal_tool is not None
            or definition.policy.step_limit == 1
        )
        is_closed = is_single and ends_at_once
        self.follow_from_prompts = is_closed or (self._is_declared and definition.may_need_sandbox)
        """Whether tasks with the same prompt have the same gold: the agent learns nothing more on the way."""
        self._count = 0
        self._deadline = time.monotonic() + MAX_SECONDS

    def read(self, spec: JSONObject) -> frozenset[bytes] | None:
        """Return digests of the gold answers, any of which is right; `None` if they are not known."""
        if self._gold_actions is None or self._count >= MAX_GOLDS or time.monotonic() > self._deadline:
            return None
        self._count += 1
        answers = spec.get("answer") if self._is_declared else None
        if isinstance(answers, list) and answers:
            return frozenset(digest(normalise(answer)) for answer in cast("list[object]", answers))
        try:
            actions = self._gold_actions(spec)
        except Exception:  # noqa: BLE001  (author code; `gold-earns-the-most` reports it)
            return None
        if actions is None:
            return None
        # A gold of several calls learns something from their outputs, so that the prompt does not decide
        # alone.
        if len(actions) != 1 and not self._is_declared:
            self.follow_from_prompts = False
        return frozenset({digest(normalise([[tool, arguments] for tool, arguments in actions]))})


def normalise(value: Any) -> Any:
    """Return a JSON value in which texts that all readers read alike are equal: case, spaces, 42 and 42.0."""
    if isinstance(value, dict):
        return {name: normalise(item) for name, item in cast("JSONObject", value).items()}
    if isinstance(value, list | tuple):
        return [normalise(item) for item in cast("Sequence[Any]", value)]
    # `True` would otherwise be equal to 1.
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return value
    text = " ".join(str(value).split()).casefold()
    try:
        return float(text)
    except (ValueError, OverflowError):
        return text
