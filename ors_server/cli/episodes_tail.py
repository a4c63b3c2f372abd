"""`ors-server episodes tail`: one episode's steps as they come, or all that happens."""

import json
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ors_server.cli.command_output import say
from ors_server.cli.episodes_list import (
    SHOWN_DIGITS,
    show_labels,
    show_number,
    show_standing,
    show_task,
)
from ors_server.cli.episodes_show import print_lines, show_paid, show_time, step_lines, summary_lines
from ors_server.cli.terminal import clean_line
from ors_server.errors import EpisodeNotFoundError

if TYPE_CHECKING:
    from datetime import datetime

    from ors_server.cli.episodes_options import TailOptions
    from ors_server.cli.episodes_source import Source
    from ors_server.clock import Clock
    from ors_server.trajectory import EpisodeSummary, Step
    from ors_server.transports.control_episodes import EpisodeEntry, EpisodeSelection

PAUSE = 0.5
"""Seconds between two looks at all that happens."""
BATCH = 100
"""Steps that are held at once."""
SHOWN_ARGUMENTS = 60
"""Characters of a step's arguments on its one line."""


@dataclass(frozen=True, slots=True)
class Opened:
    """An episode that began."""

    entry: "EpisodeEntry"


@dataclass(frozen=True, slots=True)
class Stepped:
    """A step of an episode."""

    entry: "EpisodeEntry"
    step: "Step"


@dataclass(frozen=True, slots=True)
class Closed:
    """An episode whose session is gone."""

    entry: "EpisodeEntry"
    summary: "EpisodeSummary"
    """The final figures."""


Happening: TypeAlias = Opened | Stepped | Closed


async def tail_one(source: "Source", options: "TailOptions") -> None:
    """Print an episode's steps until its record is closed.

    Args:
        source: Where to look.
        options: What the command was told; it names an episode.
    """
    from ors_server.recording import STEP, SUMMARY
    from ors_server.trajectory import Step

    record = await source.find(options.episode or "")
    episode_id = record.origin.episode_id
    async with aclosing(source.follow(episode_id, options.start)) as told:
        async for each in told:
            if isinstance(each, Step):
                if options.json:
                    _say_event("step", episode_id, step=STEP.as_json(each))
                else:
                    print_lines([*step_lines(each, whole=options.full), ("", "")])
            elif options.json:
                _say_event("closed", episode_id, summary=SUMMARY.as_json(each))
            else:
                print_lines(summary_lines(each, is_closed=True))


async def tail_all(
    source: "Source", wanted: "EpisodeSelection", options: "TailOptions", clock: "Clock"
) -> None:
    """Print all that happens from now on, until somebody stops it.

    Args:
        source: Where to look.
        wanted: Episodes that count.
        options: What the command was told.
        clock: Measures the pauses.
    """
    watch = Watch(source, wanted)
    await watch.begin()
    while True:
        async with aclosing(watch.look()) as happenings:
            async for happening in happenings:
                if options.json:
                    _say_happening(happening)
                else:
                    print_lines([(line, "") for line in happening_lines(happening)])
        await clock.sleep(PAUSE)


