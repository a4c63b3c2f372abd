"""Exports of episodes of every kind, as files for their consumers."""

from pathlib import Path

import anyio

from ors_server.export.chat import ConversationOptions
from ors_server.export.episodes import ExportCounts
from ors_server.export.formats import FORMATS, FormatOptions, export_rows, make_format
from ors_server.export.offered_tools import ANY
from ors_server.export.preferences import Pairing, export_preferences
from ors_server.export.verl import VerlOptions
from ors_server.export.writing import write_lines, write_table
from ors_server.files.atomic_file import atomic_file
from ors_server.model.wire import ToolSpec
from ors_server.store.episode_filter import ALL
from ors_server.store.memory import MemoryStore
from tests.fixtures.recorded_episodes import of_every_kind, write

NUMBER = {"type": "number"}
TOOLS = [
    ToolSpec(
        name="add",
        description="Adds.",
        input_schema={"type": "object", "properties": {"a": NUMBER, "b": NUMBER}, "required": ["a", "b"]},
    ),
    ToolSpec(
        name="submit",
        description="Ends.",
        input_schema={"type": "object", "properties": {"answer": {"type": "string"}}},
    ),
]
OPTIONS = FormatOptions(ConversationOptions({ANY: TOOLS}), verl=VerlOptions("answer"))


def write_exports(folder: Path) -> None:
    """Writes a file in every format: `FORMAT.jsonl` or `FORMAT.parquet`, and `preferences.jsonl`."""
    anyio.run(_write_exports, folder)


async def _write_exports(folder: Path) -> None:
    store = MemoryStore()
    await write(store, of_every_kind())
    for name in FORMATS:
        form = make_format(name, OPTIONS)
        rows = export_rows(store.stream(), form, ExportCounts())
        if form.columns is None:
            with atomic_file(folder / f"{name}.jsonl") as sink:
                await write_lines(rows, sink)
        else:
            with atomic_file(folder / f"{name}.parquet") as sink:
                await write_table(rows, sink, form.columns)
    with atomic_file(folder / "preferences.jsonl") as sink:
        await write_lines(export_preferences(store, ALL, Pairing(), OPTIONS.chat, ExportCounts()), sink)
