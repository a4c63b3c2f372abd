"""Operations of the control API on a recorded episode: replay, regrade and export.

The record of the episode stays as it is: a replay is a new episode, and a judgement is only shown.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from ors_server.doors.control.episodes import EpisodeName
from ors_server.doors.control.operations import ControlRequest, RequestBody, RequestQuery
from ors_server.doors.http.request_errors import ResponseModel
from ors_server.model.errors import InvalidRequestError, NotSupportedError, OrsServerError
from ors_server.model.logs import get_logger
from ors_server.model.trajectory import EpisodeRecord, Step
from ors_server.model.visibility import Visibility
from ors_server.model.wire import JSONObject
from ors_server.recovery.recorded_episode import (
    REPLAY_OF,
    overrides_of,
    recorded_policy,
    recorded_user_turns,
    repeatable_steps,
)
from ors_server.sessions.manager import SessionManager
from ors_server.sessions.session_request import SessionRequest
from ors_server.store.lookup import find_episode

log = get_logger("ors_server.control")

MAX_STEPS = 5_000
"""Steps of an episode that is played again, judged or exported by a request; commands take any number."""
REGRADE_SECONDS = 30.0
REPLAYS_AT_ONCE = 4


class ReplayedEpisode(ResponseModel):
    """A new session in which the recorded calls are made again; it ends after the last one."""

    session_id: str
    episode_id: str
    """The new record, whose label `replay_of` is the id of the played one."""
    calls: int
    """Calls that are made; those that were withdrawn or that machinery failed are left out."""
    changed_rules: list[str]
    """Rules of the recorded policy that a session of this server cannot have."""


class RegradeBody(RequestBody):
    """Another reward."""

    reward: Annotated[str, Field(min_length=1, max_length=200)]
    """A name that `ors-server rewards` lists."""
    options: JSONObject = Field(default_factory=dict)
    """Fields for the reward, which override those of the episode."""


class RegradedEpisode(ResponseModel):
    """An episode under another reward; nothing of it is recorded."""

    episode_id: str
    reward: str
    paid: float | None
    """Sum of the rewards that its tools paid, without penalties; `None` if nothing was judged."""
    result: JSONObject
    """Status, reward, components and reasons, as `ors-server regrade --json` prints them."""


class ExportQuery(RequestQuery):
    """The format of the exported rows."""

    format: Literal["openai", "sharegpt", "trl", "plain"] = "openai"


class ExportedEpisode(ResponseModel):
    """An episode in another tool's format."""

    format: str
    rows: list[JSONObject]
    """The lines of the file."""
    left_out: str | None
    """Why the format cannot hold the episode; `None` if it can."""


