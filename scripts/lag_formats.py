"""Hostile data files of each format, for `lag.py`.

A format has, for a size in bytes, a maker of files for each kind of content: of their paths and bytes.
"""

import csv
import gzip
import io
import json
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

Files = Mapping[str, bytes]
Contents = dict[str, Callable[[], bytes]]
FileMakers = dict[str, Callable[[], Files]]
SHARDS = 3
MAX_FILES = 200
MAX_ROWS = 20_000


def json_lines(rows: list[Any]) -> bytes:
    """Return rows as JSON lines."""
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def table(rows: list[list[str]], separator: str) -> bytes:
    """Return rows as separated values."""
    text = io.StringIO()
    csv.writer(text, delimiter=separator).writerows(rows)
    return text.getvalue().encode()


def parquet(rows: list[dict[str, Any]]) -> bytes:
    """Return rows as a parquet file."""
    pa: Any = import_module("pyarrow")  # an extra
    files: Any = import_module("pyarrow.parquet")
    stream = io.BytesIO()
    files.write_table(pa.Table.from_pylist(rows), stream)
    return stream.getvalue()


def many(size: int) -> list[dict[str, Any]]:
    """Return many short rows, which become longer where they would be too many to wait for."""
    count = max(1, min(MAX_ROWS, size // 44))
    length = max(0, size // count - 44)
    return [
        {"question": f"What is {number}?{'q' * length}", "answer": str(number)} for number in range(count)
    ]


def hostile_lines(size: int) -> Contents:
    """Return makers of files of JSON lines of about a size."""
    numbers = range(size // 10)
    return {
        "many rows": lambda: json_lines(many(size)),
        "one long row": lambda: b'{"question": "' + b"q" * (size - 64) + b'", "answer": "1"}\n',
        "one row of controls": lambda: (
            b'{"question": "' + b"\\u0001" * (size // 6 - 8) + b'", "answer": "1"}\n'
        ),
        "deep": lambda: b'{"question": ' + b"[" * (size // 2) + b"]" * (size // 2) + b', "answer": 1}\n',
        "repeated names": lambda: (
            b"{" + b",".join(b'"n%d": 1' % (number % 997) for number in numbers) + b"}\n"
        ),
        "wide row": lambda: json_lines([{f"c{number}": 1 for number in range(size // 8)}]),
        "no answers": lambda: json_lines([{"question": "q" * 900, "c": 1}] * max(1, min(200, size // 1_000))),
        "no line ends": lambda: b'{"question": "' + b"\\u0000" * (size // 6),
        "digits": lambda: b'{"question": ' + b"9" * size + b"}\n",
    }


def documents(size: int) -> Contents:
    """Return makers of files that are one JSON value."""
    lines = hostile_lines(size)
    columns = ("question", "answer")

    def by_column() -> dict[str, list[Any]]:
        rows = many(size)
        return {name: [row[name] for row in rows] for name in columns}

    def by_index() -> dict[str, dict[str, Any]]:
        return {
            name: {str(at): value for at, value in enumerate(column)} for name, column in by_column().items()
        }

    def split() -> dict[str, Any]:
        return {"columns": columns, "data": [list(row.values()) for row in many(size)]}

    def in_list(kind: str) -> bytes:
        return b"[" + lines[kind]().strip() + b"]"

    kinds = ("deep", "repeated names", "wide row", "digits", "one long row", "one row of controls")
    return {
        "many rows": lambda: json.dumps(many(size)).encode(),
        "columns": lambda: json.dumps(by_column()).encode(),
        "columns by index": lambda: json.dumps(by_index()).encode(),
        "columns and data": lambda: json.dumps(split()).encode(),
        "rows by id": lambda: json.dumps({f"r{at}": row for at, row in enumerate(many(size))}).encode(),
        "many columns": lambda: json.dumps({f"c{number}": [1] for number in range(size // 12)}).encode(),
        **{kind: partial(in_list, kind) for kind in kinds},
    }


def tables(size: int, separator: str) -> Contents:
    """Return makers of files of separated values."""
    head = ["question", "answer"]

    def wide() -> list[str]:
        return [*head, *(f"c{number}" for number in range(size // 8))]

    def many_rows() -> bytes:
        return table([head, *([row["question"], row["answer"]] for row in many(size))], separator)

    return {
        "many rows": many_rows,
        "wide header": lambda: table([wide(), *([["1"]] * 1_000)], separator),
        "repeated names": lambda: table([[*wide(), "c7"], ["1"] * 3], separator),
        "one long row": lambda: table([head, ["q" * (size - 64), "1"]], separator),
        "one row of controls": lambda: table([head, ["\x01" * (size - 64), "1"]], separator),
        "one row of quotes": lambda: table([head, ['"' * (size // 2 - 64), "1"]], separator),
        "an open quote": lambda: many_rows()[: size // 2] + b'"' + b"q\n" * (size // 4),
    }


def parquets(size: int) -> Contents:
    """Return makers of parquet files."""
    row = {"question": "q", "answer": "1"}
    wide = min(size // 200, 20_000)
    return {
        "many rows": lambda: parquet(many(size)),
        "one long row": lambda: parquet([{**row, "question": "q" * (size - 64)}]),
        "one row of controls": lambda: parquet([{**row, "question": "\x01" * (size // 6 - 64)}]),
        "repeated value": lambda: parquet(
            [{**row, "question": "q" * 1_000}] * max(1, min(MAX_ROWS, size // 50))
        ),
        "many columns": lambda: parquet([{**row, **{f"c{number}": 1 for number in range(wide)}}]),
        "no parquet": lambda: b"PAR1" + b"\xff" * (size - 12) + b"\xff\xff\xff\x7fPAR1",
    }


def packed(contents: Contents, size: int) -> Contents:
    """Return makers of packed contents, and of one that is as small as it may be for what it unpacks to."""

    def bomb() -> bytes:
        piece = gzip.compress(b" " * 1_000_000 + b"\n", 9)
        return piece * max(1, size // len(piece))

    def cut() -> bytes:
        whole = gzip.compress(contents["many rows"](), 1)
        return whole[: len(whole) // 2]

    def pack(make: Callable[[], bytes]) -> bytes:
        return gzip.compress(make(), 1)

    return {**{kind: partial(pack, make) for kind, make in contents.items()}, "bomb": bomb, "cut": cut}


def as_file(name: str, contents: Contents) -> FileMakers:
    """Return makers of each content as the only file."""

    def make_file(make: Callable[[], bytes]) -> Files:
        return {name: make()}

    return {kind: partial(make_file, make) for kind, make in contents.items()}


def folders(size: int) -> FileMakers:
    """Return makers of folders of JSON files, of one task each."""
    count = min(MAX_FILES, max(2, size // 100))
    small = json.dumps(many(1)[0]).encode()
    contents = hostile_lines(size)

    def many_files() -> Files:
        row = json.dumps({"question": "q" * (size // count), "answer": "1"}).encode()
        return {f"tasks/{number}.json": row for number in range(count)}

    def with_file(kind: str) -> Files:
        return {"tasks/0.json": small, "tasks/1.json": contents[kind]()}

    kinds = ("one long row", "one row of controls", "deep", "repeated names", "wide row", "digits")
    return {"many files": many_files, **{kind: partial(with_file, kind) for kind in kinds}}


def shards(size: int) -> FileMakers:
    """Return makers of data in several files, of which the last is hostile."""
    contents = hostile_lines(size)

    def make_shards(kind: str) -> Files:
        whole = json_lines(many(size // SHARDS))
        first = {f"train-{number}-of-{SHARDS}.jsonl": whole for number in range(SHARDS - 1)}
        return {**first, f"train-{SHARDS - 1}-of-{SHARDS}.jsonl": contents[kind]()}

    return {kind: partial(make_shards, kind) for kind in contents}


TEXTS: Mapping[str, Callable[[int], Contents]] = {
    ".jsonl": hostile_lines,
    ".ndjson": hostile_lines,
    ".json": documents,
    ".csv": lambda size: tables(size, ","),
    ".tsv": lambda size: tables(size, "\t"),
}


def make_files(ending: str, size: int) -> FileMakers:
    """Return makers of the files of a single-file format by its ending."""
    name = f"train{ending}"
    if ending == ".parquet":
        return as_file(name, parquets(size))
    contents = TEXTS[ending.removesuffix(".gz")](size)
    return as_file(name, packed(contents, size) if ending.endswith(".gz") else contents)


ENDINGS = (*TEXTS, *(f"{ending}.gz" for ending in TEXTS), ".parquet")
FORMATS: Mapping[str, tuple[str, Callable[[int], FileMakers]]] = {
    **{f"*{ending}": (f"train{ending}", partial(make_files, ending)) for ending in ENDINGS},
    "folder of *.json": ("tasks", folders),
    "shards of *.jsonl": ("train-*.jsonl", shards),
}
"""What a declaration names as its data, and the makers for a size, by the format's name in the table."""
