"""The class that an author derives from."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, cast, overload

from ors_server.environments.episode_rewards import ask_reward, own_episode
from ors_server.environments.simulated_user.conversation import (
    SimulatedUser,
    UserBudget,
    UserConversation,
    conversation_of,
)
from ors_server.environments.tool import Toolset
from ors_server.model.policy import EpisodePolicy
from ors_server.model.visibility import Visibility
from ors_server.model.wire import (
    GroupCandidate,
    GroupScore,
    ImageBlock,
    JSONObject,
    Message,
    Split,
    TextBlock,
)
from ors_server.resources.resource_context import Context
from ors_server.rewards.define import Reward
from ors_server.rewards.result import RewardResult
from ors_server.sandboxes.base import Limits, Sandbox, SandboxRequest, SandboxRoot
from ors_server.sandboxes.egress import SandboxNetwork

if TYPE_CHECKING:  # toolsets that few environments have, and that bring all of grading along
    from ors_server.environments.toolsets.milestones import Milestone
    from ors_server.environments.toolsets.submit import Judged, Submission

Prompt: TypeAlias = str | Sequence[str | TextBlock | ImageBlock]
"""A prompt: text, or blocks in order."""

TaskTool: TypeAlias = str | Callable[..., Any]
"""A tool of one task: the name of a tool of the class, or one that `tool_from_schema` made."""


class _TaskAlias:
    """Returns `task_spec`; an attribute, method or tool of the same name replaces it."""

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: "Environment", owner: type) -> JSONObject: ...
    def __get__(self, instance: "Environment | None", owner: type) -> Self | JSONObject:
        return self if instance is None else instance.task_spec


IMAGE_FIELD = "sandbox_image"
"""The field of a task that names its image."""


class _UserSlot:
    """Returns the conversation with the user; an attribute, method or tool of the same name replaces it."""

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: "Environment", owner: type) -> UserConversation: ...
    def __get__(self, instance: "Environment | None", owner: type) -> Self | UserConversation:
        return self if instance is None else conversation_of(instance)


class Environment:
    """A family of tasks and the tools to play them; one instance serves one session.

    Every method may be sync or async; sync ones run in worker threads. An author writes `list_splits`, one of
    `list_tasks` or (`num_tasks` and `get_task`), one of `get_prompt` or `get_messages`, and tools.

    Attributes:
        task_spec: The task being played, a JSON object.
        secrets: Secrets by name that the session's creator passed along.
    """

    name: ClassVar[str] = ""
    """Name under which it is served; the class name in lower case by default."""
    version: ClassVar[str] = "0"
    """To be changed whenever the same call on the same task may give another result."""
    policy: ClassVar[EpisodePolicy] = EpisodePolicy()
    """Limits, penalties and the range of rewards."""
    visibility: ClassVar[Visibility | None] = None
    """Which rewards an agent sees; `None` leaves it to the server's setting."""
    toolsets: ClassVar[Sequence[type[Toolset] | str]] = ()
    """Toolsets that every session has: classes, or the names `bash`, `python`, `files`, `patch`, `submit` and
    `user`."""
    session_toolsets: ClassVar[Mapping[str, type[Toolset] | str]] = {}
    """Toolsets by name that the creator of a session may request; their tools hide same-named ones."""
    sandbox_limits: ClassVar[Limits | None] = None
    """Limits of a session's sandbox. Without them the default limits hold, and a session has a sandbox only
    if one of its toolsets needs it."""
    sandbox_image: ClassVar[str | None] = None
    """The image that is the root of a session's sandbox: a name or an id in the cache of `ors-server images`.
    A task's field `sandbox_image` names another one for this task."""

    sandbox_network: ClassVar[str | Sequence[str]] = "loopback"
    """What a session's sandbox can connect to: `"none"`, `"loopback"` (servers inside of it), or a list of
    hosts, which the operator must allow (`--allow-network`)."""

    return_range: ClassVar[tuple[float, float] | None] = None
    """Lowest and highest return of an episode, penalties included: what `blank_actions` and `gold_actions`
    earn in every task. Without it `ors-server check` compares them with each other and with made-up calls."""

    milestones: ClassVar[Sequence["Milestone"]] = ()
    """States of the sandbox that pay once each, checked in order after each call of the `bash`, `python`,
    `files` and `patch` toolsets."""

    reward: ClassVar[Reward | type[Reward] | Callable[..., Any] | None] = None
    """Computes the reward of the whole episode: for `grade`, for the `submit` toolset, and for an output that
    finishes the episode without a reward. One that takes `rollouts` scores groups."""

    volatile: ClassVar[Sequence[str]] = ()
    """Regular expressions of text that may differ between two plays of the same calls: a time, an address, a
    measured duration. A replay compares texts without their matches."""

    recoverable: ClassVar[bool] = True
    """Whether a session may be rebuilt from its record after the server was killed, by playing its calls
    again. `False` for an environment whose calls change something outside of the session."""

    user_budget: ClassVar[UserBudget] = UserBudget()
    """Limits on an episode's use of the user that `make_user` returns."""

    user = _UserSlot()
    """The conversation with the episode's simulated user: async tools call `await self.user.send(text)`."""

    task = _TaskAlias()
    """`task_spec` under the name that the standard's page on rewards uses; a subclass may redefine it."""

    _sandbox: Sandbox | None = None
    _rng: Random | None = None

    def __init__(self, task_spec: JSONObject, secrets: Mapping[str, str] | None = None) -> None:
        """Keep the task and the secrets; do slow work in `setup`."""
        self.task_spec = task_spec
        self.secrets: dict[str, str] = dict(secrets or {})

    @property
    def sandbox(self) -> Sandbox:
        """The session's sandbox, from `setup` to the end of `teardown`; RuntimeError without a sandbox."""
        if self._sandbox is None:
            raise RuntimeError(
                f"{type(self).__name__} has no sandbox here: take a toolset that needs one (such as 'bash') "
                "or set sandbox_limits, and use it in setup or later, not in the constructor"
            )
        return self._sandbox

    async def grade(self, reward: object = None, /, **fields: Any) -> RewardResult:
        """Compute a reward of the episode so far, filled by parameter names; a sync one runs in a thread.

        It may take every field of the task; `metadata`, the whole task; `trajectory`, the prompt and the
        steps that were answered so far; `final_response`, if it is given here; `step`, the number of the
        running call; `context`, the session's resources. It is stopped when the call's time limit would
        leave the tool no time to answer.

        Args:
            reward: A reward, a class of one, or any callable; the class's own by default.
            **fields: Further fields; they win over those of the episode.

        Returns:
            The result. A reward that failed or was too slow has a status and no number; `graded_output`
            makes a tool's output of either.

        Raises:
            RewardDefinitionError: If it is not a reward, or is left out and the class has no reward.
        """
        return await ask_reward(self, reward, fields)

    @property
    def context(self) -> Context:
        """The resources that the session's tools and rewards share, from `setup` to the end of `teardown`.

        A reward that takes `context` gets the same one. The server releases its resources after `teardown`.
        """
        episode = own_episode(self)
        if episode is None:
            raise RuntimeError(f"{type(self).__name__} has no context here: use it in setup or later")
        return episode.context

    @property
    def rng(self) -> Random:
        """The session's random generator, from `setup` to the end of `teardown`.

        Its seed is recorded with the episode: if every random choice is drawn from it, the same calls give
        the same episode again.
        """
        if self._rng is None:
            episode = own_episode(self)
            if episode is None:
                raise RuntimeError(f"{type(self).__name__} has no rng here: use it in setup or later")
            self._rng = Random(episode.seed)  # noqa: S311  (a game, no secrets)
        return self._rng

    @classmethod
    def list_splits(cls) -> Sequence[Split | str] | Awaitable[Sequence[Split | str]]:
        """Return the splits; a bare `train`, `validation` or `test` has that type, any other `validation`."""
        raise NotImplementedError

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject] | Awaitable[Sequence[JSONObject]]:
        """Return all tasks of a split, in an order that never changes.

        May raise NotImplementedError if tasks are addressed by index only.
        """
        raise NotImplementedError

    @classmethod
    def num_tasks(cls, split: str) -> int | Awaitable[int]:
        """Return how many tasks a split has."""
        raise NotImplementedError

    @classmethod
    def get_task(cls, split: str, index: int) -> JSONObject | Awaitable[JSONObject]:
        """Return one task.

        Args:
            index: From 0; negative ones count from the end.

        Raises:
            IndexError: If there is no such task.
        """
        raise NotImplementedError

    @classmethod
    def get_task_range(
        cls, split: str, start: int | None = None, stop: int | None = None
    ) -> Sequence[JSONObject] | Awaitable[Sequence[JSONObject]]:
        """Return a slice of a split's tasks, with Python's rules for slices.

        Args:
            start: Position of the first task, from 0; by default the first.
            stop: Position behind the last task; by default the end of the split.
        """
        raise NotImplementedError

    def request_sandbox(self, limits: Limits) -> SandboxRequest:
        """Return the sandbox that this task needs, quickly and without waiting; before `setup`.

        Args:
            limits: The class's limits.

        Raises:
            ImageError: The task names an image that is not in the cache.
        """
        root = find_root(self.sandbox_image, self.task_spec)
        return SandboxRequest(limits, root, SandboxNetwork.of(self.sandbox_network))

    def setup(self) -> Awaitable[None] | None:
        """Prepare the session; runs once, in the background, before the first call."""

    def teardown(self) -> Awaitable[None] | None:
        """Release what the session holds; runs exactly once for every instance, also after a failed setup."""

    def save_state(self) -> JSONObject | Awaitable[JSONObject]:
        """Return the instance's state beyond its task and its sandbox's files, as JSON; `{}` without any.

        With it and `load_state`, a trainer can take snapshots of a session, restore them, and fork a live
        session into several.
        """
        raise NotImplementedError

    def load_state(self, state: JSONObject) -> Awaitable[None] | None:
        """Restore a state that `save_state` of an instance with the same task returned; it may be kept.

        On a fork it runs instead of `setup`: the sandbox's files are there already.
        """
        raise NotImplementedError

    def get_prompt(self) -> Prompt | Awaitable[Prompt]:
        """Return the prompt of the task."""
        raise NotImplementedError

    def get_messages(self) -> Sequence[Message] | Awaitable[Sequence[Message]]:
        """Return the prompt as a conversation that the agent continues."""
        raise NotImplementedError

    def grade_submission(self, submission: "Submission") -> "Judged | Awaitable[Judged]":
        """Grade a submission of the `submit` toolset, which ends the episode.

        By default the class's `reward` grades it.

        Args:
            submission: The answer, and the work dir; none of the agent's processes runs any more.

        Returns:
            The reward as a number, a reward's result, or an output.
        """
        raise NotImplementedError

    def make_user(self) -> SimulatedUser:
        """Return the user whom the agent can write to with the toolset `user`, quickly and without waiting.

        Its answers are recorded with the steps, and a replay repeats them.
        """
        raise NotImplementedError

    def list_task_tools(self) -> Sequence[TaskTool] | Awaitable[Sequence[TaskTool]]:
        """Return the task's own tools, in order.

        Each is the name of a tool marked `shared=False`, or what `tool_from_schema` made for this task alone.
        """
        return ()

    def score_group(
        self, candidates: Sequence[GroupCandidate]
    ) -> Sequence[GroupScore | float] | Awaitable[Sequence[GroupScore | float]]:
        """Score several rollouts of this session's task against each other: one score each, in their order.

        By default the class's `reward` scores them, if it takes `rollouts`.
        """
        raise NotImplementedError


