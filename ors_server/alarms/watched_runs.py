"""Reads the ended episodes of a run from a record, each once, which any server may write."""

from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime

import anyio

from ors_server.alarms.alarm_rules import AlarmThresholds
from ors_server.alarms.episode_facts import MAX_STEPS, RUN_LABEL, EpisodeFacts, facts_of
from ors_server.alarms.run_alarms import Alarm, RunAlarms
from ors_server.model.clock import Clock
from ors_server.model.errors import StoreError
from ors_server.model.logs import get_logger
from ors_server.model.trajectory import EpisodeRecord
from ors_server.store.base import RecordReader
from ors_server.store.episode_filter import EpisodeFilter
from ors_server.store.episode_order import OLDEST_FIRST

log = get_logger("ors_server.alarms")

POLL_SECONDS = 10.0
"""Seconds after which a server evaluates the alarms of its runs again."""
EPISODES_AT_ONCE = 200
"""Episodes that are read at once."""
MAX_RUNS = 32
"""Runs whose alarms are kept up to date; the others are read again when a reader asks for them."""


MAX_STEPS_READ = 5_000
"""Steps of a run that are read for its charts, if nothing has read them before."""


class RunReader:
    """Finds what ended since it looked last.

    A record lists episodes in the order in which they were created, and they end in another one. So it keeps
    the ids of those that it saw live, and asks which of them are live still.
    """

    def __init__(self, reader: RecordReader, run: str) -> None:
        """Begin with the oldest episode that has the label `run`."""
        self._reader = reader
        self._labels = {RUN_LABEL: run}
        self._since: datetime | None = None
        self._at_since: frozenset[str] = frozenset()
        """Ids of the episodes seen that were created at that very moment."""
        self._live: dict[str, None] = {}

    async def poll(self) -> AsyncGenerator[EpisodeFacts]:
        """Yield the episodes that ended since the last poll, about in the order in which they ended.

        Only a page of episodes is in memory at once.

        Raises:
            StoreError: If the record cannot be read; what was not yielded is yielded by a later poll.
        """
        async for facts in self._facts_of(await self._ended()):
            yield facts
        async for page in self._pages(EpisodeFilter(labels=self._labels, since=self._since)):
            fresh = [record for record in page if record.origin.episode_id not in self._at_since]
            self._live |= dict.fromkeys(record.origin.episode_id for record in fresh if not record.is_closed)
            self._advance(fresh)
            async for facts in self._facts_of([record for record in fresh if record.is_closed]):
                yield facts

    async def _ended(self) -> list[EpisodeRecord]:
        """Return the episodes that were live at the last poll and are not any more."""
        if not self._live:
            return []
        pages = self._pages(EpisodeFilter(labels=self._labels, closed=False))
        living = {record.origin.episode_id async for page in pages for record in page}
        ended: list[EpisodeRecord] = []
        for episode_id in [episode_id for episode_id in self._live if episode_id not in living]:
            record = await self._reader.find(episode_id)
            if record is None or record.is_closed:  # `None` if it was pruned
                del self._live[episode_id]
            if record is not None and record.is_closed:
                ended.append(record)
        return ended

    async def _facts_of(self, ended: list[EpisodeRecord]) -> AsyncGenerator[EpisodeFacts]:
        for record in sorted(
            ended, key=lambda record: record.summary.finished_at or record.origin.created_at
        ):
            yield facts_of(record, await self._reader.steps(record.origin.episode_id, 0, MAX_STEPS))

    async def _pages(self, chosen: EpisodeFilter) -> AsyncGenerator[Sequence[EpisodeRecord]]:
        after: str | None = None
        while True:
            page = await self._reader.page(chosen, after=after, limit=EPISODES_AT_ONCE, order=OLDEST_FIRST)
            yield page
            if len(page) < EPISODES_AT_ONCE:
                return
            after = page[-1].origin.episode_id

    def _advance(self, fresh: Sequence[EpisodeRecord]) -> None:
        if not fresh:
            return
        latest = max(record.origin.created_at for record in fresh)
        at_latest = frozenset(
            record.origin.episode_id for record in fresh if record.origin.created_at == latest
        )
        self._at_since = at_latest | (self._at_since if latest == self._since else frozenset())
        self._since = latest


