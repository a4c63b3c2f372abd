"""Makes sessions: of the task that a request asks for, or from where another session stood."""

from collections.abc import Sequence
from dataclasses import replace
from secrets import randbelow

import anyio

from ors_server.authoring.definition import EnvironmentDefinition, ToolsetDefinition
from ors_server.authoring.simulated_user.conversation import replay_turns
from ors_server.episode import EpisodeEvent, StopReason
from ors_server.errors import EnvironmentFailedError, InvalidRequestError
from ors_server.logs import secret_values
from ors_server.recording import task_digest
from ors_server.sessions.episode_recorder import EpisodeRecorder
from ors_server.sessions.json_copies import JSONCopyError, copy_json
from ors_server.sessions.lifecycle import make_instance, tear_down
from ors_server.sessions.session import Session
from ors_server.sessions.session_request import SessionRequest
from ors_server.sessions.session_services import Services
from ors_server.sessions.snapshots import SessionSnapshot
from ors_server.trajectory import SEEDS, EpisodeOrigin, Fork, Step, make_episode_id
from ors_server.wire import JSONObject


async def make_session(
    session_id: str,
    request: SessionRequest,
    definition: EnvironmentDefinition,
    services: Services,
    own_policy: JSONObject,
) -> Session:
    """Make a session under an id that no live one has, and write its origin to the store.

    Args:
        own_policy: The environment's own policy as it is recorded.

    Raises:
        InvalidRequestError, UnknownSplitError, UnknownTaskError: If the request is wrong.
        EnvironmentFailedError: If the environment's constructor failed, or the task is not JSON.
        SandboxUnavailableError: If the session needs a sandbox and this server has none.
        StoreError: If the origin could not be written.
    """
    toolset = _find_toolset(definition, request.toolset)
    needs_sandbox = definition.sandbox_for(toolset) is not None
    if needs_sandbox:
        services.sandboxes.require()
    policy = definition.policy.override(request.policy)
    is_own = policy is definition.policy
    visibility = request.visibility or definition.visibility or services.options.visibility
    task_spec = await _find_task(definition, request)
    task_hash = task_digest(task_spec)
    split, index = request.split, request.index
    if request.task_spec is not None:
        split, index = await services.task_places.find(definition, task_hash) or (None, None)
    origin = EpisodeOrigin(
        session_id=session_id,
        environment=definition.name,
        environment_version=definition.version,
        server_version=services.options.server_version,
        task_spec=task_spec,
        task_hash=task_hash,
        split=split,
        index=index,
        created_at=services.clock.now(),
        policy=own_policy if is_own else policy.model_dump(mode="json"),
        credential_id=request.credential_id,
        sandbox=services.sandboxes.tier if needs_sandbox else None,
        seed=randbelow(SEEDS) if request.seed is None else request.seed,
        visibility=visibility.value,
        toolset=request.toolset,
        labels=dict(request.labels),
        packages=definition.packages,
    )
    recorder = EpisodeRecorder(origin, policy, services)
    secret_values.keep(recorder, request.secrets.values())
    copied = _copy_task(task_spec)
    instance = await make_instance(definition, copied, request.secrets, policy.setup_time_limit)
    if request.user_turns is not None:
        replay_turns(instance, request.user_turns)
    try:
        await recorder.open()
    except BaseException:
        with anyio.CancelScope(shield=True):
            await tear_down(definition, instance, services, session_id)
        raise
    return Session(recorder, definition, instance, visibility, copied, toolset)


async def make_fork(
    parent: Session,
    session_id: str,
    credential_id: str | None,
    snapshot: SessionSnapshot,
    steps: Sequence[Step],
) -> Session:
    """Make a session with an instance, files and a record of its own; it is ready at once."""
    before = parent.recorder.origin
    services = parent.recorder.services
    origin = replace(
        before,
        session_id=session_id,
        episode_id=make_episode_id(),
        created_at=services.clock.now(),
        credential_id=credential_id,
        forked_from=Fork(before.session_id, snapshot.state.steps),
    )
    recorder = EpisodeRecorder(origin, parent.recorder.policy, services)
    secret_values.keep(recorder, parent.secrets.values())
    task_spec = copy_json(before.task_spec)
    limit = recorder.policy.setup_time_limit
    instance = await make_instance(parent.definition, task_spec, parent.secrets, limit)
    session = Session(recorder, parent.definition, instance, parent.visibility, task_spec, parent.toolset)
    try:
        await session.start_from_snapshot(snapshot, steps)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await session.aclose(EpisodeEvent.DELETE, StopReason.DELETED)
        raise
    return session


def _copy_task(task_spec: JSONObject) -> JSONObject:
    try:
        return copy_json(task_spec)
    except JSONCopyError as error:
        raise EnvironmentFailedError(f"the task is not JSON: {error}") from error


async def _find_task(definition: EnvironmentDefinition, request: SessionRequest) -> JSONObject:
    if request.task_spec is not None:
        try:
            return _copy_task(request.task_spec)
        except EnvironmentFailedError as error:
            raise InvalidRequestError(str(error)) from error
    if request.split is None or request.index is None:
        raise InvalidRequestError("Provide either task_spec or both split and index, not both/neither")
    return await definition.tasks.get_task(request.split, request.index)


def _find_toolset(definition: EnvironmentDefinition, name: str | None) -> ToolsetDefinition | None:
    if name is None:
        return None
    toolset = definition.session_toolsets.get(name)
    if toolset is None:
        options = sorted(definition.session_toolsets)
        raise InvalidRequestError(f"unknown toolset {name!r}; valid options are {options}")
    return toolset
