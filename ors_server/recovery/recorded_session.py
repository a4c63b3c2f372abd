"""A session whose episode is over, answered from its record: no environment is made, no judge asked."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from ors_server.environments.definition import Blocks, EnvironmentDefinition, Hooks, Instance
from ors_server.model.errors import SessionInterruptedError
from ors_server.model.trajectory import EpisodeRecord, Step
from ors_server.model.visibility import Visibility
from ors_server.model.wire import Message
from ors_server.recovery.recorded_episode import recorded_policy
from ors_server.recovery.recorded_state import over_state
from ors_server.sessions.episode_recorder import EpisodeRecorder
from ors_server.sessions.session import Session
from ors_server.sessions.session_services import Services


def open_recorded_session(
    record: EpisodeRecord, steps: Sequence[Step], definition: EnvironmentDefinition, services: Services
) -> Session:
    """Return a session that answers known calls, its prompt and its status, and refuses further calls."""
    origin = record.origin
    recorder = EpisodeRecorder(origin, recorded_policy(origin.policy), services)
    hooks = _RecordedHooks(record, definition.hooks).hooks
    readable = replace(definition, toolsets=(), session_toolsets={}, sandbox=None, hooks=hooks, reward=None)
    visibility = Visibility(origin.visibility)
    session = Session(recorder, readable, _NoInstance(), visibility, origin.task_spec, None)
    session.go_on_from(over_state(record, steps, services.clock), services, steps)
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
