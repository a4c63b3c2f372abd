"""What is known about an audited environment in addition to what its server reports."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ors_server.audit.report import LibraryReward
from ors_server.model.wire import JSONObject


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known about an environment in addition to what its server reports.

    Nothing is known about a server elsewhere.
    """

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
    """Whether the source mentions a model that judges."""
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
        """Lowest and highest reward of a step, penalties included."""
        bounds = self.reward_range
        return None if bounds is None else (bounds[0] - self.penalties, bounds[1])


def read_facts(answer: JSONObject) -> Facts:
    """Read the facts that the audited program reports."""

    def pair(name: str) -> tuple[float, float] | None:
        return None if answer[name] is None else (float(answer[name][0]), float(answer[name][1]))

    return Facts(
        name=answer["name"],
        version=answer["version"],
        reward_range=pair("reward_range"),
        return_range=pair("return_range"),
        penalties=answer["penalties"],
        step_limit=answer["step_limit"],
        has_gold=answer["has_gold"],
        chance=answer["chance"],
        answer_fields=tuple(answer["answer_fields"]),
        toolset_tools=frozenset(answer["toolset_tools"]),
        has_sandbox=answer["has_sandbox"],
        source=answer["source"],
        literals=tuple(answer["literals"]),
        mentions_judge=answer["mentions_judge"],
        mentions_resources=answer["mentions_resources"],
        rewards=tuple(LibraryReward.model_validate(reward) for reward in answer["rewards"]),
    )
