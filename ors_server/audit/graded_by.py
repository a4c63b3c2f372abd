"""Finds the rewards of this library that judge an environment's answers, with their documented hazards."""

import inspect
import re
from collections.abc import Iterator

from ors_server.authoring.definition import EnvironmentDefinition
from ors_server.rewards.catalogue import describe_reward, home_of, reward_names
from ors_server.rewards.define import Reward
from ors_server.wire import JSONObject

PAGE = "https://github.com/ors-server/ors-server/blob/main/docs/reference/rewards.md"
_NAME = re.compile(r"\b[A-Za-z]\w*\b")


def library_rewards(definition: EnvironmentDefinition) -> list[JSONObject]:
    """Return the library's rewards that an environment's class has or names, as fields of `LibraryReward`."""
    names = dict.fromkeys(_own_names(definition.reward)) if definition.reward is not None else {}
    names |= dict.fromkeys(_named_in_source(definition.source))
    entries = [describe_reward(name) for name in names]
    return [{"name": entry.name, "hazards": entry.hazards, "page": PAGE} for entry in entries]


def _own_names(reward: Reward) -> Iterator[str]:
    """Yield the names of the library's rewards of which a reward is made."""
    parts: tuple[Reward, ...] = getattr(reward, "parts", ())
    for part in parts:
        yield from _own_names(part)
    home = home_of(reward.name)
    if not parts and home is not None and inspect.unwrap(reward.function).__module__ == home:
        yield reward.name


def _named_in_source(cls: type) -> Iterator[str]:
    """Yield the library's rewards whose names are in the source of a class, or of what it inherits."""
    reward_catalogue = frozenset(reward_names())
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] in {"builtins", "abc", "typing", "ors_server"}:
            continue
        try:
            source = inspect.getsource(base)
        except (OSError, TypeError):
            continue
        yield from (word for word in _NAME.findall(source) if word in reward_catalogue)
