"""What the control API gives."""

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, RootModel

from ors_server.errors import Blame
from ors_server.policy import EpisodePolicy
from ors_server.trajectory import Step, StepStatus
from ors_server.visibility import Visibility
from ors_server.wire import Block, JSONObject, Message, Split, ToolListing


class Answer(BaseModel):
    """Base of what callers get."""

    model_config = ConfigDict(
        frozen=True,
        json_schema_serialization_defaults_required=True,
        use_attribute_docstrings=True,
        ser_json_inf_nan="constants",  # so that writing an answer fails, instead of telling a null
    )


# Failures


class Mistake(Answer):
    """One thing that is wrong with a request."""

    place: list[str | int]
    """Where: `body`, `query` or `path`, then the names and indices that lead there."""
    message: str
    code: str


class Problem(Answer):
    """Every answer that is no success."""

    detail: str
    """What was expected, what came, and what to do."""
    code: str
    """Stable name of the failure."""
    blame: Blame
    """Who has to act: the client, the environment's author, the machinery underneath, or us."""
    mistakes: list[Mistake] | None = None
    """What is wrong with the request, one by one, where it was checked against a schema."""
    pending: bool = False
    """Whether the call ran all the same and its step waits to be written; asking again gives its result."""
    call_id: str | None = None
    """Id under which to ask again for a call that is pending; nothing runs twice."""


# The server


class Isolation(Answer):
    """What isolates the commands of agents, and what it does not isolate."""

    backend: str
    level: int
    """3 namespaces, 2 rules and a uid per session, 1 rules, 0 nothing."""
    isolates: dict[str, str | None]
    """Resource to the means that holds it; `None` where it is open."""
    gaps: list[str]
    """What is not held, one sentence each."""
    loopback: bool
    """Whether a server inside can be reached from inside."""


class Health(Answer):
    """That the process answers."""

    status: Literal["ok"] = "ok"
    sandbox: Isolation | None = None
    """`None` where no served environment needs a sandbox, or none can be had."""
    queues: JSONObject = Field(default_factory=dict)
    """What waits for its turn, by name: places, running, waiting, seconds of the longest wait."""
    loop: JSONObject = Field(default_factory=dict)
    """Seconds that the event loop was late, and the code that held it, the worst first."""


class Readiness(Answer):
    """That new sessions are welcome."""

    status: Literal["ready"] = "ready"


class Version(Answer):
    """Which server this is."""

    name: Literal["ors-server"] = "ors-server"
    version: str


class Description(RootModel[dict[str, Any]]):
    """An OpenAPI 3.1 document."""


class SettingsView(Answer):
    """The settings in force, without secrets."""

    values: dict[str, Any]
    """Values by name, in the units that the settings document."""
    secrets: dict[str, bool]
    """Whether each secret is set, by name."""


class Stopping(Answer):
    """That the server is about to stop."""

    status: Literal["stopping"] = "stopping"


# Environments


class EnvironmentBrief(Answer):
    """An environment in a list."""

    name: str
    version: str
    description: str
    default: bool
    """Whether a session that names no environment gets this one."""


class EnvironmentList(Answer):
    """The environments, the default one first."""

    environments: list[EnvironmentBrief]


class SplitCount(Split):
    """A split and how many tasks it has."""

    tasks: int | None
    """`None` where the environment failed to say."""


class EnvironmentView(EnvironmentBrief):
    """An environment in full."""

    visibility: Visibility | None
    """What its agents see of rewards; `None` leaves it to the server's setting."""
    policy: EpisodePolicy
    splits: list[SplitCount]
    tools: ToolListing
    """What every session offers; a task may add tools of its own."""
    toolsets: list[str]
    """Names that a session may order."""
    volatile: list[str]
    """Regular expressions of what may differ between two plays of the same calls."""


class TaskView(Answer):
    """One task."""

    index: int
    task_spec: JSONObject


class TaskPage(Answer):
    """A slice of a split's tasks."""

    environment: str
    split: str
    total: int
    """How many tasks the split has."""
    tasks: list[TaskView]


# Sessions


class AgentAccess(Answer):
    """What an agent needs to play one session, and nothing more."""

    session_id: str
    agent_token: str
    """Sent as `X-API-Key` or bearer token; reaches this session's prompt, tools and calls only."""
    agent_url: str
    """MCP endpoint that needs no other credential."""
    mcp_url: str
    """MCP endpoint for callers with a credential of their own."""


