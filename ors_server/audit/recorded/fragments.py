"""Fragments of what agents wrote (lines, runs of words, calls) as numbers, and how many tasks share each.

Which fragments of an episode are kept depends on the fragments' numbers alone: the least numbers of lines and
calls, and every fourth run. So two episodes with the same fragment keep or drop it together, however long
their other texts are; a random choice would lose most shared fragments.
"""

import heapq
import json
import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from ors_server.model.json_texts import number_of, texts_of
from ors_server.model.trajectory import Step

RUN = 5
"""Words of a run."""
MAX_LINES = 128
"""Maximum number of lines and sentences kept of one episode: those with the least numbers."""
MAX_RUNS = 128
"""Maximum number of runs of words kept of one episode."""
MAX_CALLS = 64
"""Maximum number of calls kept of one episode."""
_RUN_OF = 4
"""One of this many runs is kept, for texts of any length."""
MAX_SHOWN_CHARACTERS = 120
"""Characters of a fragment that a finding shows."""
_MAX_TEXT = 20_000
"""Characters of one argument that are read: half from its beginning, half from its end."""
_MIN_LINE = 8
_MAX_LINE = 400
_PRUNED_EVERY = 1000
_WORD = re.compile(r"\w+|[^\w\s]")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n")


@lru_cache(maxsize=50_000)
def clip(text: str) -> str:
    """Return a text without its middle, where it is very long."""
    half = _MAX_TEXT // 2
    return text if len(text) <= _MAX_TEXT else f"{text[:half]}\n{text[-half:]}"


def words_of(text: str) -> list[str]:
    """Return the words and punctuation marks of a text, in lower case."""
    return _WORD.findall(text.casefold())


def call_text(step: Step) -> str:
    """Write a call as one line."""
    return f"{step.tool} {json.dumps(step.arguments, sort_keys=True, ensure_ascii=False)}"


@dataclass(frozen=True, slots=True)
class EpisodeFragments:
    """The kept fragments of one episode, by number."""

    calls: "array[int]"
    texts: "array[int]"


@dataclass(slots=True)
class _Entry:
    text: str
    count: int
    missed: int
    last_task: int


@dataclass
class FragmentCounts:
    """Counts the fragments of all episodes, and forgets the rare ones.

    Lossy counting (Manku and Motwani 2002, "Approximate Frequency Counts over Data Streams"): fragments of at
    least one episode in a thousand stay, however many episodes there are.
    """

    _entries: dict[int, _Entry] = field(default_factory=dict[int, _Entry])
    _episodes: int = 0

    def add(self, task: int, steps: Sequence[Step]) -> EpisodeFragments:
        """Count the fragments of an episode, and return those that are kept."""
        calls = _least({number_of(text): text for text in map(call_text, steps)}, MAX_CALLS)
        lines: dict[int, str] = {}
        runs: dict[int, str] = {}
        for step in steps:
            for text in texts_of(step.arguments):
                _collect(clip(text), lines, runs)
        texts = _least(lines, MAX_LINES) | _least(runs, MAX_RUNS)
        for number, text in (calls | texts).items():
            self._count(number, text, task)
        self._episodes += 1
        if self._episodes % _PRUNED_EVERY == 0:
            self._prune()
        return EpisodeFragments(array("Q", sorted(calls)), array("Q", sorted(texts)))

    def common(self, least: int) -> dict[int, str]:
        """Return the fragments that may be in at least `least` tasks' episodes, with their texts."""
        return {
            number: entry.text
            for number, entry in self._entries.items()
            if entry.count + entry.missed >= least
        }

    def _count(self, number: int, text: str, task: int) -> None:
        entry = self._entries.get(number)
        if entry is None:
            # Where an entry may have been pruned before, `missed` is the greatest count that was lost with
            # it.
            missed = self._episodes // _PRUNED_EVERY
            self._entries[number] = _Entry(text[:MAX_SHOWN_CHARACTERS], 1, missed, task)
        # Tasks in a row are counted, not episodes: a fragment of one task is about the task, not a trick.
        elif entry.last_task != task:
            entry.count += 1
            entry.last_task = task

    def _prune(self) -> None:
        least = self._episodes // _PRUNED_EVERY
        rare = [number for number, entry in self._entries.items() if entry.count + entry.missed <= least]
        for number in rare:
            del self._entries[number]


def _collect(text: str, lines: dict[int, str], runs: dict[int, str]) -> None:
    for line in _SENTENCE.split(text):
        plain = " ".join(line.split())
        if _MIN_LINE <= len(plain) <= _MAX_LINE:
            lines[number_of(plain.casefold())] = plain
    words = words_of(text)
    for at in range(len(words) - RUN + 1):
        run = " ".join(words[at : at + RUN])
        number = number_of(f"run {run}")
        # By the number, and not by the position, so that every episode keeps or drops the same runs.
        if number % _RUN_OF == 0:
            runs[number] = run


def _least(fragments: Mapping[int, str], limit: int) -> dict[int, str]:
    chosen: Iterable[int] = fragments if len(fragments) <= limit else heapq.nsmallest(limit, fragments)
    return {number: fragments[number] for number in chosen}
