"""Makes the sessions of replays: in this process or on a server, through the same client.

The policy of a recorded episode, for a new session.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Protocol
from uuid import uuid4

import anyio
from typing_extensions import override

from ors_server.app import InProcess, open_in_process
from ors_server.client.async_client import AsyncClient
from ors_server.client.call_result import read_known
from ors_server.client.client_options import ClientOptions
from ors_server.client.connection import Connection, Patience
from ors_server.environments.definition import EnvironmentDefinition
from ors_server.environments.loading import installed_environments, load_environments
from ors_server.model.errors import UnknownEnvironmentError
from ors_server.model.policy import EpisodePolicy
from ors_server.model.trajectory import EpisodeOrigin, UserTurn
from ors_server.recovery.recorded_episode import REPLAY_OF, overrides_of, recorded_policy
from ors_server.replaying.replay_session import ReplaySession, create_session, has_same_task, read_environment
from ors_server.resources.resource_pool import ResourcePool
from ors_server.sandboxes.choose import BackendRequest
from ors_server.sessions.session_services import NO_SANDBOXES, Sandboxes, open_sandboxes


class Stage(Protocol):
    """Makes sessions for replays."""

    def open(
        self, origin: EpisodeOrigin, secrets: Mapping[str, str], user_turns: Sequence[UserTurn]
    ) -> AbstractAsyncContextManager[ReplaySession]:
        """Make a session with the recorded task, seed, policy, toolset and visibility; the context ends it.

        Its simulated user repeats the recorded answers.

        Raises:
            AuthorError: If the environment's constructor failed.
            OrsServerError: If no such session can be made here.
        """
        ...


@dataclass(frozen=True, slots=True)
class ServerStage(Stage):
    """Makes sessions on a server; made by `open_server_stage`."""

    connection: Connection
    environment: str | None
    """Played instead of every recorded environment; that of the same name by default."""

    @asynccontextmanager
    @override
    async def open(
        self, origin: EpisodeOrigin, secrets: Mapping[str, str], user_turns: Sequence[UserTurn]
    ) -> AsyncGenerator[ReplaySession]:
        name = self.environment or origin.environment
        own = await read_environment(self.connection, name)
        policy = read_known(EpisodePolicy, own["policy"])
        overrides, left = overrides_of(recorded_policy(origin.policy), policy)
        notes = [f"the server's own {rule} is another, and it cannot be overridden" for rule in left]
        is_same = await has_same_task(self.connection, name, origin)
        if is_same is None:
            notes.append(f"the server's environment has no {_place(origin)}; the recorded one was played")
        elif not is_same:
            notes.append(f"{_place(origin)} is another one there; the recorded one was played")
        changes = {
            "environment": name,
            "session_id": uuid4().hex,
            "secrets": dict(secrets),
            "policy": overrides,
            "labels": {REPLAY_OF: origin.episode_id},
            "user_turns": [asdict(turn) for turn in user_turns],
        }
        session = await create_session(
            self.connection, origin, changes, volatile=tuple(own.get("volatile", ())), notes=tuple(notes)
        )
        try:
            yield session
        finally:
            with anyio.CancelScope(shield=True):
                await session.delete()


@dataclass(slots=True)
class LocalStage(Stage):
    """Makes sessions in this process, each in its own application; made by `open_local_stage`.

    What sessions share, such as worker processes, goes from one to the next.
    """

    definitions: Mapping[str, EnvironmentDefinition]
    """Environments by recorded name; others are found by their entry points."""
    sandbox: BackendRequest | None
    stack: AsyncExitStack
    resources: ResourcePool
    instead: EnvironmentDefinition | None = None
    """Played instead of environments that are not in `definitions`."""
    loaded: dict[str, EnvironmentDefinition] = field(default_factory=dict[str, EnvironmentDefinition])
    _sandboxes: Sandboxes | None = None

    @asynccontextmanager
    @override
    async def open(
        self, origin: EpisodeOrigin, secrets: Mapping[str, str], user_turns: Sequence[UserTurn]
    ) -> AsyncGenerator[ReplaySession]:
        definition = self._find(origin.environment)
        policy = recorded_policy(origin.policy)
        notes = [
            f"the environment's own {name} is another now; the recorded one was used"
            for name in overrides_of(policy, definition.policy)[1]
        ]
        in_process = InProcess(sandboxes=await self._prepare(definition), resources=self.resources)
        async with (
            open_in_process([replace(definition, policy=policy)], in_process) as app,
            app.client() as client,
        ):
            connection = client.server.connection
            is_same = await has_same_task(connection, definition.name, origin)
            if is_same is None:
                notes.append(f"the environment has no {_place(origin)} any more; the recorded one was played")
            elif not is_same:
                notes.append(f"{_place(origin)} is another one now; the recorded one was played")
            changes = {
                "session_id": origin.session_id,
                "secrets": dict(secrets),
                "labels": dict(origin.labels),
                "user_turns": [asdict(turn) for turn in user_turns],
            }
            yield await create_session(
                connection, origin, changes, volatile=definition.volatile, notes=tuple(notes)
            )

    def _find(self, name: str) -> EnvironmentDefinition:
        definition = self.definitions.get(name) or self.loaded.get(name) or self.instead
        if definition is None:
            installed = installed_environments()
            if name not in installed:  # a record chooses no module to import
                raise UnknownEnvironmentError(
                    f"expected an installed environment ({', '.join(installed) or 'none'}), got {name!r}; "
                    "give the environment to play, as module:Class or a path"
                )
            loaded = load_environments([name])
            definition = next((candidate for candidate in loaded if candidate.name == name), loaded[0])
            self.loaded[name] = definition
        return definition

    async def _prepare(self, definition: EnvironmentDefinition) -> Sandboxes:
        if not definition.may_need_sandbox:
            return NO_SANDBOXES
        if self._sandboxes is None:
            self._sandboxes = await self.stack.enter_async_context(open_sandboxes([definition], self.sandbox))
        return self._sandboxes


@asynccontextmanager
async def open_local_stage(
    environments: Sequence[EnvironmentDefinition] = (), *, sandbox: BackendRequest | None = None
) -> AsyncGenerator[LocalStage]:
    """Prepare to replay in this process; leaving the context ends everything.

    Args:
        environments: What to play; a single one is played for every name on record. Others are found by
            their entry points.
        sandbox: The requested isolation; the strongest that works here by default.
    """
    definitions = {definition.name: definition for definition in environments}
    async with AsyncExitStack() as stack:
        resources = await stack.enter_async_context(ResourcePool())
        only = environments[0] if len(environments) == 1 else None
        yield LocalStage(definitions, sandbox, stack, resources, only)


@asynccontextmanager
async def open_server_stage(
    url: str, *, api_key: str | None = None, environment: str | None = None, patience: Patience | None = None
) -> AsyncGenerator[ServerStage]:
    """Prepare to replay on a server; `environment` is played instead of every recorded one."""
    options = ClientOptions(patience=patience or Patience(seconds=60.0))
    async with AsyncClient(url, api_key, options=options) as client:
        yield ServerStage(client.server.connection, environment)


def _place(origin: EpisodeOrigin) -> str:
    return f"task {origin.index} of split {origin.split!r}"
