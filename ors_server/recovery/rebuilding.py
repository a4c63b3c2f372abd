"""Rebuilds one session: makes its environment again, plays the recorded calls, and compares their results.

Nothing is written meanwhile. The session continues only if every step is as it was; otherwise the environment
would be in another state than the agent knows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import anyio
import anyio.to_thread

from ors_server.environments.definition import (
    Blocks,
    EnvironmentDefinition,
    Hooks,
    Instance,
    ToolsetDefinition,
)
from ors_server.environments.simulated_user.conversation import replay_turns
from ors_server.model.episode import EpisodeEvent, Phase, StopReason
from ors_server.model.errors import (
    AuthorError,
    InvalidRequestError,
    MachineryError,
    RecordError,
    SessionInterruptedError,
)
from ors_server.model.logs import get_logger
from ors_server.model.recording import task_digest
from ors_server.model.trajectory import EpisodeRecord, Incident, IncidentKind, Step, StepStatus
from ors_server.model.visibility import Visibility
from ors_server.model.wire import Message
from ors_server.recovery.normalising import Normaliser
from ors_server.recovery.recorded_episode import (
    is_machinery,
    recorded_policy,
    recorded_user_turns,
    restored_to,
    why_not_comparable,
)
from ors_server.recovery.recorded_state import lost_transition, over_state, playable_state
from ors_server.recovery.step_comparison import ReplayDifference, compare_blocks, compare_steps
from ors_server.sessions.call_meters import CallMeters
from ors_server.sessions.episode_recorder import EpisodeRecorder
from ors_server.sessions.lifecycle import make_instance
from ors_server.sessions.manager import find_toolset
from ors_server.sessions.quiet_store import QuietStore
from ors_server.sessions.session import Session
from ors_server.sessions.session_services import Services
from ors_server.sessions.tool_arguments import copy_json, read_through

log = get_logger("ors_server.recovery")

PROMPT_FIELD = "prompt"
_TEXT_FIELDS = frozenset({PROMPT_FIELD, "blocks"})
"""Fields in which a lenient recovery tolerates differences."""


class CannotRebuildError(Exception):
    """The session cannot be rebuilt; the message says why, and nothing that an agent may not read."""


@dataclass(frozen=True, slots=True)
class RebuildRules:
    """What a rebuilt session may differ in."""

    is_lenient: bool = False
    """Whether text differences are tolerated; differences in status, reward or end never are."""
    allows_other_versions: bool = False
    """Whether the environment, the server and the packages may have other versions than on record."""


@dataclass(frozen=True, slots=True)
class InterruptedSession:
    """A session that an earlier server left open, with everything that its record has."""

    record: EpisodeRecord
    steps: Sequence[Step]
    definition: EnvironmentDefinition

    def check(self, rules: RebuildRules, services: Services) -> None:
        """Check what can be known before anything is played.

        Raises:
            CannotRebuildError: If the session cannot be rebuilt.
        """
        origin, definition = self.record.origin, self.definition
        if origin.has_secrets:
            raise CannotRebuildError("it was given secrets, which are not on record")
        if not definition.is_recoverable:
            raise CannotRebuildError(f"the environment {definition.name!r} is declared as not recoverable")
        if any(incident.kind is IncidentKind.RESTORED for incident in self.record.incidents):
            raise CannotRebuildError("it was restored to a snapshot, and snapshots are not on record")
        for step in self.steps:
            if restored_to(step) is not None:
                raise CannotRebuildError("it was restored to a snapshot, and snapshots are not on record")
            why = why_not_comparable(step)
            if why is not None:
                raise CannotRebuildError(f"step {step.number} cannot be repeated: {why}")
        if task_digest(origin.task_spec) != origin.task_hash:
            raise CannotRebuildError("its recorded task does not have the recorded hash")
        if not rules.allows_other_versions:
            self._check_versions(services.options.server_version)
        was = None if origin.sandbox is None else origin.sandbox.get("backend")
        tier = services.sandboxes.tier
        if was is not None and was != (tier or {}).get("backend"):
            raise CannotRebuildError(f"its commands ran in the sandbox {was}, which this server does not use")

    def _check_versions(self, server_version: str) -> None:
        origin, definition = self.record.origin, self.definition
        pairs = {
            f"environment {definition.name!r}": (origin.environment_version, definition.version),
            "server": (origin.server_version, server_version),
            **{
                f"package {name!r}": (origin.packages.get(name), definition.packages.get(name))
                for name in sorted({*origin.packages, *definition.packages})
            },
        }
        for component, (was, now) in pairs.items():
            if was != now:
                raise CannotRebuildError(f"the version of the {component} was {was} and is {now}")

    def toolset(self) -> ToolsetDefinition | None:
        """Return the toolset that the session was created with."""
        try:
            return find_toolset(self.definition, self.record.origin.toolset)
        except InvalidRequestError as error:
            raise CannotRebuildError(str(error)) from error


async def rebuild(interrupted: InterruptedSession, rules: RebuildRules, services: Services) -> Session:
    """Return a session that continues where the record ends.

    Raises:
        CannotRebuildError: If it cannot be rebuilt.
        MachineryError: If something underneath failed, so that another attempt may succeed.
    """
    record = interrupted.record
    lost = lost_transition(record)
    if lost is not None:
        services.store.record_transition(record.origin.episode_id, lost, record.summary)
    if Phase(record.summary.phase) in {Phase.FINISHED, Phase.FAILED}:
        return open_recorded_session(record, interrupted.steps, interrupted.definition, services)
    interrupted.check(rules, services)
    origin = record.origin
    toolset = interrupted.toolset()
    try:
        policy, turns = recorded_policy(origin.policy), recorded_user_turns(interrupted.steps)
    except RecordError as error:
        raise CannotRebuildError(str(error)) from error
    quiet = QuietStore(interrupted.steps)
    recorder = EpisodeRecorder(origin, policy, replace(services, store=quiet, meters=CallMeters()))
    task_spec = await read_through(copy_json, origin.task_spec)
    try:
        instance = await make_instance(interrupted.definition, task_spec, {}, policy.setup_time_limit)
    except AuthorError as error:
        raise _failed("its constructor", error) from error
    if turns:
        replay_turns(instance, turns)
    visibility = Visibility(origin.visibility)
    session = Session(recorder, interrupted.definition, instance, visibility, task_spec, toolset)
    try:
        differing = await _Rebuild(interrupted, rules, session, quiet).play()
        played = recorder.state
        state = playable_state(record, interrupted.steps, played, policy, services.clock)
        text = "a later server rebuilt the session from its record"
        if differing:
            text += f"; the texts of steps {', '.join(map(str, differing))} differed"
        incident = Incident(IncidentKind.REBUILT, services.clock.now(), text, tuple(differing))
        await services.store.record_incident(origin.episode_id, incident)
        session.resume_from(state, services, interrupted.steps)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await session.aclose(EpisodeEvent.DELETE, StopReason.INTERRUPTED)
        raise
    return session


@dataclass(slots=True)
class _Rebuild:
    """A rebuilding under way."""

    interrupted: InterruptedSession
    rules: RebuildRules
    session: Session
    quiet: QuietStore

    async def play(self) -> list[int]:
        """Bring the session to where the record ends; return the steps whose texts differed."""
        record = self.interrupted.record
        if Phase(record.summary.phase) is Phase.CREATED:
            return []  # its setup begins again once the session is live
        self.session.start()
        normaliser = Normaliser(self.interrupted.definition.volatile, (record.origin.session_id,))
        try:
            await self.session.until_ready()
            if record.prompt is not None:
                blocks: Blocks = await self.session.prompt()
                if list(record.prompt) != list(blocks):
                    self._check_differences(
                        "its prompt", compare_blocks(PROMPT_FIELD, record.prompt, blocks, normaliser)
                    )
        except AuthorError as error:
            raise _failed("its setup or prompt", error) from error
        differing = [step.number for step in self.interrupted.steps if await self._repeat(step, normaliser)]
        if self.session.recorder.state.steps != record.summary.steps:
            raise CannotRebuildError("its record lacks steps")
        return differing

    async def _repeat(self, step: Step, normaliser: Normaliser) -> bool:
        """Play one call again; return whether its text differs."""
        await self.session.repeat(step)
        replayed = self.quiet.latest
        if replayed is None or replayed.number != step.number:
            raise CannotRebuildError(f"the episode was over before step {step.number}")
        if replayed.status is StepStatus.FAILED and is_machinery(replayed.error_code):
            raise MachineryError(f"the machinery failed step {step.number} while the session was rebuilt")
        if replayed.blocks == step.blocks:
            # Nothing is left of it that takes long to compare, so that a thread would only cost time.
            differences = compare_steps(replace(step, blocks=()), replace(replayed, blocks=()), normaliser)
        else:
            differences = await anyio.to_thread.run_sync(compare_steps, step, replayed, normaliser)
        return self._check_differences(f"step {step.number} ({step.tool!r})", differences)

    def _check_differences(self, place: str, differences: Sequence[ReplayDifference]) -> bool:
        """Return whether there are differences that may pass; raise for others."""
        if not differences:
            return False
        fields = ", ".join(difference.field for difference in differences)
        session_id = self.session.id
        log.info("rebuilt_differently", session_id=session_id, place=place, fields=fields)
        if self.rules.is_lenient and all(difference.field in _TEXT_FIELDS for difference in differences):
            return True
        raise CannotRebuildError(f"{place} differs from the record when it is played again: {fields}")


def _failed(hook: str, error: AuthorError) -> CannotRebuildError:
    log.info("not_rebuilt", failed=hook, error=str(error))
    return CannotRebuildError(f"{hook} failed when it was repeated")


def open_recorded_session(
    record: EpisodeRecord, steps: Sequence[Step], definition: EnvironmentDefinition, services: Services
) -> Session:
    """Return a session whose episode is over: it answers from its record, without an environment or a judge.

    It knows its calls, its prompt and its status, and refuses further calls.
    """
    origin = record.origin
    recorder = EpisodeRecorder(origin, recorded_policy(origin.policy), services)
    hooks = _RecordedHooks(record, definition.hooks).hooks
    readable = replace(definition, toolsets=(), session_toolsets={}, sandbox=None, hooks=hooks, reward=None)
    visibility = Visibility(origin.visibility)
    session = Session(recorder, readable, _NoInstance(), visibility, origin.task_spec, None)
    session.resume_from(over_state(record, steps, services.clock), services, steps)
    return session


class _NoInstance:
    """Stands for the environment object that the episode had."""


class _RecordedHooks:
    """What a session may ask of an environment, answered from a record."""

    def __init__(self, record: EpisodeRecord, own: Hooks) -> None:
        self._prompt_blocks = record.prompt
        self.hooks = replace(
            own,
            setup=None,
            teardown=None,
            prompt=self._prompt,
            messages=self._messages,
            task_tools=None,
            score_group=None if own.score_group is None else self._score_group,
        )

    async def _prompt(self, _instance: Instance) -> Blocks:
        if self._prompt_blocks is None:
            self._refuse("its prompt was never read")
        return list(self._prompt_blocks)

    async def _messages(self, instance: Instance) -> list[Message]:
        return [Message(role="user", blocks=list(await self._prompt(instance)))]

    async def _score_group(self, _instance: Instance, _candidates: object) -> NoReturn:
        self._refuse("it has no environment that could score a group")

    def _refuse(self, why: str) -> NoReturn:
        raise SessionInterruptedError(
            f"the server was killed after this episode had ended, so that only its record is left, and {why}"
        )
