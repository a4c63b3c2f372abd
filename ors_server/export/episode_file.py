"""Reads the `plain` format: one episode a line, `{"record": ..., "steps": [...]}`.

One line is in memory at a time. Every function raises `RecordError` for a line that is not an episode, and
`OSError` for a file that cannot be read.
"""

import json
from collections.abc import Generator, Iterable
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

from ors_server.export.wide_integers import KEY, restore
from ors_server.model.errors import RecordError
from ors_server.model.recording import RECORD, STEP
from ors_server.model.trajectory import EpisodeRecord, Step, complete_summary

Episode: TypeAlias = tuple[EpisodeRecord, tuple[Step, ...]]
"""An episode and its steps, in order."""


def read_episode(line: str | bytes, where: str = "the line") -> Episode:
    """Read one episode; `where` names the line in errors, for instance `line 7`."""
    parts = _parse(line, where)
    try:
        restore(parts, parts.get(KEY) or ())
        record = RECORD.of_json(parts["record"])
        steps = tuple(STEP.of_json(step) for step in parts["steps"])
    except RecordError as error:
        raise RecordError(f"{where}: {error}") from error
    for place, step in enumerate(steps, 1):
        if step.number != place:
            raise RecordError(
                f"{where}: step {place} has the number {step.number}; steps count from 1, in order"
            )
    return replace(record, summary=complete_summary(record.summary, steps)), steps


def read_episodes(lines: Iterable[bytes]) -> Generator[Episode, None, None]:
    """Read episodes, one at a time; blank lines are skipped."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield read_episode(line, f"line {number}")


class EpisodeFile:
    """A file of episodes that can be read more than once, whole or at known offsets."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def episodes(self) -> Generator[Episode, None, None]:
        """Read all episodes."""
        with self.path.open("rb") as file:
            yield from read_episodes(file)

    def places(self) -> Generator[tuple[int, Episode], None, None]:
        """Read all episodes with the byte offset of each, for `at`."""
        with self.path.open("rb") as file:
            place = 0
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield place, read_episode(line, f"line {number}")
                place += len(line)

    def at(self, places: Iterable[int]) -> Generator[Episode, None, None]:
        """Read the episodes at byte offsets that `places` returned, in any order."""
        with self.path.open("rb") as file:
            yield from (_read_at(file, place) for place in places)


def _read_at(file: IO[bytes], place: int) -> Episode:
    file.seek(place)
    return read_episode(file.readline(), f"the line at byte {place}")


def _parse(line: str | bytes, where: str) -> dict[str, Any]:
    try:
        parts: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{where}: expected a JSON object, and it cannot be read: {error}") from error
    known = cast("dict[str, Any]", parts) if isinstance(parts, dict) else {}
    if "record" in known and isinstance(known.get("steps"), list):
        return known
    raise RecordError(f'{where}: expected an episode, an object with "record" and "steps"')
