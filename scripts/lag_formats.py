"""Hostile data files of each format, for `lag.py`.

A format makes, for a size in bytes, a set of files for each kind of content: their paths and bytes.
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


def hostile_lines(size: int) -> dict[str, bytes]:
    """Return files of JSON lines of about a size."""
    wide = [f"c{number}" for number in range(size // 8)]
    repeated = b"{" + b",".join(b'"n%d": 1' % (number % 997) for number in range(size // 10)) + b"}\n"
    holes = [
        {"question": "q", **dict.fromkeys(wide[:100], 1)} for _ in range(max(1, min(200, size // 1_000)))
    ]
    return {
        "many rows": json_lines(many(size)),
        "one long row": json_lines([{"question": "q" * (size - 64), "answer": "1"}]),
        "one row of controls": json_lines([{"question": "\x01" * (size // 6 - 64), "answer": "1"}]),
        "deep": b'{"question": ' + b"[" * (size // 2) + b"]" * (size // 2) + b', "answer": 1}\n',
        "repeated names": repeated,
        "wide row": json_lines([dict.fromkeys(wide, 1)]),
        "no answers": json_lines(holes),
        "no line ends": b'{"question": "' + b"\\u0000" * (size // 6),
        "digits": b'{"question": ' + b"9" * size + b"}\n",
    }


def documents(size: int) -> dict[str, bytes]:
    """Return files that are one JSON value."""
    lines, rows = hostile_lines(size), many(size)
    columns = {name: [row[name] for row in rows] for name in ("question", "answer")}
    by_index = {
        name: {str(number): value for number, value in enumerate(column)} for name, column in columns.items()
    }
    split = {"columns": ["question", "answer"], "data": [list(row.values()) for row in rows]}
    wide = {f"c{number}": [1] for number in range(size // 12)}
    return {
        "many rows": json.dumps(rows).encode(),
        "columns": json.dumps(columns).encode(),
        "columns by index": json.dumps(by_index).encode(),
        "columns and data": json.dumps(split).encode(),
        "rows by id": json.dumps({f"r{number}": row for number, row in enumerate(rows)}).encode(),
        "many columns": json.dumps(wide).encode(),
        **{
            kind: b"[" + lines[kind].strip() + b"]"
            for kind in (
                "deep",
                "repeated names",
                "wide row",
                "digits",
                "one long row",
                "one row of controls",
            )
        },
    }


def tables(size: int, separator: str) -> dict[str, bytes]:
    """Return files of separated values."""
    wide = ["question", "answer", *(f"c{number}" for number in range(size // 8))]
    rows = {
        "many rows": [
            ["question", "answer"],
            *([f"q{number}", "1"] for number in range(min(MAX_ROWS, size // 8))),
        ],
        "wide header": [wide, *([["1"]] * 1_000)],
        "repeated names": [[*wide, "c7"], ["1"] * 3],
        "one long row": [["question", "answer"], ["q" * (size - 64), "1"]],
        "one row of controls": [["question", "answer"], ["\x01" * (size - 64), "1"]],
        "one row of quotes": [["question", "answer"], ['"' * (size // 2 - 64), "1"]],
    }
    texts = {kind: table(values, separator) for kind, values in rows.items()}
    return {**texts, "an open quote": texts["many rows"][: size // 2] + b'"' + b"q\n" * (size // 4)}


def parquets(size: int) -> dict[str, bytes]:
    """Return parquet files."""
    wide = {"question": "q", "answer": "1", **{f"c{number}": 1 for number in range(min(size // 200, 20_000))}}
    return {
        "many rows": parquet(many(size)),
        "one long row": parquet([{"question": "q" * (size - 64), "answer": "1"}]),
        "one row of controls": parquet([{"question": "\x01" * (size // 6 - 64), "answer": "1"}]),
        "repeated value": parquet(
            [{"question": "q" * 1_000, "answer": "1"}] * max(1, min(MAX_ROWS, size // 50))
        ),
        "many columns": parquet([wide]),
        "no parquet": b"PAR1" + b"\xff" * (size - 12) + b"\xff\xff\xff\x7fPAR1",
    }


def packed(contents: Mapping[str, bytes], size: int) -> dict[str, bytes]:
    """Return contents packed, and one that is as small as it may be for what it unpacks to."""
    bomb = gzip.compress(b" " * 1_000_000 + b"\n", 9)
    cut = gzip.compress(contents["many rows"], 1)
    return {
        **{kind: gzip.compress(content, 1) for kind, content in contents.items()},
        "bomb": bomb * max(1, size // len(bomb)),
        "cut": cut[: len(cut) // 2],
    }


def as_file(name: str, contents: Mapping[str, bytes]) -> dict[str, Files]:
    """Return each content as the only file."""
    return {kind: {name: content} for kind, content in contents.items()}


def folders(size: int) -> dict[str, Files]:
    """Return folders of JSON files, of one task each."""
    count = min(MAX_FILES, max(2, size // 100))
    row = json.dumps({"question": "q" * (size // count), "answer": "1"}).encode()
    small = json.dumps(many(1)[0]).encode()
    return {
        "many files": {f"tasks/{number}.json": row for number in range(count)},
        **{
            kind: {"tasks/0.json": small, "tasks/1.json": hostile_lines(size)[kind]}
            for kind in (
                "one long row",
                "one row of controls",
                "deep",
                "repeated names",
                "wide row",
                "digits",
            )
        },
    }


def shards(size: int) -> dict[str, Files]:
    """Return data in several files, of which the last is hostile."""
    lines = hostile_lines(size)
    whole = json_lines(many(size // SHARDS))
    return {
        kind: {
            **{f"train-{number}-of-{SHARDS}.jsonl": whole for number in range(SHARDS - 1)},
            f"train-{SHARDS - 1}-of-{SHARDS}.jsonl": lines[kind],
        }
        for kind in lines
    }


TEXTS: Mapping[str, Callable[[int], dict[str, bytes]]] = {
    ".jsonl": hostile_lines,
    ".ndjson": hostile_lines,
    ".json": documents,
    ".csv": lambda size: tables(size, ","),
    ".tsv": lambda size: tables(size, "\t"),
}


def make_files(ending: str, size: int) -> dict[str, Files]:
    """Return the files of a single-file format by its ending."""
    name = f"train{ending}"
    if ending == ".parquet":
        return as_file(name, parquets(size))
    contents = TEXTS[ending.removesuffix(".gz")](size)
    return as_file(name, packed(contents, size) if ending.endswith(".gz") else contents)


ENDINGS = (*TEXTS, *(f"{ending}.gz" for ending in TEXTS), ".parquet")
FORMATS: Mapping[str, tuple[str, Callable[[int], dict[str, Files]]]] = {
    **{f"*{ending}": (f"train{ending}", partial(make_files, ending)) for ending in ENDINGS},
    "folder of *.json": ("tasks", folders),
    "shards of *.jsonl": ("train-*.jsonl", shards),
}
"""What a declaration names as its data, and the files for a size, by the format's name in the table."""
