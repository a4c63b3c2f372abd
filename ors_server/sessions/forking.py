"""Makes a session that goes on from where another one stood."""

from collections.abc import Sequence
from dataclasses import replace

import anyio

from ors_server.episode import EpisodeEvent, StopReason
from ors_server.sessions.episode_recorder import EpisodeRecorder
from ors_server.sessions.json_copies import copy_json
from ors_server.sessions.lifecycle import make_instance
from ors_server.sessions.session import Session
from ors_server.sessions.snapshots import SessionSnapshot
from ors_server.trajectory import Fork, Step, make_episode_id


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
    task_spec = copy_json(before.task_spec)
    limit = recorder.policy.setup_time_limit
    instance = await make_instance(parent.definition, task_spec, parent.secrets, limit)
    session = Session(
        recorder,
        parent.definition,
        instance,
        visibility=parent.visibility,
        task_spec=task_spec,
        toolset=parent.toolset,
    )
    try:
        await session.start_from_snapshot(snapshot, steps)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await session.aclose(EpisodeEvent.DELETE, StopReason.DELETED)
        raise
    return session
