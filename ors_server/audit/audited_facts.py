"""What is known of an audited environment besides what its server says."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ors_server.audit.report import LibraryReward
from ors_server.model.wire import JSONObject


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of an environment besides what its server says; of a foreign server, nothing."""

    name: str
    version: str = ""
    reward_range: tuple[float, float] | None = None
    return_range: tuple[float, float] | None = None
    penalties: float = 0.0
    """The sum of all that a step may be charged."""
    step_limit: int | None = None
    has_gold: bool = False
    chance: float | None = None
    answer_fields: tuple[str, ...] = ()
    toolset_tools: frozenset[str] = frozenset()
    """Names of the tools that come from toolsets, such as `bash`."""
    has_sandbox: bool = False
    source: Mapping[str, Any] | None = None
    """The class's `file`, `line` and name (`class`)."""
    literals: tuple[str, ...] = ()
    """Short texts and numbers in the class's source."""
    mentions_judge: bool = False
    """Whether the source speaks of a model that judges."""
    mentions_resources: bool = False
    """Whether the source acquires resources, such as a simulator."""

    rewards: tuple[LibraryReward, ...] = ()
    """The rewards of this library that judge its answers."""

    @property
    def is_costly(self) -> bool:
        """Whether each session has a sandbox or a resource."""
        return self.has_sandbox or self.mentions_resources

    @property
    def paid_range(self) -> tuple[float, float] | None:
        """Least and greatest reward of a step, penalties included."""
        bounds = self.reward_range
        return None if bounds is None else (bounds[0] - self.penalties, bounds[1])


def read_facts(found: JSONObject) -> Facts:
    """Read the facts that the audited program tells."""

    def pair(name: str) -> tuple[float, float] | None:
        return None if found[name] is None else (float(found[name][0]), float(found[name][1]))

    return Facts(
        name=found["name"],
        version=found["version"],
        reward_range=pair("reward_range"),
        return_range=pair("return_range"),
        penalties=found["penalties"],
        step_limit=found["step_limit"],
        has_gold=found["has_gold"],
        chance=found["chance"],
        answer_fields=tuple(found["answer_fields"]),
        toolset_tools=frozenset(found["toolset_tools"]),
        has_sandbox=found["has_sandbox"],
        source=found["source"],
        literals=tuple(found["literals"]),
        mentions_judge=found["mentions_judge"],
        mentions_resources=found["mentions_resources"],
        rewards=tuple(LibraryReward.model_validate(reward) for reward in found["rewards"]),
    )
