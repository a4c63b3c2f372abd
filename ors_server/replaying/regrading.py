"""Recorded episodes judged again by another reward, in worker processes; the record stays as it is."""

from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio
import anyio.from_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from ors_server.replaying.choosing import Episodes, task_of
from ors_server.replaying.recorded_episode import RecordedEpisode
from ors_server.rewards.batch.batch_scorer import CONCURRENCY, TIME_LIMIT, BatchScorer
from ors_server.rewards.recorded_fields import FINAL_RESPONSE_FROM, GROUP, write_recorded
from ors_server.rewards.result import RewardResult
from ors_server.trajectory import EpisodeOrigin, EpisodeRecord, Step

AHEAD = 8
"""Episodes that are read before a worker asks for them."""
PAID = "tool"
"""The component of a step's reward that a tool paid."""

Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RegradeRequest:
    """How episodes are to be judged again."""

    reward: str
    """A name of the library's, `module:name`, or `file.py:name`."""
    keywords: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Fields for every episode, which win over the episode's own; of JSON types."""
    final_response_from: str | None = None
    """`TOOL.ARGUMENT` or `TOOL`, where an agent's final response is; found in its last call by default."""
    by_task: bool = False
    """Whether the reward judges the episodes of one task beside each other."""
    jobs: int | None = None
    """Worker processes; as many as there are cores by default."""
    time_limit: float = TIME_LIMIT
    """Seconds that one episode may take, or one group."""
    concurrency: int = CONCURRENCY
    """Episodes that a worker judges at once, if the reward is async."""


@dataclass(frozen=True, slots=True)
class Regraded:
    """One episode, and what another reward says of it."""

    origin: EpisodeOrigin
    paid: float | None
    """What tools paid in the record, penalties left out, since no reward knows them; `None` where nothing was
    judged."""
    episode_return: float
    """What the episode was worth in all, penalties included."""
    result: RewardResult

    @property
    def difference(self) -> float | None:
        """By how much the new judgement is more; `None` where one of the two is none."""
        if self.paid is None or self.result.reward is None:
            return None
        return self.result.reward - self.paid

    def as_json(self) -> dict[str, Any]:
        """Render it with JSON types."""
        origin = self.origin
        return {
            "episode_id": origin.episode_id,
            "session_id": origin.session_id,
            "environment": origin.environment,
            "split": origin.split,
            "index": origin.index,
            "task_hash": origin.task_hash,
            "paid": self.paid,
            "return": self.episode_return,
            "difference": self.difference,
            **self.result.as_json(),
        }


async def regrade(episodes: Episodes, wish: RegradeRequest, tell: Callable[[Regraded], None]) -> int:
    """Judge recorded episodes with another reward.

    Few episodes are held at a time, however many there are.

    Args:
        episodes: Which ones.
        wish: How.
        tell: Told of each, in the order in which they are read, as soon as it and those before are judged.

    Returns:
        How many workers died over an episode, or were ended for one that took too long.

    Raises:
        BatchError: If workers cannot start: no such reward, no such option.
        OrsServerError: If the episodes cannot be read.
    """
    with _scorer(wish) as scorer:
        try:
            await _judge(scorer, episodes, wish, tell)
        except ExceptionGroup as group:  # of one: whatever fails first ends the other
            raise group.exceptions[0] from group
        return scorer.replaced


async def _judge(
    scorer: BatchScorer, episodes: Episodes, wish: RegradeRequest, tell: Callable[[Regraded], None]
) -> None:
    send, receive = anyio.create_memory_object_stream[RecordedEpisode](AHEAD)
    pending: deque[_Header] = deque()
    async with receive, anyio.create_task_group() as tasks:
        tasks.start_soon(_feed, episodes.by_task() if wish.by_task else episodes.each(), send)
        rows = _rows(receive, wish, pending)
        async with aclosing(scorer.ascore(rows, group_by=GROUP if wish.by_task else None)) as results:
            async for result in results:
                tell(pending.popleft().judged(result))


@dataclass(frozen=True, slots=True)
class _Header:
    """What is kept of an episode while it is judged."""

    origin: EpisodeOrigin
    paid: float | None
    episode_return: float

    def judged(self, result: RewardResult) -> Regraded:
        return Regraded(self.origin, self.paid, self.episode_return, result)


def paid_by_tools(record: EpisodeRecord, steps: tuple[Step, ...]) -> float | None:
    """Return what tools paid in an episode, penalties left out; `None` where nothing was judged.

    Args:
        record: The episode.
        steps: All its steps.
    """
    return record.summary.reward_sum if any(PAID in step.components for step in steps) else None


def _scorer(wish: RegradeRequest) -> BatchScorer:
    return BatchScorer(
        wish.reward,
        jobs=wish.jobs,
        time_limit=wish.time_limit,
        concurrency=wish.concurrency,
        keywords=wish.keywords,
    )


async def _feed(
    episodes: AsyncGenerator[RecordedEpisode, None], send: MemoryObjectSendStream[RecordedEpisode]
) -> None:
    async with send, aclosing(episodes):
        async for episode in episodes:
            await send.send(episode)


def _rows(
    receive: MemoryObjectReceiveStream[RecordedEpisode], wish: RegradeRequest, pending: deque[_Header]
) -> Generator[Row, None, None]:
    """Give rows to the worker thread that asks for them."""
    while True:
        try:
            episode = anyio.from_thread.run(receive.receive)
        except anyio.EndOfStream:
            return
        record, steps = episode.record, episode.steps
        row: Row = write_recorded(record, steps)
        if wish.by_task:
            row[GROUP] = "/".join(task_of(record))
        if wish.final_response_from is not None:
            row[FINAL_RESPONSE_FROM] = wish.final_response_from
        pending.append(_Header(record.origin, paid_by_tools(record, steps), record.summary.episode_return))
        yield row
