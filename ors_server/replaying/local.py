"""Replays in this process: an engine of its own for each episode, and one isolation for all of them."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace

from typing_extensions import override

from ors_server.authoring.definition import Blocks, EnvironmentDefinition
from ors_server.authoring.loading import installed_environments, load_environments
from ors_server.engines.base import Engine
from ors_server.engines.local import EngineOptions, open_local_engine
from ors_server.errors import EnvironmentFailedError, OrsServerError, UnknownEnvironmentError
from ors_server.replaying.recorded import RecordedCall
from ors_server.replaying.rules import overrides_of, recorded_policy
from ors_server.replaying.stage import ReplaySession, Stage
from ors_server.sandboxes.choose import Wanted
from ors_server.sessions.manager import hash_task
from ors_server.sessions.sandboxing import NO_SANDBOXES, Sandboxes, open_sandboxes
from ors_server.sessions.session_call import Failure
from ors_server.sessions.session_request import SessionRequest, SessionStatus
from ors_server.trajectory import EpisodeOrigin, Step
from ors_server.visibility import Visibility


class LocalReplaySession(ReplaySession):
    """A session of an engine in this process, or of any engine that is at hand."""

    def __init__(self, engine: Engine, status: SessionStatus, notes: tuple[str, ...] = ()) -> None:
        """Speak to a session that has no steps yet.

        Args:
            engine: Where it lives.
            status: The session as it was made.
            notes: What a reader should know of it.
        """
        self._engine = engine
        self._origin = status.origin
        self._notes = notes
        self._count = status.summary.steps
        self._ids: set[str] = set()

    @property
    @override
    def origin(self) -> EpisodeOrigin:
        return self._origin

    @property
    @override
    def notes(self) -> tuple[str, ...]:
        return self._notes

    @property
    @override
    def volatile(self) -> tuple[str, ...]:
        return self._engine.environment(self._origin.environment).volatile

    @override
    async def prompt(self) -> Blocks:
        return await self._engine.prompt(self._origin.session_id)

    @override
    async def setup_error(self) -> str | None:
        return (await self._engine.status(self._origin.session_id)).setup_error

    @override
    async def call(self, call: RecordedCall) -> Step | None:
        session_id = self._origin.session_id
        call_id = None if call.call_id in self._ids else call.call_id
        self._ids.add(call.call_id)
        begun = await self._engine.call(session_id, call.tool, call.arguments, call_id=call_id)
        result = await begun.wait()
        steps = await self._engine.steps(session_id, self._count, self._count + 1)
        if steps:
            self._count += 1
            return steps[0]
        if isinstance(result, Failure):
            raise result.error
        return None


@dataclass(slots=True)
class LocalStage(Stage):
    """Makes sessions in this process; use it as made by `open_local_stage`."""

    definitions: Mapping[str, EnvironmentDefinition]
    """Environments by the names that records call them by; others are found by their entry points."""
    wanted: Wanted | None
    server_version: str
    stack: AsyncExitStack
    instead: EnvironmentDefinition | None = None
    """What is played for every environment that has no name here."""
    found: dict[str, EnvironmentDefinition] = field(default_factory=dict[str, EnvironmentDefinition])
    _sandboxes: Sandboxes | None = None

    @asynccontextmanager
    @override
    async def open(
        self, origin: EpisodeOrigin, secrets: Mapping[str, str]
    ) -> AsyncGenerator[LocalReplaySession]:
        definition = self._find(origin.environment)
        policy = recorded_policy(origin.policy)
        notes = [
            f"the environment's own {name} is another now; the recorded one was used"
            for name in overrides_of(policy, definition.policy)[1]
        ]
        notes += await _look_up_task(definition, origin)
        order = SessionRequest(
            environment=definition.name,
            session_id=origin.session_id,
            task_spec=origin.task_spec,
            toolset=origin.toolset,
            secrets=secrets,
            visibility=Visibility(origin.visibility),
            seed=origin.seed,
            labels=origin.labels,
        )
        async with open_local_engine(
            [replace(definition, policy=policy)],
            EngineOptions(server_version=self.server_version),
            sandboxes=await self._prepare(definition),
        ) as engine:
            yield LocalReplaySession(engine, await engine.create(order), tuple(notes))

    def _find(self, name: str) -> EnvironmentDefinition:
        known = self.definitions.get(name) or self.found.get(name) or self.instead
        if known is None:
            installed = installed_environments()
            if name not in installed:  # a record chooses no module to import
                raise UnknownEnvironmentError(
                    f"{name!r} is no installed environment ({', '.join(installed) or 'none'}); give the "
                    "environment to play, as module:Class or a path"
                )
            loaded = load_environments([name])
            known = next((each for each in loaded if each.name == name), loaded[0])
            self.found[name] = known
        return known

    async def _prepare(self, definition: EnvironmentDefinition) -> Sandboxes:
        if not definition.may_need_sandbox:
            return NO_SANDBOXES
        if self._sandboxes is None:
            self._sandboxes = await self.stack.enter_async_context(open_sandboxes([definition], self.wanted))
        return self._sandboxes


@asynccontextmanager
async def open_local_stage(
    environments: Sequence[EnvironmentDefinition] = (),
    *,
    wanted: Wanted | None = None,
    server_version: str = "0",
) -> AsyncGenerator[LocalStage]:
    """Prepare to replay in this process; leaving the context ends everything.

    Args:
        environments: What to play; where it is one, it is played for whatever name a record has. Environments
            that are not among them are found by their entry points.
        wanted: Which isolation is wanted for what agents ran; the strongest that works here by default.
        server_version: What differs from the record's is told.

    Raises:
        SandboxUnavailableError: Of `open`, if an isolation that was asked for does not work here.
    """
    async with AsyncExitStack() as stack:
        yield LocalStage(
            {definition.name: definition for definition in environments},
            wanted,
            server_version,
            stack,
            environments[0] if len(environments) == 1 else None,
        )


async def _look_up_task(definition: EnvironmentDefinition, origin: EpisodeOrigin) -> list[str]:
    """Say where the environment has another task now; the recorded one is played all the same."""
    if origin.split is None or origin.index is None:
        return []
    place = f"task {origin.index} of split {origin.split!r}"
    try:
        task = await definition.tasks.get_task(origin.split, origin.index)
        is_same = hash_task(task) == origin.task_hash
    except (OrsServerError, EnvironmentFailedError):
        return [f"the environment has no {place} any more; the recorded one was played"]
    return [] if is_same else [f"{place} is another one now; the recorded one was played"]
