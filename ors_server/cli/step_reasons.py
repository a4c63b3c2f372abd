"""The reasons of a step's reward, from its metadata, which agents never see."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

MOST = 10
"""Failed cases that are named without `--full`."""


def reasons_of(metadata: Mapping[str, Any]) -> Iterator[str]:
    """Return one line per reason: the reward's status and reason, failed cases, faults."""
    for name in ("status", "reason"):
        if f"reward_{name}" in metadata:
            yield f"{name}: {metadata[f'reward_{name}']}"
    extras = _mapping(metadata.get("reward_extras"))
    failed = _mapping(metadata.get("failed_cases")) | _mapping(extras.get("failed"))
    stated = [f"failed {name}: {why}" for name, why in failed.items()]
    stated += [f"fault: {fault}" for fault in _items(metadata.get("faults"))]
    yield from stated[:MOST]
    if len(stated) > MOST:
        yield f"and {len(stated) - MOST} more; --full shows all of them"


def describe_reward(output: Mapping[str, Any]) -> str:
    """Return the reward of an output, as the control API gives it, or why there is none, on one line."""
    if output["reward"] is not None:
        return f"reward {output['reward']:g}"
    metadata = _mapping(output.get("metadata"))
    reasons = list(reasons_of(metadata))
    if reasons:
        return f"reward none, {', '.join(reasons)}"
    if _mapping(metadata.get("episode")).get("withheld"):
        return "reward none yet: it is paid when the episode ends"
    if output["finished"]:
        return "reward none: the environment did not grade the episode"
    return "reward none: this step is not graded"


def is_unjudged(output: Mapping[str, Any]) -> bool:
    """Return whether the judgement of an output, as the control API gives it, failed."""
    from ors_server import trajectory

    return trajectory.is_unjudged(_mapping(output.get("metadata")))


def _items(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
