"""`ors-server episodes tail`: follows one episode, or all of them."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ors_server.cli.command_output import say
from ors_server.cli.episodes_list import ID_DIGITS, show_labels, show_return, show_state, show_task
from ors_server.cli.episodes_show import print_lines, show_paid, show_time, step_lines, summary_lines
from ors_server.cli.episodes_source import follow_steps, list_entries
from ors_server.model.errors import EpisodeNotFoundError
from ors_server.model.printable import clean_line
from ors_server.store.episode_order import OLDEST_FIRST

if TYPE_CHECKING:
    from datetime import datetime

    from ors_server.cli.episodes_options import TailOptions
    from ors_server.doors.control.episodes import EpisodeEntry
    from ors_server.model.clock import Clock
    from ors_server.model.trajectory import EpisodeSummary, Step
    from ors_server.store.base import RecordReader
    from ors_server.store.episode_filter import EpisodeFilter

POLL_SECONDS = 0.5
"""Seconds between two polls of all episodes."""
STEPS_AT_ONCE = 100
"""Steps that are in memory at once."""
MAX_ARGUMENT_CHARACTERS = 60
"""Maximum number of characters of a step's arguments on its line."""


@dataclass(frozen=True, slots=True)
class TailEvent:
    """An episode began, has a new step, or its session ended."""

    entry: "EpisodeEntry"
    step: "Step | None" = None
    summary: "EpisodeSummary | None" = None
    """The final figures."""


async def tail_one(reader: "RecordReader", options: "TailOptions") -> None:
    """Print an episode's steps until its record is closed."""
    from ors_server.model.trajectory import Step
    from ors_server.store.lookup import find_episode

    record = await find_episode(reader, options.episode or "")
    episode_id = record.origin.episode_id
    async with aclosing(follow_steps(reader, episode_id, options.start)) as steps:
        async for step in steps:
            if options.json:
                _print_played(episode_id, step)
            elif isinstance(step, Step):
                print_lines([*step_lines(step, whole=options.full), ("", "")])
            else:
                print_lines(summary_lines(step, is_closed=True))


async def tail_all(
    reader: "RecordReader", episode_filter: "EpisodeFilter", options: "TailOptions", clock: "Clock"
) -> None:
    """Print every new episode, step and end from now on, until the command is interrupted."""
    watch = EpisodeWatch(reader, episode_filter)
    await watch.begin()
    while True:
        async with aclosing(watch.poll()) as events:
            async for event in events:
                if not options.json:
                    print_lines([(event_line(event), "")])
                elif event.step is None and event.summary is None:
                    entry = event.entry.model_dump(mode="json", by_alias=True)
                    _say_event("opened", event.entry.episode_id, episode=entry)
                else:
                    _print_played(event.entry.episode_id, event.step or event.summary)
        await clock.sleep(POLL_SECONDS)


