"""The bodies of the control API, besides the record's own types (`ors_server.model.trajectory`).

Bodies are strict: a number in quotes is not a number, and an unknown field is a mistake.
"""

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import BeforeValidator, ConfigDict, Field, RootModel, model_validator

from ors_server.doors.control.operations import RequestBody, RequestQuery
from ors_server.doors.http.request_errors import ResponseModel
from ors_server.doors.session_fields import MAX_INTEGER, Position, SessionFields
from ors_server.model.failures import StatedSummary
from ors_server.model.model_turn import ModelTurn
from ors_server.model.policy import EpisodePolicy
from ors_server.model.trajectory import Fork, Step
from ors_server.model.visibility import Visibility
from ors_server.model.wire import Block, JSONObject, Message, Split, ToolListing, names_one_task
from ors_server.sessions.session_request import MAX_FORKS
from ors_server.store.aggregates import PlayedTask, solve_band

MAX_PAGE = 500
"""Maximum number of tasks, sessions or steps of one answer."""

SESSION_ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._~-]{0,127}$"
"""Session ids that fit into a URL as they are."""

# Parameters of paths

EnvironmentName: TypeAlias = Annotated[
    str, Field(min_length=1, description="An environment's name, in any case.")
]
HostName: TypeAlias = Annotated[str, Field(min_length=1, description="A host's name, such as `h0`.")]
SplitName: TypeAlias = Annotated[str, Field(min_length=1, description="A split's name.")]
TaskIndex: TypeAlias = Annotated[
    int, Field(ge=0, le=MAX_INTEGER, description="A task's position in its split, from 0.")
]
SessionId: TypeAlias = Annotated[str, Field(min_length=1, description="A session's id.")]
SnapshotId: TypeAlias = Annotated[str, Field(min_length=1, description="A snapshot's id.")]
CallId: TypeAlias = Annotated[str, Field(min_length=1, description="A call's id.")]

# Requests

LabelText: TypeAlias = Annotated[str, Field(pattern=r"^[^=]+=")]
Cursor: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,1024}$")]


def _as_integer(value: object) -> object:
    """Take 5.0 for 5, as JSON Schema does."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


MAX_TASKS = 10_000
"""Maximum number of tasks of one answer about the record."""


class PageQuery(RequestQuery):
    """A slice by position."""

    start: Position = 0
    """First position, from 0."""
    stop: Position | None = None
    """Last position, exclusive; at most 500 after the first, which is also the default."""

    @property
    def end(self) -> int:
        """The last position, exclusive, within the limit of one page."""
        limit = self.start + MAX_PAGE
        return limit if self.stop is None else min(self.stop, limit)


class TaskDifficulty(ResponseModel):
    """How often a task was solved, for curricula."""

    index: int | None
    task_hash: str
    attempts: int
    """Graded episodes."""
    solve_rate: float | None
    """Share of the attempts with a return of at least 1; `None` without any."""
    mean_return: float | None
    std: float | None
    """Standard deviation of the returns, with n - 1; `None` under two attempts."""
    band: Literal["never", "rare", "learnable", "mostly", "always", "ungraded"]
    """never: 0; rare: under 0.2; learnable: 0.2 to 0.8; mostly: above 0.8; always: 1."""

    @classmethod
    def of(cls, task: PlayedTask) -> "TaskDifficulty":
        """Make it of a task's figures."""
        return cls.model_validate(
            {
                "index": task.index,
                "task_hash": task.task_hash,
                "attempts": task.graded,
                "solve_rate": task.success,
                "mean_return": task.returns.mean,
                "std": task.returns.std,
                "band": solve_band(task.success),
            }
        )


class SplitDifficulty(ResponseModel):
    """How hard the played tasks of a split are."""

    bands: dict[str, int]
    """How many of the tasks are in each band."""
    tasks: list[TaskDifficulty]


class DifficultyQuery(RequestQuery):
    """Which episodes count."""

    run: Annotated[str, Field(min_length=1)] | None = None
    """Only those of this run; all by default."""
    environment_version: Annotated[str, Field(min_length=1)] | None = None
    """Only those of this version."""
    limit: Annotated[int, Field(ge=1, le=MAX_TASKS)] = 1000
    """Maximum number of tasks."""

    @property
    def conditions(self) -> dict[str, Any]:
        """The conditions of the store's filter."""
        version = self.environment_version
        return {
            "labels": {} if self.run is None else {"run": self.run},
            "environment_version": None if version is None else (version,),
        }


class SessionsQuery(RequestQuery):
    """Which live sessions to list."""

    environment: str | None = None
    phase: Literal["created", "ready", "playing", "finished", "failed"] | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 100
    cursor: Cursor | None = None
    """`next_cursor` of the page before."""


def _one_source(**types: str) -> dict[str, Any]:
    """Describe a body in which exactly these of the task's three fields are set."""
    names = ("task_spec", "split", "index")
    properties = {name: {"type": types.get(name, "null")} for name in names}
    return {"required": list(types), "properties": properties}