@dataclass(eq=False, repr=False)
class EpisodeJobs:
    """Handles requests to replay, regrade or export a recorded episode."""

    _manager: SessionManager
    _replays: int = 0

    async def replay_episode(self, request: ControlRequest, episode: EpisodeName) -> ReplayedEpisode:
        """Play a recorded episode again: a new session of its task, seed and rules makes the same calls."""
        record, steps = await self._read(episode)
        origin = record.origin
        if origin.has_secrets:
            raise NotSupportedError(
                "the session had secrets, which no record has; `ors-server replay --secret` takes them"
            )
        if self._replays >= REPLAYS_AT_ONCE:
            raise NotSupportedError(
                f"{REPLAYS_AT_ONCE} replays are running already; try again when one has ended"
            )
        definition = self._manager.environment(origin.environment)
        overrides, changed_rules = overrides_of(recorded_policy(origin.policy), definition.policy)
        calls = list(repeatable_steps(steps))
        status = await self._manager.create(
            SessionRequest(
                environment=definition.name,
                task_spec=origin.task_spec,
                toolset=origin.toolset,
                visibility=Visibility(origin.visibility),
                seed=origin.seed,
                policy=overrides,
                labels={REPLAY_OF: origin.episode_id},
                user_turns=recorded_user_turns(steps),
                credential_id=request.caller.credential_id,
            )
        )
        self._replays += 1
        self._manager.services.spawn(self._play, status.origin.session_id, calls)
        return ReplayedEpisode(
            session_id=status.origin.session_id,
            episode_id=status.origin.episode_id,
            calls=len(calls),
            changed_rules=list(changed_rules),
        )

    async def _play(self, session_id: str, calls: Sequence[Step]) -> None:
        """Make the calls one after another, then end the session."""
        try:
            session = await self._manager.obtain(session_id)
            await session.prompt()
            for step in calls:
                await (await session.call(step.tool, step.arguments)).wait()
        except OrsServerError as error:  # the record of the replay has the calls up to here
            log.info("replay_ended_early", session_id=session_id, code=error.code, error=str(error))
        finally:
            self._replays -= 1
            await self._manager.delete(session_id)

    async def regrade_episode(self, episode: EpisodeName, body: RegradeBody) -> RegradedEpisode:
        """Judge a recorded episode by a reward of the library, in a worker process; nothing is recorded."""
        # Imported on the first request, because the imports would slow down every start of a server.
        from ors_server.rewards.batch.batch_scorer import BatchScorer  # noqa: PLC0415  (as above)
        from ors_server.rewards.catalogue import home_of  # noqa: PLC0415  (as above)
        from ors_server.rewards.recorded_fields import write_recorded  # noqa: PLC0415  (as above)
        from ors_server.rewards.reward_errors import BatchError  # noqa: PLC0415  (as above)

        # A name with a colon would load a module of the caller's choice into a process of this machine.
        if home_of(body.reward) is None:
            names = ", ".join(self.reward_names())
            raise InvalidRequestError(f"unknown reward {body.reward!r}: expected one of {names}")
        record, steps = await self._read(episode)
        row = write_recorded(record, steps)
        try:
            with BatchScorer(
                body.reward, jobs=1, time_limit=REGRADE_SECONDS, keywords=body.options
            ) as scorer:
                async with aclosing(scorer.ascore([row])) as results:
                    result = await anext(results)
        except BatchError as error:
            raise InvalidRequestError(str(error)) from error
        was_judged = record.summary.last_reward is not None
        return RegradedEpisode(
            episode_id=record.origin.episode_id,
            reward=body.reward,
            paid=record.summary.reward_sum if was_judged else None,
            result=result.as_json(),
        )

    async def export_episode(self, episode: EpisodeName, query: ExportQuery) -> ExportedEpisode:
        """Return a recorded episode as a line of a trainer's or another tool's file."""
        from ors_server.export.episodes import ExportCounts  # noqa: PLC0415  (as in `regrade_episode`)
        from ors_server.export.formats import export_rows, make_format  # noqa: PLC0415  (as in `regrade_episode`)

        record, steps = await self._read(episode)
        counts = ExportCounts()

        async def single() -> AsyncGenerator[tuple[EpisodeRecord, Sequence[Step]], None]:
            yield record, steps

        form = make_format(query.format)
        rows = [row async for row in export_rows(single(), form, counts, include_unfinished=True)]
        reasons: Mapping[str, int] = counts.left_out
        return ExportedEpisode(format=query.format, rows=rows, left_out=next(iter(reasons), None))

    def reward_names(self) -> list[str]:
        """Return the rewards of the library, which `regrade_episode` takes."""
        from ors_server.rewards.catalogue import reward_names  # noqa: PLC0415  (as in `regrade_episode`)

        return sorted(reward_names(), key=str.lower)

    async def _read(self, name: str) -> tuple[EpisodeRecord, Sequence[Step]]:
        store = self._manager.services.store
        record = await find_episode(store, name)
        if record.summary.steps > MAX_STEPS:
            raise NotSupportedError(
                f"the episode has {record.summary.steps:,} steps, expected at most {MAX_STEPS:,}: use "
                "`ors-server replay`, `regrade` or `export`"
            )
        return record, await store.steps(record.origin.episode_id)
