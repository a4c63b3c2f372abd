"""Formats that are folders of documents: ATIF and Inspect's logs, for the viewers of other projects."""

import json
from collections.abc import AsyncIterable, Awaitable, Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import IO

from ors_server.export.atif import atif_document
from ors_server.export.chat import ConversationOptions
from ors_server.export.episodes import Episode, ExportCounts, LeftOutError
from ors_server.export.inspect_log import InspectLog, log_name
from ors_server.export.media import ImageFolder
from ors_server.files.atomic_file import atomic_file

DOCUMENT = "trajectory.json"
"""Name of each ATIF document, in a folder named by its episode; `harbor view` looks for it."""

FolderWriter = Callable[[AsyncIterable[Episode], Path, ConversationOptions, ExportCounts], Awaitable[None]]


async def write_atif(
    episodes: AsyncIterable[Episode], folder: Path, options: ConversationOptions, counts: ExportCounts
) -> None:
    """Write each episode as `EPISODE/trajectory.json`, with its images in the same folder."""
    async for record, steps in episodes:
        counts.episodes += 1
        episode_folder = folder / record.origin.episode_id
        try:
            document = atif_document(record, steps, options.offered, ImageFolder(episode_folder).keep)
        except LeftOutError as reason:
            counts.left_out[str(reason)] += 1
            continue
        with _new_file(episode_folder / DOCUMENT) as sink:
            sink.write(json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1).encode())
        counts.rows += 1
        counts.steps += len(steps)


async def write_inspect(
    episodes: AsyncIterable[Episode], folder: Path, options: ConversationOptions, counts: ExportCounts
) -> None:
    """Write a log for each environment and run; files appear under their names when all are complete."""
    logs: dict[tuple[str, str | None], InspectLog] = {}
    with ExitStack() as files:
        async for record, steps in episodes:
            counts.episodes += 1
            origin = record.origin
            key = origin.environment, origin.labels.get("run")
            log = logs.get(key)
            if log is None:
                path = folder / log_name(*key, origin.created_at)
                log = logs[key] = InspectLog(files.enter_context(_new_file(path)), *key)
            log.add(record, steps, options)
            counts.rows += 1
            counts.steps += len(steps)
        for log in logs.values():
            log.finish()


@contextmanager
def _new_file(path: Path) -> Generator[IO[bytes]]:
    """Open a file that appears when it is complete, in a folder that is made for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as sink:
        yield sink


FOLDER_FORMATS: Mapping[str, FolderWriter] = MappingProxyType({"atif": write_atif, "inspect": write_inspect})
"""Formats by name."""