class Watch:
    """Finds out what has happened since somebody looked last.

    What is remembered is one number per live episode, and the ids of those that were made in the latest
    instant.
    """

    def __init__(self, source: "Source", wanted: "EpisodeSelection") -> None:
        """Watch a record.

        Args:
            source: Where to look.
            wanted: Episodes that count.
        """
        self._source = source
        self._wanted = wanted
        self._seen: dict[str, int] = {}
        """Steps that were told, by live episode."""
        self._latest: datetime | None = None
        self._of_latest: frozenset[str] = frozenset()

    async def begin(self) -> None:
        """Take all that is there for known."""
        self._advance([newest async for newest in self._source.entries(self._wanted, limit=1)])
        self._advance(await self._fresh())
        live = await self._live()
        self._seen = {entry.episode_id: entry.episode.steps for entry in live}

    async def look(self) -> AsyncGenerator[Happening, None]:
        """Give what has happened since the last look: episodes in the order in which they were made."""
        fresh = [entry for entry in await self._fresh() if entry.episode_id not in self._of_latest]
        live = await self._live()
        now = {entry.episode_id: entry for entry in (*fresh, *live)}
        self._advance(fresh)
        for entry in sorted(now.values(), key=lambda entry: (entry.created_at, entry.episode_id)):
            if entry.episode_id not in self._seen:
                self._seen[entry.episode_id] = 0
                yield Opened(entry)
            async for happening in self._steps_of(entry):
                yield happening
        living = {entry.episode_id for entry in live}
        for episode_id in [each for each in self._seen if each not in living]:
            async for happening in self._end_of(episode_id):
                yield happening

    async def _steps_of(self, entry: "EpisodeEntry") -> AsyncGenerator[Happening, None]:
        seen = self._seen[entry.episode_id]
        while seen < entry.episode.steps:
            steps = await self._source.steps(entry.episode_id, seen, seen + BATCH)
            if not steps:
                break
            for step in steps:
                yield Stepped(entry, step)
            seen += len(steps)
            self._seen[entry.episode_id] = seen

    async def _end_of(self, episode_id: str) -> AsyncGenerator[Happening, None]:
        from ors_server.transports.control_episodes import EpisodeEntry

        try:
            record = await self._source.find(episode_id)
        except EpisodeNotFoundError:
            del self._seen[episode_id]  # forgotten already, so that nothing can be told of it
            return
        if record.is_closed:  # otherwise it was made after the live ones were asked for
            entry = EpisodeEntry.of(record)
            async for happening in self._steps_of(entry):
                yield happening
            del self._seen[episode_id]
            yield Closed(entry, record.summary)

    async def _fresh(self) -> "Sequence[EpisodeEntry]":
        wanted = self._wanted.model_copy(update={"since": self._latest})
        return [entry async for entry in self._source.entries(wanted, newest_first=False)]

    async def _live(self) -> "Sequence[EpisodeEntry]":
        wanted = self._wanted.model_copy(update={"closed": False})
        return [entry async for entry in self._source.entries(wanted, newest_first=False)]

    def _advance(self, entries: "Sequence[EpisodeEntry]") -> None:
        if not entries:
            return
        latest = max(entry.created_at for entry in entries)
        same = frozenset(entry.episode_id for entry in entries if entry.created_at == latest)
        self._of_latest = same if latest != self._latest else self._of_latest | same
        self._latest = latest


def happening_lines(happening: Happening) -> Iterator[str]:
    """Say on one line what happened.

    Args:
        happening: What happened.
    """
    entry = happening.entry
    name = f"{entry.episode_id[:SHOWN_DIGITS]} {show_task(entry)}"
    match happening:
        case Opened():
            labels = show_labels(entry)
            yield f"{show_time(entry.created_at)}  {name}  opened{f'  {labels}' if labels else ''}"
        case Stepped(step=step):
            arguments = clean_line(json.dumps(step.arguments, ensure_ascii=False))
            if len(arguments) > SHOWN_ARGUMENTS:
                arguments = f"{arguments[:SHOWN_ARGUMENTS]}..."
            yield (
                f"{show_time(step.started_at)}  {name}  step {step.number} {clean_line(step.tool)} "
                f"{step.status.value}, {show_paid(step)}  {arguments}"
            )
        case Closed(summary=figures):
            paid = f"return {show_number(figures.episode_return)}"
            yield (f"{'':24}  {name}  closed, {show_standing(entry)}, {figures.steps} steps, {paid}")


def _say_happening(happening: Happening) -> None:
    from ors_server.recording import STEP, SUMMARY

    episode_id = happening.entry.episode_id
    match happening:
        case Opened(entry=entry):
            _say_event("opened", episode_id, episode=entry.model_dump(mode="json", by_alias=True))
        case Stepped(step=step):
            _say_event("step", episode_id, step=STEP.as_json(step))
        case Closed(summary=summary):
            _say_event("closed", episode_id, summary=SUMMARY.as_json(summary))


def _say_event(name: str, episode_id: str, **about: Any) -> None:
    say(json.dumps({"event": name, "episode_id": episode_id, **about}))
