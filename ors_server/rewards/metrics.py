"""Extras of many results, summarised as AgentFly logs them: `reward_extra/<key>/mean`, `max`, `min`."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from ors_server.rewards.result import RewardResult
from ors_server.rewards.result_output import finite_number

PREFIX = "reward_extra"
"""What the names of the figures begin with (AgentFly's page "Reward System")."""


def summarise_extras(results: Iterable[RewardResult | Mapping[str, Any]]) -> dict[str, float]:
    """Return `reward_extra/<key>/mean`, `/max` and `/min` for every key that has a number in some result.

    Results without the key are left out of its figures, and so are texts, lists and numbers that are not
    finite; true is 1. Keys are in alphabetical order.
    """
    figures: dict[str, list[float]] = {}
    for result in results:
        extras = result.extras if isinstance(result, RewardResult) else result
        for key, value in extras.items():
            if (number := finite_number(value)) is not None:
                figures.setdefault(key, []).append(number)
    return {
        f"{PREFIX}/{key}/{name}": figure
        for key in sorted(figures)
        for name, figure in (
            # Divided first: the sum itself may be beyond every float.
            ("mean", math.fsum(value / len(figures[key]) for value in figures[key])),
            ("max", max(figures[key])),
            ("min", min(figures[key])),
        )
    }
