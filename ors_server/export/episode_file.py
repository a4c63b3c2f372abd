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
    for number, step in enumerate(steps, 1):
        if step.number != number:
            raise RecordError(
                f"{where}: step {number} has the number {step.number}; steps count from 1, in order"
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

    def offsets(self) -> Generator[tuple[int, Episode], None, None]:
        """Read all episodes with the byte offset of each, for `at`."""
        with self.path.open("rb") as file:
            offset = 0
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield offset, read_episode(line, f"line {number}")
                offset += len(line)

    def at(self, offsets: Iterable[int]) -> Generator[Episode, None, None]:
        """Read the episodes at byte offsets that `offsets` returned, in any order."""
        with self.path.open("rb") as file:
            yield from (_read_at(file, offset) for offset in offsets)


def _read_at(file: IO[bytes], offset: int) -> Episode:
    file.seek(offset)
    return read_episode(file.readline(), f"the line at byte {offset}")


def _parse(line: str | bytes, where: str) -> dict[str, Any]:
    try:
        parts: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{where}: expected a JSON object, and it cannot be read: {error}") from error
    episode = cast("dict[str, Any]", parts) if isinstance(parts, dict) else {}
    if "record" in episode and isinstance(episode.get("steps"), list):
        return episode
    raise RecordError(f'{where}: expected an episode, an object with "record" and "steps"')
