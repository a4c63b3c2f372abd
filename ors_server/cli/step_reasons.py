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


def _items(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
