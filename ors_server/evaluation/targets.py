"""What a run asks of the place where it plays: one interface, whether this process or a server answers."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from ors_server.errors import ClientError
from ors_server.trajectory import EpisodeSummary
from ors_server.wire import ImageBlock, JSONObject, Message, Split, TextBlock, ToolListing

Blocks: TypeAlias = Sequence[TextBlock | ImageBlock]
Actions: TypeAlias = Sequence[tuple[str, JSONObject]]
"""Tool calls, as (name, arguments) in order."""
ENDINGS = frozenset({"completed", "step_limit", "time_limit", "blocked"})
"""Stop reasons with which an environment, or its policy, ends an episode that was played."""


class TargetError(ClientError):
    """A target cannot do what is asked of it, or contradicts itself."""

    code = "target"


@dataclass(frozen=True, slots=True)
class TaskOrder:
    """A wish for an episode."""

    split: str
    index: int
    attempt: int
    """Number of the attempt at the task, from 1."""
    seed: int
    """For the environment's chances, in [0, 2**53); a target that cannot pass it on leaves it out."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    policy: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Overrides of the environment's policy, by field name."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call came to, as the agent is told."""

    blocks: tuple[TextBlock | ImageBlock, ...]
    reward: float | None = None
    """What the step paid; for the harness, not for the agent."""
    finished: bool = False
    """Whether the episode is over."""
    is_error: bool = False
    """Whether the blocks tell of a mistake of the agent's."""

    @property
    def text(self) -> str:
        """The text of the blocks, one paragraph each."""
        return "\n\n".join(block.text for block in self.blocks if isinstance(block, TextBlock))


@dataclass(frozen=True, slots=True)
class EpisodeFigures:
    """An episode's figures, as its server counts them."""

    episode_return: float | None
    """Sum of the rewards; `None` where the server keeps it to itself."""
    steps: int | None = None
    """Calls that were counted; `None` likewise."""
    last_reward: float | None = None
    penalties: float = 0.0
    failed_steps: int = 0
    """Calls in which the environment's own code failed."""
    stop_reason: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])

    @classmethod
    def of(cls, summary: EpisodeSummary) -> "EpisodeFigures":
        """Take them from a summary.

        Args:
            summary: The authoritative one.
        """
        return cls(
            episode_return=summary.episode_return,
            steps=summary.steps,
            last_reward=summary.last_reward,
            penalties=summary.penalty_sum,
            failed_steps=summary.failed_steps,
            stop_reason=summary.stop_reason,
            metrics=summary.metrics,
        )

    @property
    def is_finished(self) -> bool:
        """Whether the environment or its policy ended the episode."""
        return self.stop_reason in ENDINGS


class TargetEpisode(Protocol):
    """One episode at a target. Every method raises `OrsServerError` if it fails through no agent's fault."""

    @property
    def session_id(self) -> str | None:
        """The session's id, if the target tells."""
        ...

    @property
    def episode_id(self) -> str | None:
        """The record's id, if the target tells."""
        ...

    @property
    def task_hash(self) -> str:
        """SHA-256 of the task's canonical JSON, hexadecimal; empty where nobody knows."""
        ...

    @property
    def hides_rewards(self) -> bool:
        """Whether a reward was kept from whoever plays here; the figures tell them all the same."""
        ...

    async def messages(self) -> Sequence[Message]:
        """Return the task as a conversation: at least one message, often one of the user's."""
        ...

    async def tools(self) -> ToolListing:
        """Return everything that the agent may call."""
        ...

    async def call(self, tool: str, arguments: JSONObject, call_id: str) -> Answer:
        """Call a tool.

        Args:
            tool: Its name.
            arguments: As the agent gave them.
            call_id: The same id never runs twice.
        """
        ...

    async def figures(self) -> EpisodeFigures:
        """Return the figures so far; after the end of the episode's context, the final ones."""
        ...

    async def agent_url(self) -> str:
        """Return an MCP endpoint that plays this episode and needs no credential.

        Raises:
            TargetError: If the target has none.
        """
        ...


class Target(Protocol):
    """Where a run plays."""

    @property
    def name(self) -> str:
        """What whoever started the run called it: a reference or a URL."""
        ...

    @property
    def environment(self) -> str:
        """Name of the environment that is played."""
        ...

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions by name, as far as they are known: `ors-server`, `environment`, `python`."""
        ...

    @property
    def step_limit(self) -> int | None:
        """Steps after which the environment ends an episode; `None` where it does not, or nobody tells."""
        ...

    async def splits(self) -> Sequence[Split]:
        """Return the environment's splits."""
        ...

    async def num_tasks(self, split: str) -> int:
        """Return how many tasks a split has.

        Args:
            split: Its name.
        """
        ...

    def episode(self, order: TaskOrder) -> AbstractAsyncContextManager[TargetEpisode]:
        """Make an episode, whose setup may still go on; leaving the context ends its session.

        Args:
            order: What is wanted.
        """
        ...

    def knows_actions(self, name: str) -> bool:
        """Say whether `known_actions` gives any here.

        Args:
            name: `gold_actions` or `blank_actions`.
        """
        ...

    async def known_actions(self, name: str, split: str, index: int) -> Actions | None:
        """Return calls that the environment's author knows for a task, or `None` if nobody here knows them.

        Args:
            name: `gold_actions` for those that earn the most, `blank_actions` for the least.
            split: The task's split.
            index: Its place.
        """
        ...
