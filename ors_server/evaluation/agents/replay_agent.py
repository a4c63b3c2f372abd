"""Repeats the calls of a recorded episode."""

from collections.abc import Sequence

from ors_server.evaluation.agent_session import AgentSession
from ors_server.evaluation.agents.base import AgentError, AgentReport
from ors_server.evaluation.agents.baselines import make_calls
from ors_server.replaying.recorded_episode import repeatable_steps
from ors_server.store.base import EpisodeFilter, RecordReader
from ors_server.trajectory import EpisodeRecord
from ors_server.wire import JSONObject

PAGE = 200
"""Episodes that are searched for one attempt, the newest first."""


class ReplayAgent:
    """Makes the calls of the newest recorded episode of the same task."""

    plays_outside = False

    def __init__(self, reader: RecordReader, place: str, run_id: str | None = None) -> None:
        """Keep the store, which is closed together with the agent, and its path or URL.

        With `run_id` only episodes with this label `run` are used, and an attempt repeats the one with its
        own number, if there is one.
        """
        self._reader = reader
        self._place = place
        self._run_id = run_id

    def describe(self) -> JSONObject:
        """Return the place of the store."""
        return {"kind": "replay", "name": "replay", "record": self._place, "run": self._run_id}

    async def play(self, session: AgentSession) -> AgentReport:
        """Make the recorded calls, without those that were withdrawn or that the machinery failed.

        Raises:
            AgentError: If no episode of the task is in the store.
        """
        record = await self._find(session)
        steps = await self._reader.steps(record.origin.episode_id)
        session.log.append(f"replays the episode {record.origin.episode_id}")
        return await make_calls(session, [(call.tool, call.arguments) for call in repeatable_steps(steps)])

    async def aclose(self) -> None:
        """Close the store."""
        await self._reader.aclose()

    async def _find(self, session: AgentSession) -> EpisodeRecord:
        labels = {} if self._run_id is None else {"run": self._run_id}
        filter_ = EpisodeFilter(
            environment=session.environment,
            split=session.split,
            index=session.index,
            labels=labels,
            closed=True,
        )
        found = await self._reader.page(filter_, limit=PAGE)
        chosen = _choose([one for one in found if one.summary.steps], session.attempt)
        if chosen is None:
            raise AgentError(
                f"{self._place} has no ended episode of task {session.index} of {session.environment!r}, "
                f"split {session.split!r}, so there is nothing to replay"
            )
        return chosen


def _choose(records: Sequence[EpisodeRecord], attempt: int) -> EpisodeRecord | None:
    same = (record for record in records if record.origin.labels.get("attempt") == str(attempt))
    return next(same, records[0] if records else None)