class SessionBody(SessionFields, RequestBody):
    """A new session: its task, by value or by split and index, and its options."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [_one_source(task_spec="object"), _one_source(split="string", index="integer")]
        }
    )

    session_id: Annotated[str, Field(pattern=SESSION_ID_PATTERN)] | None = None
    """Your own id; the server makes one by default."""

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if not names_one_task(self.task_spec, self.split, self.index):
            raise ValueError("give either task_spec, or both split and index")
        return self


class ForkBody(RequestBody):
    """How many copies of a session to make, and of which state."""

    count: Annotated[int, Field(ge=1, le=MAX_FORKS), BeforeValidator(_as_integer)] = 1
    """Number of copies; each continues independently."""
    snapshot_id: str | None = None
    """The snapshot to copy; by default the session as it is now."""


class CallBody(RequestBody):
    """A tool call."""

    name: Annotated[str, Field(min_length=1)]
    arguments: JSONObject = Field(default_factory=dict)
    call_id: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Your own id; a second request with the same id gets the first one's result and runs nothing."""
    model_turn: ModelTurn | None = None
    """What the model wrote before the call, which the step's metadata keeps."""


# Responses


class Isolation(ResponseModel):
    """What isolates the commands of agents, and the gaps."""

    backend: str
    level: int
    """3: namespaces; 2: rules and a uid per session; 1: rules; 0: nothing."""
    isolates: dict[str, str | None]
    """What isolates each resource; `None` where nothing does."""
    gaps: list[str]
    """What is not isolated, one sentence each."""
    loopback: bool
    """Whether a server in the sandbox can be reached from inside it."""


class HostHealth(ResponseModel):
    """The queues and the event loop of one host of several."""

    queues: JSONObject = Field(default_factory=dict)
    loop: JSONObject = Field(default_factory=dict)
    error: str | None = None
    """Why it does not answer; its figures are empty then."""


class Health(ResponseModel):
    """The process answers; its queues and its event loop."""

    status: Literal["ok"] = "ok"
    sandbox: Isolation | None = None
    """`None` if no environment of the server needs a sandbox, or none is available."""
    queues: JSONObject = Field(default_factory=dict)
    """Each queue by name: its capacity, running and waiting, and the longest wait in seconds."""
    loop: JSONObject = Field(default_factory=dict)
    """Seconds by which the event loop was late, and the code that blocked it, the worst first."""
    hosts: dict[str, HostHealth] | None = None
    """With several hosts, each by name, of which this answer's own figures are one."""


class HostView(ResponseModel):
    """One host of several, as the record has it."""

    name: str
    address: str
    """Where the front and the other hosts reach it: `unix:PATH` or HOST:PORT."""
    epoch: int
    """How often a process has taken its place."""
    is_draining: bool
    """Whether it gives its sessions to the others, or has done so."""
    slots: int
    """Its slots of session ids, of 1,024."""


class HostList(ResponseModel):
    """The hosts of the server; empty for a server that is a single process."""

    hosts: list[HostView]


class OwnSlots(ResponseModel):
    """The slots whose sessions this host serves now."""

    host: str
    slots: list[int]


class Restarting(ResponseModel):
    """Each host is started again, one after another."""

    status: Literal["restarting"] = "restarting"


class RecordBacklog(ResponseModel):
    """What the record has accepted and not written yet."""

    entries: int
    size: int
    """Bytes, roughly."""


class Status(ResponseModel):
    """How much this process has to do."""

    live_sessions: int
    backlog: RecordBacklog
    queues: JSONObject
    """Each queue by name, the threads of blocking code among them: its capacity, running and waiting."""
    loop: JSONObject
    """Seconds by which the event loop was late, and the code that blocked it."""


class Readiness(ResponseModel):
    """The server takes new sessions."""

    status: Literal["ready"] = "ready"


class Version(ResponseModel):
    """The server's name and version."""

    name: Literal["ors-server"] = "ors-server"
    version: str
    features: tuple[str, ...] = ("model_turns", "batches")
    """What clients may use that servers of an earlier version refuse."""


class Description(RootModel[dict[str, Any]]):
    """An OpenAPI 3.1 document."""


class SettingsView(ResponseModel):
    """The settings in force, without secrets."""

    values: dict[str, Any]
    """Values by name, in the units that the settings document."""
    secrets: dict[str, bool]
    """Whether each secret is set, by name."""
    sources: dict[str, str]
    """Where each value comes from: `default`, `command line`, a variable's name, `file`, or `program`."""


class RenewedSecret(ResponseModel):
    """Every agent token that was made before is refused."""

    status: Literal["renewed"] = "renewed"


class Stopping(ResponseModel):
    """The server is about to stop."""

    status: Literal["stopping"] = "stopping"


class EnvironmentBrief(ResponseModel):
    """An environment in a list."""

    name: str
    version: str
    description: str
    default: bool
    """Whether sessions that name no environment use this one."""