class EpisodeWatch:
    """Finds new episodes, steps and ends by polling a record.

    It keeps one number per live episode, and the ids of the episodes that were created last.
    """

    def __init__(self, reader: "RecordReader", episode_filter: "EpisodeFilter") -> None:
        self._reader = reader
        self._filter = episode_filter
        self._seen: dict[str, int] = {}
        """Number of steps that were reported, by live episode."""
        self._latest: datetime | None = None
        self._of_latest: frozenset[str] = frozenset()

    async def begin(self) -> None:
        """Mark everything that is on record as reported."""
        self._advance([newest async for newest in list_entries(self._reader, self._filter, limit=1)])
        self._advance(await self._new_entries())
        live = await self._live_entries()
        self._seen = {entry.episode_id: entry.episode.steps for entry in live}

    async def poll(self) -> AsyncGenerator[TailEvent, None]:
        """Yield the events since the last poll, in the order in which the episodes were created."""
        fresh = [entry for entry in await self._new_entries() if entry.episode_id not in self._of_latest]
        live = await self._live_entries()
        now = {entry.episode_id: entry for entry in (*fresh, *live)}
        self._advance(fresh)
        for entry in sorted(now.values(), key=lambda entry: (entry.created_at, entry.episode_id)):
            if entry.episode_id not in self._seen:
                self._seen[entry.episode_id] = 0
                yield TailEvent(entry)
            async for event in self._steps_of(entry):
                yield event
        living = {entry.episode_id for entry in live}
        for episode_id in [seen_id for seen_id in self._seen if seen_id not in living]:
            async for event in self._end_of(episode_id):
                yield event

    async def _steps_of(self, entry: "EpisodeEntry") -> AsyncGenerator[TailEvent, None]:
        seen = self._seen[entry.episode_id]
        while seen < entry.episode.steps:
            steps = await self._reader.steps(entry.episode_id, seen, seen + STEPS_AT_ONCE)
            if not steps:
                break
            for step in steps:
                yield TailEvent(entry, step)
            seen += len(steps)
            self._seen[entry.episode_id] = seen

    async def _end_of(self, episode_id: str) -> AsyncGenerator[TailEvent, None]:
        from ors_server.doors.control.episodes import EpisodeEntry
        from ors_server.store.lookup import find_episode

        try:
            record = await find_episode(self._reader, episode_id)
        except EpisodeNotFoundError:
            del self._seen[episode_id]  # pruned
            return
        if record.is_closed:  # else it was created after the live ones were listed
            entry = EpisodeEntry.of(record)
            async for event in self._steps_of(entry):
                yield event
            del self._seen[episode_id]
            yield TailEvent(entry, summary=record.summary)

    async def _new_entries(self) -> "Sequence[EpisodeEntry]":
        return await self._list(replace(self._filter, since=self._latest))

    async def _live_entries(self) -> "Sequence[EpisodeEntry]":
        return await self._list(replace(self._filter, closed=False))

    async def _list(self, episode_filter: "EpisodeFilter") -> "Sequence[EpisodeEntry]":
        return [entry async for entry in list_entries(self._reader, episode_filter, order=OLDEST_FIRST)]

    def _advance(self, entries: "Sequence[EpisodeEntry]") -> None:
        if not entries:
            return
        latest = max(entry.created_at for entry in entries)
        same = frozenset(entry.episode_id for entry in entries if entry.created_at == latest)
        self._of_latest = same if latest != self._latest else self._of_latest | same
        self._latest = latest


def event_line(event: TailEvent) -> str:
    """Describe an event on one line."""
    entry, step = event.entry, event.step
    name = f"{entry.episode_id[:ID_DIGITS]} {show_task(entry)}"
    if event.summary is not None:
        paid = f"return {show_return(event.summary)}"
        return f"{'':24}  {name}  closed, {show_state(entry)}, {event.summary.steps} steps, {paid}"
    if step is None:
        labels = show_labels(entry)
        return f"{show_time(entry.created_at)}  {name}  opened{f'  {labels}' if labels else ''}"
    arguments = clean_line(json.dumps(step.arguments, ensure_ascii=False))
    if len(arguments) > MAX_ARGUMENT_CHARACTERS:
        arguments = f"{arguments[:MAX_ARGUMENT_CHARACTERS]}..."
    return (
        f"{show_time(step.started_at)}  {name}  step {step.number} {clean_line(step.tool)} "
        f"{step.status.value}, {show_paid(step)}  {arguments}"
    )


def _print_played(episode_id: str, played: "Step | EpisodeSummary | None") -> None:
    from ors_server.model.recording import STEP, SUMMARY
    from ors_server.model.trajectory import Step

    if isinstance(played, Step):
        _say_event("step", episode_id, step=STEP.as_json(played))
    elif played is not None:
        _say_event("closed", episode_id, summary=SUMMARY.as_json(played))


def _say_event(name: str, episode_id: str, **about: Any) -> None:
    say(json.dumps({"event": name, "episode_id": episode_id, **about}))