def give_sandbox(environment: Environment, sandbox: Sandbox) -> None:
    """Set the sandbox of an environment's session."""
    environment._sandbox = sandbox  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # the property's setter


def find_root(image: str | None, task_spec: JSONObject) -> SandboxRoot | None:
    """Return the root with the image that a task names, or the class; `None` if neither does.

    Raises:
        ImageError: The image is not in the cache, or the task's field is not a text.
    """
    name = task_spec.get(IMAGE_FIELD, image)
    if name is None:
        return None
    # Only environments with images load the cache.
    from ors_server.images.image_cache import ImageCache  # noqa: PLC0415  (as above)
    from ors_server.images.image_errors import ImageError  # noqa: PLC0415  (as above)

    if not isinstance(name, str):
        raise ImageError(f"{IMAGE_FIELD}: expected the name of an image, got {name!r:.80}")
    return SandboxRoot.of_image(ImageCache().find(name).as_tree())


def sandbox_request(instance: object, limits: Limits) -> SandboxRequest:
    """Return the sandbox that a session's instance needs."""
    return instance.request_sandbox(limits) if isinstance(instance, Environment) else SandboxRequest(limits)


def requested_image(instance: object, limits: Limits) -> str | None:
    """Return the id of the image that a session's root will have; `None` without one.

    An environment that fails to tell is not an error here: the setup requests the sandbox, and reports it.
    """
    try:
        root = sandbox_request(instance, limits).root
    except Exception:  # noqa: BLE001  (author code)
        return None
    return None if root is None or root.image is None else root.image.image_id


def rng_state(instance: object) -> object:
    """Return the state of a session's random generator; `None` if nothing was drawn from it."""
    rng = instance._rng if isinstance(instance, Environment) else None  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # as above
    return None if rng is None else rng.getstate()


def restore_rng(instance: object, state: object) -> None:
    """Restore a state that `rng_state` returned for an instance with the same seed."""
    if not isinstance(instance, Environment):
        return
    rng = None
    if state is not None:
        rng = Random()  # noqa: S311  (a game, no secrets)
        rng.setstate(cast("tuple[Any, ...]", state))
    instance._rng = rng  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # the property's setter