class EpisodeView(Answer):
    """The authoritative figures of an episode."""

    phase: str
    """created, ready, playing, finished, failed, expired or deleted."""
    steps: int
    episode_return: Annotated[float, Field(alias="return")]
    """Sum of the rewards of all steps."""
    withheld: float
    """What was earned and charged and not paid, under a policy that pays at the end."""
    reward_sum: float
    """What tools gave."""
    penalty_sum: float
    """What the policy charged; zero or negative."""
    penalties: dict[str, float]
    """The penalty sum by cause."""
    discounted_return: float
    last_reward: float | None
    best_reward: float | None
    ungraded_steps: int
    failed_steps: int
    stop_reason: str | None
    created_at: datetime
    started_at: datetime | None
    last_call_at: datetime | None
    finished_at: datetime | None
    metrics: dict[str, float]
    """Numbers that rewards reported beside their own, over the steps: `reward_extra/KEY/mean` and so on."""


class ForkView(Answer):
    """Where a forked episode left another one."""

    session_id: str
    """The episode that it began as."""
    steps: int
    """Steps that both share, at the beginning of both records."""


class SnapshotView(Answer):
    """A session as it stood between two calls."""

    snapshot_id: str
    steps: int
    """How many the episode had."""
    size_bytes: int
    """What the copied files take on the server's disk."""
    duration: float
    """Seconds that the copy took."""


class SnapshotList(Answer):
    """The snapshots that a session keeps, oldest first."""

    snapshots: list[SnapshotView]


class SessionView(Answer):
    """A session's state and totals."""

    session_id: str
    environment: str
    environment_version: str
    server_version: str
    task_hash: str
    """SHA-256 of the task's canonical JSON."""
    split: str | None
    index: int | None
    policy: EpisodePolicy
    """The rules in force, overrides included."""
    credential_id: str | None
    """Id of the key that created the session; never the key."""
    episode_id: str
    """Id of the session's record; no other episode ever has it."""
    seed: int
    """What the environment draws its chances from."""
    toolset: str | None
    """The toolset that was ordered."""
    labels: dict[str, str]
    """What the creator calls the episode."""
    packages: dict[str, str]
    """Versions of Python and of the distribution that the environment comes from."""
    sandbox: Isolation | None
    """What isolated the agent's commands; `None` where the environment runs none."""
    forked_from: ForkView | None
    visibility: Visibility
    idle_seconds: float | None
    """Seconds since the last request; `None` once the session is gone."""
    running_calls: int
    setup_error: str | None
    pending_steps: int
    """Steps that were played and wait to be written; the figures count them, the list of steps has them
    later."""
    episode: EpisodeView


class CreatedSession(AgentAccess):
    """A session that was made; its setup may still run."""

    status: SessionView


class ForkedSessions(Answer):
    """The copies of a session, ready to be played."""

    sessions: list[CreatedSession]


class SessionPage(Answer):
    """Live sessions, oldest first."""

    sessions: list[SessionView]
    next_cursor: str | None
    """Leads to the next page; `None` on the last one."""


class StepView(Answer):
    """One tool call of an episode and its output, as the server saw it."""

    number: int
    call_id: str
    tool: str
    arguments: JSONObject
    status: StepStatus
    blocks: list[Block]
    reward: float | None
    """What was paid, penalties included; `None` when nothing was judged and nothing charged, and while a
    policy holds rewards back until the end."""
    components: dict[str, float]
    """What the step came to: `tool` and one entry per penalty cause; `withheld` where it paid for earlier
    steps too."""
    finished: bool
    error: str | None
    error_code: str | None
    metadata: JSONObject | None
    started_at: datetime
    duration: float
    """Seconds."""

    @classmethod
    def of(cls, step: Step) -> Self:
        """Show a recorded step.

        Args:
            step: The record.
        """
        fields = {name: getattr(step, name) for name in cls.model_fields}
        return cls.model_validate(fields | {"components": dict(step.components)})


class StepPage(Answer):
    """A slice of an episode's steps."""

    session_id: str
    total: int
    """How many steps the episode has so far."""
    steps: list[StepView]


class PromptView(Answer):
    """What an agent is told at the beginning."""

    blocks: list[Block]


class MessagesView(Answer):
    """What an agent is told at the beginning, as a conversation."""

    messages: list[Message]
