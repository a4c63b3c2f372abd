"""Parquet files, written in groups of rows so that memory does not grow with the file.

pyarrow is an extra; nothing else of the package imports it.
"""

import importlib
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import IO, Any, Self

from ors_server.installation import install_hint
from ors_server.model.errors import ClientError
from ors_server.model.trajectory import FIGURES, STEP_COUNTS, STEP_MAXIMA
from ors_server.model.wire import JSONObject

ROWS = 1024
"""Maximum number of rows of one group."""
WEIGHT = 8 << 20
"""Characters, roughly, at which a group is written before it has that many rows."""


class ExtraMissingError(ClientError):
    """A package is missing that an extra installs."""

    code = "extra_missing"


def load_pyarrow() -> Any:
    """Import pyarrow; raises `ExtraMissingError` if it is not installed."""
    try:
        importlib.import_module("pyarrow.parquet")
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise ExtraMissingError(
            f"parquet files need pyarrow: install the extra with {install_hint('export')}"
        ) from error


class TableWriter:
    """Writes rows into one parquet file; the end of a with statement completes it."""

    def __init__(self, sink: IO[bytes], columns: Mapping[str, str]) -> None:
        """Begin a file in `sink`, which stays open; raises `ExtraMissingError` without pyarrow."""
        self._arrow = load_pyarrow()
        fields = [(name, type_of(kind, self._arrow)) for name, kind in columns.items()]
        self._schema = self._arrow.schema(fields)
        self._writer = self._arrow.parquet.ParquetWriter(sink, self._schema, compression="zstd")
        self._rows: list[JSONObject] = []
        self._weight = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Complete the file, or leave it as it is if something went wrong."""
        # A partial group of rows must not make a failed export look complete.
        if error is None:
            self._flush()
        self._writer.close()

    def write(self, row: JSONObject) -> None:
        """Add one row: values by column; a missing column is null."""
        self._rows.append(row)
        self._weight += weigh(row)
        # By size, too: a thousand rows with images or long outputs would not fit in memory.
        if len(self._rows) >= ROWS or self._weight >= WEIGHT:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(self._arrow.Table.from_pylist(self._rows, schema=self._schema))
        self._rows, self._weight = [], 0


def weigh(value: object) -> int:
    """Return roughly how many characters a JSON value has."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(map(weigh, value.values()))  # pyright: ignore[reportUnknownArgumentType]  # JSON
    if isinstance(value, Sequence):
        return sum(map(weigh, value))  # pyright: ignore[reportUnknownArgumentType]  # JSON
    return 8


def type_of(name: str, arrow: Any) -> Any:
    """Return an Arrow type by its name, such as `text` or `time` (UTC, microseconds)."""
    text, whole = arrow.string(), arrow.int64()
    call = arrow.struct([("name", text), ("arguments", text)])
    calls = arrow.list_(arrow.struct([("id", text), ("type", text), ("function", call)]))
    message = [("role", text), ("content", text)]
    turn = [*message, ("tool_calls", calls), ("tool_call_id", text), ("name", text)]
    truth, number = arrow.bool_(), arrow.float64()
    words = ("episode_id", "environment", "split", "task_hash", "image", "stop_reason", "task_spec", "labels")
    extra = [("index", whole), ("seed", whole), ("is_played_out", truth), *((word, text) for word in words)]
    return {
        "text": text,
        "number": number,
        "whole": whole,
        "truth": truth,
        "time": arrow.timestamp("us", tz="UTC"),
        "texts": arrow.list_(text),
        "numbers": arrow.list_(number),
        "mask": arrow.list_(arrow.int8()),
        "prompt": arrow.list_(arrow.struct(message)),
        "messages": arrow.list_(arrow.struct(turn)),
        "reward_model": arrow.struct([("style", text), ("ground_truth", text)]),
        "extra_info": arrow.struct(extra),
    }[name]


VERL = {
    "data_source": "text",
    "prompt": "prompt",
    "ability": "text",
    "reward_model": "reward_model",
    "extra_info": "extra_info",
    "messages": "messages",
    "train_mask": "mask",
    "tools": "text",
    "responses": "texts",
    "reward": "number",
    "rewards": "numbers",
    "statuses": "texts",
    "components": "text",
}
EPISODES = {
    "episode_id": "text",
    "session_id": "text",
    "environment": "text",
    "environment_version": "text",
    "split": "text",
    "index": "whole",
    "task_hash": "text",
    "image": "text",
    "task_spec": "text",
    "seed": "whole",
    "labels": "text",
    "phase": "text",
    "stop_reason": "text",
    "is_played_out": "truth",
    "is_closed": "truth",
    "steps": "whole",
    "return": "number",
    "withheld": "number",
    "penalty_sum": "number",
    "rewards": "numbers",
    **dict.fromkeys(STEP_COUNTS, "whole"),
    **{name: "number" for name in STEP_MAXIMA if FIGURES[name].is_column},
    "created_at": "time",
    "finished_at": "time",
    "prompt": "text",
}
STEPS = {
    "episode_id": "text",
    "number": "whole",
    "call_id": "text",
    "tool": "text",
    "arguments": "text",
    "status": "text",
    "result": "text",
    "reward": "number",
    "earned": "number",
    "components": "text",
    "finished": "truth",
    "error_code": "text",
    "metadata": "text",
    "started_at": "time",
    "duration": "number",
}
