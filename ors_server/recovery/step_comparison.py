"""Compares what the agent saw and what was paid in a recorded step and in its replay; pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ors_server.model.trajectory import EpisodeOrigin, Step
from ors_server.model.wire import ImageBlock, TextBlock
from ors_server.recovery.normalising import Normaliser

COMPARED = ("status", "error_code", "blocks", "reward", "components", "finished")
"""Fields of a step that are compared, in the order of their differences."""


@dataclass(frozen=True, slots=True)
class ReplayDifference:
    """One difference."""

    field: str
    """`prompt`, `setup`, or a field of a step."""
    was: Any
    """The recorded JSON value, normalised."""
    now: Any
    """The replayed value."""

    def as_json(self) -> dict[str, Any]:
        """Render it with JSON types."""
        return {"field": self.field, "was": self.was, "now": self.now}


def compare_steps(was: Step, now: Step, normaliser: Normaliser) -> tuple[ReplayDifference, ...]:
    """Return the differences of two steps; rewards are the same if every bit of them is."""
    pairs = (
        (name, _compared_value(was, name, normaliser), _compared_value(now, name, normaliser))
        for name in COMPARED
    )
    return tuple(ReplayDifference(name, before, after) for name, before, after in pairs if before != after)


def compare_blocks(
    field: str,
    was: Sequence[TextBlock | ImageBlock],
    now: Sequence[TextBlock | ImageBlock],
    normaliser: Normaliser,
) -> tuple[ReplayDifference, ...]:
    """Return the difference of two lists of blocks, if there is one."""
    before, after = normaliser.blocks(was), normaliser.blocks(now)
    return () if before == after else (ReplayDifference(field, before, after),)


def compare_origins(was: EpisodeOrigin, now: EpisodeOrigin) -> tuple[str, ...]:
    """Return a sentence for each difference of versions, isolation and policy; none changes the verdict."""
    sentences = [
        _describe_change(
            f"the version of {was.environment}", was.environment_version, now.environment_version
        ),
        _describe_change("the environment", was.environment, now.environment),
        _describe_change("the server's version", was.server_version, now.server_version),
        *(
            _describe_change(f"the version of {name}", was.packages.get(name), now.packages.get(name))
            for name in sorted({*was.packages, *now.packages})
        ),
        _describe_change("the isolation", _backend(was), _backend(now)),
        *(
            _describe_change(f"the policy's {name}", was.policy.get(name), now.policy.get(name))
            for name in sorted({*was.policy, *now.policy})
            if not _same_rule(was.policy.get(name), now.policy.get(name))
        ),
        _describe_change("the visibility", was.visibility, now.visibility),
        _describe_change("the task's hash", was.task_hash, now.task_hash),
    ]
    return tuple(sentence for sentence in sentences if sentence)


def _compared_value(step: Step, name: str, normaliser: Normaliser) -> Any:
    if name == "blocks":
        return normaliser.blocks(step.blocks)
    if name == "status":
        return step.status.value
    return dict(step.components) if name == "components" else getattr(step, name)


def _describe_change(subject: str, was: object, now: object) -> str:
    return "" if was == now else f"{subject} was {_text_of(was)} and is {_text_of(now)}"


def _text_of(value: object) -> str:
    return "none" if value is None else str(value)


def _backend(origin: EpisodeOrigin) -> object:
    return None if origin.sandbox is None else origin.sandbox.get("backend")


def _same_rule(was: object, now: object) -> bool:
    if isinstance(was, list) and isinstance(now, list):  # sets have no order, and two dumps of one may differ
        return sorted(map(repr, was)) == sorted(map(repr, now))  # pyright: ignore[reportUnknownArgumentType]  # JSON
    return was == now
