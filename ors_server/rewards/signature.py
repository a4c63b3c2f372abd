"""The fields that a reward takes: read from its signature once, and filled by name."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ors_server.rewards.reward_errors import RewardDefinitionError, RewardFieldError

ALIASES = {"outcome": "final_response", "completion": "final_response", "response": "final_response"}
"""Names under which rewards of other packages take the final response."""

_KINDS_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class RewardSignature:
    """The fields that a reward takes."""

    name: str
    required: frozenset[str]
    optional: frozenset[str]
    takes_rest: bool
    """Whether a `**kwargs` receives every other field."""

    def choose(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the known fields that the reward takes; a missing one is a `RewardFieldError`."""
        chosen = {
            name: fields[source]
            for name in self.required | self.optional
            if (source := name if name in fields else ALIASES.get(name, name)) in fields
        }
        missing = sorted(self.required - set(chosen))
        if missing:
            there = ", ".join(sorted(fields)) or "nothing"
            raise RewardFieldError(f"{self.name} needs {', '.join(missing)}; known fields: {there}")
        if self.takes_rest:
            chosen = {**{name: value for name, value in fields.items() if name not in chosen}, **chosen}
        return chosen


def read_reward_signature(function: Callable[..., Any], name: str) -> RewardSignature:
    """Read which fields a function takes; it must be possible to fill all of them by name."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise RewardDefinitionError(f"{name} has no signature that can be read: {error}") from error
    by_name = [parameter for parameter in parameters if parameter.kind in _KINDS_BY_NAME]
    if any(
        parameter.kind is inspect.Parameter.POSITIONAL_ONLY and parameter.default is inspect.Parameter.empty
        for parameter in parameters
    ):
        raise RewardDefinitionError(f"{name} takes parameters by position only; rewards are filled by name")
    required = frozenset(item.name for item in by_name if item.default is inspect.Parameter.empty)
    return RewardSignature(
        name=name,
        required=required,
        optional=frozenset(item.name for item in by_name) - required,
        takes_rest=any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters),
    )
