"""Writes rows to a file: as lines of JSON, or as parquet; `OSError` if they cannot be written."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import IO

from ors_server.export.formats import as_line
from ors_server.export.tables import TableWriter
from ors_server.model.wire import JSONObject


async def write_lines(rows: AsyncGenerator[JSONObject, None], sink: IO[bytes]) -> None:
    """Write rows as lines of JSON, each as soon as it comes, and close `rows`."""
    async with aclosing(rows):
        async for row in rows:
            sink.write(as_line(row).encode())


async def write_table(
    rows: AsyncGenerator[JSONObject, None], sink: IO[bytes], columns: Mapping[str, str]
) -> None:
    """Write rows as a parquet file, a group of rows at a time, and close `rows`; needs pyarrow."""
    async with aclosing(rows):
        with TableWriter(sink, columns) as table:
            async for row in rows:
                table.write(row)