class WatchedRun:
    """A run on record with its alarms."""

    def __init__(
        self,
        reader: RecordReader,
        run: str,
        thresholds: AlarmThresholds | None = None,
        *,
        success_at: float = 1.0,
        baseline: list[EpisodeFacts] | None = None,
    ) -> None:
        """Read nothing yet.

        Args:
            baseline: Episodes of another run that this one is compared with.
        """
        self.run = run
        self.alarms = RunAlarms(thresholds, success_at=success_at, baseline=baseline)
        self._reader = RunReader(reader, run)
        self._turn = anyio.Lock()

    async def update(self) -> tuple[list[Alarm], list[Alarm]]:
        """Read what ended since the last time; return the alarms that opened, and those that closed.

        Callers take turns. One that is cancelled may leave episodes out; a later update reads the others.
        """
        opened: list[Alarm] = []
        closed: list[Alarm] = []
        async with self._turn:
            async for episode in self._reader.poll():
                changes = self.alarms.add(episode)
                opened += changes[0]
                closed += changes[1]
        return opened, closed


class AlarmBook:
    """The runs of a record that readers asked for last, each with its alarms."""

    def __init__(self, reader: RecordReader) -> None:
        """Read nothing yet."""
        self._reader = reader
        self._runs: OrderedDict[str, WatchedRun] = OrderedDict()
        self._active: set[str] = set()
        """Runs of which episodes ended last: questions about other runs do not make the book forget them."""

    def of(self, run: str) -> WatchedRun:
        """Return a run; it is read when it is updated."""
        watched = self._runs.pop(run, None) or WatchedRun(self._reader, run)
        self._runs[run] = watched
        idle = [name for name in self._runs if name not in self._active]
        if len(idle) > MAX_RUNS:
            del self._runs[idle[0]]
        return watched

    async def update(self, run: str) -> WatchedRun:
        """Read what ended of a run since its last update, and log the alarms that open or close by it."""
        watched = self.of(run)
        opened, closed = await watched.update()
        for alarm in opened:
            log.warning("alarm_opened", run=run, **alarm.as_json())
        for alarm in closed:
            log.info("alarm_closed", run=run, alarm=alarm.name)
        return watched

    async def for_charts(self, run: str, steps: int) -> RunAlarms | None:
        """Return the alarms of a run that is kept up to date, or has few enough steps to be read now.

        Args:
            steps: Of all its episodes.
        """
        if run not in self._runs and steps > MAX_STEPS_READ:
            return None
        return (await self.update(run)).alarms

    @property
    def open(self) -> list[tuple[str, Alarm]]:
        """The open alarms of these runs, as of their last update."""
        return [(run, alarm) for run, watched in self._runs.items() for alarm in watched.alarms.open]

    async def watch(self, ended: Mapping[str, int], clock: Clock) -> None:
        """Evaluate the alarms of runs whose episodes have ended, every `POLL_SECONDS`, until cancelled.

        Args:
            ended: Number of ended episodes by run, which the caller increments.
        """
        seen: dict[str, int] = {}
        while True:
            await clock.sleep(POLL_SECONDS)
            self._active = set(ended)
            for run, count in list(ended.items()):
                if seen.get(run) == count:
                    continue
                try:
                    await self.update(run)
                except StoreError as error:
                    log.warning("alarms_not_read", run=run, error=str(error))
                    continue
                except Exception:  # one run must not end the watch of the others
                    log.exception("alarms_defect", run=run)
                seen[run] = count
            seen = {run: count for run, count in seen.items() if run in ended}


async def read_baseline(reader: RecordReader, run: str, thresholds: AlarmThresholds) -> list[EpisodeFacts]:
    """Return the first ended episodes of a run, as many as a window has."""
    episodes: list[EpisodeFacts] = []
    async with aclosing(RunReader(reader, run).poll()) as ended:
        async for episode in ended:
            episodes.append(episode)
            if len(episodes) == thresholds.window:
                break
    return episodes
