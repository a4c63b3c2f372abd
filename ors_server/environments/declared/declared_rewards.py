"""The reward of a declared environment: found by name, with its options fixed and its fields checked."""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from typing_extensions import override

from ors_server.environments.declared.declaration import Declaration, RewardChoice
from ors_server.environments.declared.row_faults import RowFaultError, show_names, show_value
from ors_server.model.errors import DeclarationError
from ors_server.model.wire import JSONObject
from ors_server.rewards.catalogue import find_reward
from ors_server.rewards.composite import CompositeReward
from ors_server.rewards.define import DelegatingReward, Reward
from ors_server.rewards.requirements import refuse_missing_packages
from ors_server.rewards.reward_errors import RewardError
from ors_server.rewards.scoring import PROMPT
from ors_server.rewards.signature import RewardSignature

OF_THE_EPISODE = frozenset(
    {
        "trajectory",
        "final_response",
        "outcome",
        "completion",
        "response",
        "metadata",
        "context",
        "step",
        "output",
    }
    | {"rollouts", "evidence", "submission"}
)
"""Values that come from the episode and not from the task."""
WORK_DIR = "evidence"
"""The value that only a session with a sandbox has."""


class DeclaredReward(DelegatingReward):
    """A reward with fixed options, which reads only required and declared fields of a task.

    A field of the data that happens to have the name of an option never sets it.
    """

    def __init__(
        self, inner: Reward, options: Mapping[str, Any], declared: Iterable[str], paths: "FilePaths"
    ) -> None:
        """Fix the options; `declared` has the names of the fields that may be optional parameters."""
        super().__init__(inner)
        self._paths = paths
        self._options = dict(options)
        self._declared = frozenset(declared)
        self.range = inner.range
        self.direct_call = inner.direct_call

    @cached_property
    @override
    def signature(self) -> RewardSignature:
        inner = self._inner.signature
        fixed = frozenset(self._options)
        further = self._declared if inner.takes_rest else self._declared & inner.optional
        optional = (inner.optional & (OF_THE_EPISODE | {PROMPT})) | further
        required = inner.required - fixed
        return RewardSignature(self.name, required, optional - required - fixed, takes_rest=False)

    @override
    def prepare(self, fields: Mapping[str, Any]) -> None:
        self._inner.prepare({**self._chosen(fields), **self._options})

    @override
    def check_usable(self, fields: Mapping[str, Any]) -> None:
        self._inner.check_usable(self._options)

    @override
    def judge(self, fields: Mapping[str, Any]) -> Any:
        return self._inner.judge({**self._paths.resolve(self.signature.choose(fields)), **self._options})

    @override
    def read(self, raw: object) -> Any:
        return self._inner.read(raw)

    def _chosen(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        taken = self.signature.required | self.signature.optional
        return {name: value for name, value in fields.items() if name in taken}

    def check_task(self, task: JSONObject) -> None:
        """Raise `RowFaultError` if a task lacks a field that the reward must have."""
        for name in sorted(self.signature.required - OF_THE_EPISODE - {PROMPT}):
            if name not in task:
                has = show_names(name, task)
                actual = f"no such field, which the reward {self.name} needs; the task has {has}"
                raise RowFaultError(name, "a value", actual, absent=True)
        self._paths.resolve(task)


class FilePaths:
    """Fields of a task that name files below a folder."""

    def __init__(self, names: Iterable[str], folder: Path) -> None:
        self._names, self._folder = tuple(names), folder.resolve()

    def resolve(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return fields with whole paths; raise `RowFaultError` for one that names no file there."""
        resolved = {name: self._find(name, fields[name]) for name in self._names if name in fields}
        return {**fields, **resolved}

    def _find(self, name: str, value: object) -> str:
        path = (self._folder / value).resolve() if isinstance(value, str) and "\0" not in value else None
        # Resolved first, so that neither `..` nor a link in the data leads out of the folder.
        if path is None or not path.is_relative_to(self._folder) or not path.is_file():
            raise RowFaultError(name, f"a file below {self._folder}", show_value(value))
        return str(path)


class WeightedRewards(CompositeReward):
    """The weighted mean of declared rewards."""

    def __init__(self, parts: Sequence[DeclaredReward], weights: Sequence[float]) -> None:
        """Combine rewards; the range is that of the mean, if each has one."""
        ranges = [part.range for part in parts]
        total = sum(weights)
        known_ranges = [part_range for part_range in ranges if part_range is not None]
        allowed = None
        if len(known_ranges) == len(parts) and min(weights) >= 0 and total > 0:
            low, high = (
                sum(
                    weight * part_range[end] for weight, part_range in zip(weights, known_ranges, strict=True)
                )
                / total
                for end in (0, 1)
            )
            allowed = (low, high)
        super().__init__(list(zip(parts, weights, strict=True)), range=allowed)
        self._declared_parts = tuple(parts)

    def check_task(self, task: JSONObject) -> None:
        """Raise `RowFaultError` if a task lacks a field that a reward must have."""
        for part in self._declared_parts:
            part.check_task(task)


def declared_fields(declaration: Declaration) -> frozenset[str]:
    """Return the fields that a declaration makes of each row."""
    return frozenset([*declaration.fields, *(["answer"] if declaration.answer is not None else [])])


def make_reward(
    declaration: Declaration, folder: Path, *, has_sandbox: bool
) -> DeclaredReward | WeightedRewards:
    """Return the reward of a declaration.

    Args:
        folder: The declaration's folder, in which `file.py:name` is looked for.

    Raises:
        DeclarationError: If it is unknown, or its options do not fit.
    """
    declared = declared_fields(declaration)
    paths = FilePaths(declaration.paths, folder)
    parts = [_make(choice, folder, declared, paths) for choice in declaration.reward]
    if not parts:
        raise DeclarationError(
            'reward: expected the name of a reward, such as reward = "math_equal_reward" or --reward '
            "math_equal_reward, got none; `ors-server rewards` lists them"
        )
    for part in parts:
        if WORK_DIR in part.signature.required and not has_sandbox:
            raise DeclarationError(
                f"reward: {part.name} judges the files of a sandbox, which the environment lacks; add a "
                'toolset that has one, such as toolsets = ["bash"]'
            )
    if len(parts) == 1:
        return parts[0]
    if not sum(choice.weight for choice in declaration.reward):
        raise DeclarationError("reward: expected weights that do not add up to 0; change a weight")
    return WeightedRewards(parts, [choice.weight for choice in declaration.reward])


def _make(choice: RewardChoice, folder: Path, declared: frozenset[str], paths: FilePaths) -> DeclaredReward:
    name = choice.name
    module, colon, attribute = name.rpartition(":")
    if colon and module.endswith(".py"):
        name = f"{folder / module}:{attribute}"
    try:
        inner = find_reward(name)
        signature = inner.signature
        refuse_missing_packages(inner, choice.options)
    except RewardError as error:
        raise DeclarationError(f"reward: {error}") from error
    _check_options(choice, inner, signature)
    return DeclaredReward(inner, choice.options, declared, paths)


def _check_options(choice: RewardChoice, inner: Reward, signature: RewardSignature) -> None:
    options = (signature.required | signature.optional) - OF_THE_EPISODE
    for option in choice.options:
        if option in OF_THE_EPISODE or (option not in options and not signature.takes_rest):
            raise DeclarationError(
                f"reward: {inner.name} has no option {option!r}; its options are "
                f"{show_names(option, sorted(options))}"
            )


def judges_text_alone(reward: Reward) -> bool:
    """Whether a reward can judge a text and a task without an episode, at once."""
    needed = reward.signature.required & OF_THE_EPISODE
    return (
        not reward.is_async
        and needed <= {"final_response"}
        and not inspect.iscoroutinefunction(reward.function)
    )
