"""Judges recorded episodes by another reward, in worker processes; the store is not changed."""

from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import anyio
import anyio.from_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from ors_server.model.trajectory import EpisodeOrigin, EpisodeRecord, Step
from ors_server.recovery.recorded_episode import RecordedEpisode
from ors_server.replaying.choosing import Episodes, task_of
from ors_server.replaying.replay_result import episode_json
from ors_server.rewards.batch.batch_scorer import BatchScorer
from ors_server.rewards.recorded_fields import FINAL_RESPONSE_FROM, GROUP, write_recorded
from ors_server.rewards.result import RewardResult

EPISODES_READ_AHEAD = 8
"""Episodes that are read before a worker requests them."""
PAID = "tool"
"""Component of a step's reward that a tool paid."""

Row: TypeAlias = dict[str, Any]
_Pending: TypeAlias = Callable[[RewardResult], "Regraded"]
"""An episode that is being judged: it takes the result."""


@dataclass(frozen=True, slots=True)
class RegradeRequest:
    """What a reward reads of an episode, and whether it compares episodes."""

    final_response_from: str | None = None
    """`TOOL.ARGUMENT` or `TOOL` with the agent's final response; its last call by default."""
    by_task: bool = False
    """Whether the reward compares the episodes of one task."""


@dataclass(frozen=True, slots=True)
class Regraded:
    """One episode and its result under another reward."""

    origin: EpisodeOrigin
    paid: float | None
    """What tools paid in the record, without penalties; `None` where nothing was judged."""
    episode_return: float
    """The recorded return, penalties included."""
    result: RewardResult

    @property
    def difference(self) -> float | None:
        """The new reward minus what was paid; `None` where one of them is missing."""
        if self.paid is None or self.result.reward is None:
            return None
        return self.result.reward - self.paid

    def as_json(self) -> dict[str, Any]:
        """Render it with JSON types."""
        return {
            **episode_json(self.origin),
            "paid": self.paid,
            "return": self.episode_return,
            "difference": self.difference,
            **self.result.as_json(),
        }


async def regrade(
    scorer: BatchScorer, episodes: Episodes, request: RegradeRequest, report: Callable[[Regraded], None]
) -> int:
    """Judge recorded episodes by another reward, with few of them in memory at a time, and close the scorer.

    `report` is called with each result in the order of the episodes. Returns the number of workers that were
    replaced, because they died or an episode took too long.

    Raises:
        BatchError: If workers cannot start: no such reward, no such option.
        OrsServerError: If the episodes cannot be read.
    """
    with scorer:
        try:
            await _judge(scorer, episodes, request, report)
        except ExceptionGroup as group:  # of one: the first failure ends the other task
            raise group.exceptions[0] from group
        return scorer.replaced


async def _judge(
    scorer: BatchScorer, episodes: Episodes, request: RegradeRequest, report: Callable[[Regraded], None]
) -> None:
    send, receive = anyio.create_memory_object_stream[RecordedEpisode](EPISODES_READ_AHEAD)
    pending: deque[_Pending] = deque()
    async with receive, anyio.create_task_group() as tasks:
        tasks.start_soon(_feed, episodes.by_task() if request.by_task else episodes.each(), send)
        rows = _rows(receive, request, pending)
        async with aclosing(scorer.ascore(rows, group_by=GROUP if request.by_task else None)) as results:
            async for result in results:
                report(pending.popleft()(result))


def paid_by_tools(record: EpisodeRecord, steps: tuple[Step, ...]) -> float | None:
    """Return what tools paid in an episode, without penalties; `None` where some judgement is missing."""
    is_judged = not record.summary.unjudged_steps and any(PAID in step.components for step in steps)
    return record.summary.reward_sum if is_judged else None


async def _feed(
    episodes: AsyncGenerator[RecordedEpisode, None], send: MemoryObjectSendStream[RecordedEpisode]
) -> None:
    async with send, aclosing(episodes):
        async for episode in episodes:
            await send.send(episode)


def _rows(
    receive: MemoryObjectReceiveStream[RecordedEpisode], request: RegradeRequest, pending: deque[_Pending]
) -> Generator[Row, None, None]:
    """Yield rows to the worker thread that requests them."""
    while True:
        try:
            episode = anyio.from_thread.run(receive.receive)
        except anyio.EndOfStream:
            return
        record, steps = episode.record, episode.steps
        row: Row = write_recorded(record, steps)
        if request.by_task:
            row[GROUP] = "/".join(task_of(record))
        if request.final_response_from is not None:
            row[FINAL_RESPONSE_FROM] = request.final_response_from
        paid = paid_by_tools(record, steps)
        pending.append(partial(Regraded, record.origin, paid, record.summary.episode_return))
        yield row