class EnvironmentList(ResponseModel):
    """The environments, the default one first."""

    environments: list[EnvironmentBrief]


class SplitCount(Split):
    """A split and how many tasks it has."""

    tasks: int | None
    """`None` where the environment failed to say."""


class EnvironmentView(EnvironmentBrief):
    """An environment in full."""

    visibility: Visibility | None
    """What its agents see of rewards; `None`: the server's setting decides."""
    policy: EpisodePolicy
    splits: list[SplitCount]
    tools: ToolListing
    """Tools of every session; a task may add further tools."""
    toolsets: list[str]
    """Toolsets that a session may have."""
    volatile: list[str]
    """Regular expressions of text that may differ when the same calls are played again."""


class TaskView(ResponseModel):
    """One task."""

    index: int
    task_spec: JSONObject


class TaskPage(ResponseModel):
    """A slice of a split's tasks."""

    environment: str
    split: str
    total: int
    """How many tasks the split has."""
    tasks: list[TaskView]


class AgentAccess(ResponseModel):
    """What an agent needs to play one session."""

    session_id: str
    agent_token: str
    """Sent as `X-API-Key` or bearer token; reaches this session's prompt, tools and calls only."""
    agent_url: str
    """MCP endpoint that needs no other credential."""
    mcp_url: str
    """MCP endpoint for callers with their own credential."""


class SnapshotView(ResponseModel):
    """A session as it stood between two calls."""

    snapshot_id: str
    steps: int
    """Steps of the episode at that moment."""
    size_bytes: int
    """Bytes of the copied files on the server's disk."""
    duration: float
    """Seconds that the copy took."""


class SnapshotList(ResponseModel):
    """The snapshots of a session, oldest first."""

    snapshots: list[SnapshotView]


class SessionView(ResponseModel):
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
    """Seed of the environment's random generator."""
    toolset: str | None
    """The toolset that the session was created with."""
    labels: dict[str, str]
    """Names that the creator gave the episode."""
    packages: dict[str, str]
    """Versions of Python and of the distribution that the environment comes from."""
    sandbox: Isolation | None
    """What isolated the agent's commands; `None` where the environment runs none."""
    image: str | None = None
    """Id (SHA-256 of its configuration) of the image that is the root of the sandbox; `None` without one."""
    forked_from: Fork | None
    visibility: Visibility
    idle_seconds: float | None
    """Seconds since the last request; `None` once the session is gone."""
    running_calls: int
    setup_error: str | None
    pending_steps: int
    """Steps that ran and wait to be written to the record; the figures count them already."""
    waits: bool
    """Whether an earlier server left it open; the next request that names it rebuilds it."""
    episode: StatedSummary


class CreatedSession(AgentAccess):
    """A new session; its setup may still run."""

    status: SessionView


class ForkedSessions(ResponseModel):
    """The copies of a session, ready to be played."""

    sessions: list[CreatedSession]


class SessionPage(ResponseModel):
    """Live sessions, oldest first."""

    sessions: list[SessionView]
    next_cursor: str | None
    """Leads to the next page; `None` on the last one."""


class StepPage(ResponseModel):
    """A slice of an episode's steps."""

    session_id: str
    total: int
    """How many steps the episode has so far."""
    steps: list[Step]


class PromptView(ResponseModel):
    """The prompt."""

    blocks: list[Block]


class MessagesView(ResponseModel):
    """The prompt as a conversation."""

    messages: list[Message]


class CancelAnswer(ResponseModel):
    """Whether a call was stopped."""

    call_id: str
    cancelled: bool
    """False if it already had its result, which stays."""


class AlarmView(ResponseModel):
    """An alarm of a run that is open. It proves nothing: it says what to look at."""

    alarm: str
    """Its name, such as `dead-groups`."""
    title: str
    formula: str
    """What is compared; W are the latest ended episodes, B the first ones."""
    value: float | None
    """`None` where it is infinite."""
    threshold: float
    is_bad: bool
    """Whether the value is far beyond the threshold."""
    note: str
    """What the value is made of, where one number does not say it."""
    since: int
    """Ended episodes of the run when it opened."""
    window: list[str]
    """Ids of the first and the last episode of W."""
    episodes: list[str]
    """Ids of at most five episodes to look at first."""


class AlarmList(ResponseModel):
    """The open alarms of a run."""

    episodes: int
    """Ended episodes that were looked at."""
    alarms: list[AlarmView]


class WholeBlock(ResponseModel):
    """One block of a step."""

    block: Block


class CutBlock(ResponseModel):
    """A block of which a preview has only the beginning."""

    number: int
    """The step's."""
    index: int
    """The block's position in the step, from 0."""
    size: int
    """Characters of the whole text, or of an image's base64, which a preview leaves out."""


def labels_of(texts: Iterable[str]) -> dict[str, str]:
    """Return labels that are written as KEY=VALUE."""
    pairs = (text.partition("=") for text in texts)
    return {key: value for key, _, value in pairs}
