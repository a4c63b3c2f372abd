"""Prints how late a server answers others while it reads hostile input, and how much memory that takes.

A process of its own asks `/health` of a real server every 50 ms and reports the longest time that an answer
took. Meanwhile the server checks arguments by a schema with each keyword of JSON Schema, reads answers of
each kind of far side, and loads data files of each format (with --reload), at four sizes. A cell has the
worst of several inputs: the longest answer, the processor time that the server took until it (which is what
a quiet machine would show), and the most memory.

A cell that is above the limit by its processor time is measured again.

Usage: .venv/bin/python scripts/lag.py [--only WORD] [--limit MILLISECONDS] [--results]
"""

import argparse
import contextlib
import csv
import gzip
import http.client
import io
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from itertools import chain
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ors_server.client import Client

sys.path.insert(0, str(Path(__file__).parent))
FAR: Any = import_module("lag_far_sides")  # beside this script

SIZES = {"1 KB": 1 << 10, "50 KB": 50 << 10, "1 MB": 1 << 20, "16 MB": 16 << 20}
EVERY = 0.05
"""Seconds between two questions."""
LIMIT = 150.0
"""Milliseconds that no answer may take on a quiet machine."""
TRIES = 4
"""Measurements of a cell that is above the limit."""
WAIT = 120.0
"""Seconds for one cell."""

TOOLS = '''
from ors_server import Environment, TextBlock, tool_from_schema

SCHEMAS = __SCHEMAS__


def make_accept():
    def accept(self, arguments):
        return "accepted"

    return accept


class Lag(Environment):
    """Has a tool for each keyword."""

    name = "lag"

    @classmethod
    def list_splits(cls):
        return ["test"]

    @classmethod
    def list_tasks(cls, split):
        return [{"id": 0}]

    def get_prompt(self):
        return [TextBlock(text="Call.")]


for tool_name, schema in SCHEMAS.items():
    member = tool_from_schema(make_accept(), name=tool_name, description="Accepts.", schema=schema)
    setattr(Lag, tool_name, member)
'''

TREE = {"anyOf": [{"items": {"$ref": "#/$defs/tree"}, "minItems": 1}, {"items": {"$ref": "#/$defs/tree"}}]}
HARD = {
    "type": "integer",
    "enum": [*map(str, range(2_000)), {"a": [1]}],
    "const": {"a": [1, {"b": 2}]},
    "minimum": 10**60,
    "maximum": -1,
    "exclusiveMinimum": 1e300,
    "exclusiveMaximum": -1e300,
    "multipleOf": 1e-300,
    "minLength": 1 << 30,
    "maxLength": 0,
    "pattern": "([ab]{1,100}){1,100}c",
    "minItems": 1 << 30,
    "maxItems": 0,
    "uniqueItems": True,
    "prefixItems": [{"type": "null"}] * 2_000,
    "items": {"anyOf": [{"type": "null"}] * 100},
    "contains": {"const": {"a": [1]}},
    "minProperties": 1 << 30,
    "maxProperties": 0,
    "required": [f"r{number}" for number in range(2_000)],
    "properties": {f"n{number}": {"type": "null"} for number in range(2_000)},
    "patternProperties": {"^(a+)+$": {"type": "null"}, "([an]{1,50}){1,50}c": False},
    "additionalProperties": {"anyOf": [{"type": "null"}] * 100},
    "propertyNames": {"pattern": "^(a+)+$", "maxLength": 2},
    "dependentRequired": {f"n{number}": [f"r{number}"] for number in range(2_000)},
    "dependentSchemas": {f"n{number}": {"minProperties": 1 << 30} for number in range(500)},
    "allOf": [{"uniqueItems": True}] * 100,
    "anyOf": [{"uniqueItems": True, "minItems": 1 << 30}] * 100,
    "oneOf": [{"items": {"type": "string"}}, {"items": {"type": "number"}}] * 50,
    "not": {"items": {"not": {"items": {"not": {}}}}},
    "if": {"items": {"type": "string"}},
    "unevaluatedItems": {"type": "null"},
    "unevaluatedProperties": {"type": "null"},
    "$ref": "#/$defs/tree",
    "$dynamicRef": "#/$defs/tree",
}
"""A value for each keyword that makes its check dear."""
BESIDE: Mapping[str, dict[str, Any]] = {
    "if": {"then": {"uniqueItems": True}, "else": {"items": {"uniqueItems": True}}},
    "unevaluatedItems": {"prefixItems": [True] * 2_000, "contains": {"type": "array"}},
    "unevaluatedProperties": {
        "patternProperties": {"^(a+)+$": True},
        "anyOf": [{"properties": {"n1": True}}],
    },
    "contains": {"minContains": 2, "maxContains": 3},
}
"""Keywords that count beside another."""


def repeat(part: str, size: int, *, most: int = 20_000) -> list[str]:
    """Return texts that have so many bytes together."""
    count = max(1, min(most, size // (len(part) + 12)))
    return [f"{part}{number}".ljust(size // count - 3, "a") for number in range(count)]


def nest(depth: int, width: int) -> Any:
    """Return lists within lists."""
    value: Any = list(range(width))
    for _ in range(depth):
        value = [value]
    return value


SHAPES: Mapping[str, Callable[[int], Any]] = {
    "numbers": lambda size: [number * (2**61 - 1) for number in range(min(size // 20, 24_000))],
    "floats": lambda size: [number + 0.1 for number in range(min(size // 8, 24_000))],
    "texts": lambda size: repeat("a", size),
    "objects": lambda size: [{"a": [number], "n1": 1} for number in range(min(size // 24, 8_000))],
    "names": lambda size: dict.fromkeys(repeat("n", size), 1),
    "plain names": lambda size: {f"n{number}": 1 for number in range(min(size // 10, 20_000))},
    "text": lambda size: "ab" * (size // 2),
    "deep": lambda size: nest(60, min(size // 6, 20_000)),
}


@dataclass
class Server:
    """A served environment, and what is measured of it."""

    process: "subprocess.Popen[str]"
    url: str
    longest: "Synchronized[float]"
    busiest: "Synchronized[float]"
    lines: Path

    def begin(self) -> None:
        """Begin a cell."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
        self.longest.value = self.busiest.value = 0.0

    def end(self, result: str) -> "Cell":
        """Return what was measured since the beginning."""
        time.sleep(3 * EVERY)
        peak = read_peak(self.process.pid)
        return Cell(self.longest.value * 1e3, self.busiest.value * 1e3, peak, result)


def read_peak(process_id: int) -> float:
    """Return the most memory of a process in MiB since it was reset."""
    status = Path(f"/proc/{process_id}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def processor_seconds(process_id: int) -> float:
    """Return the processor time that all threads of a process have taken."""
    seconds = 0
    for task in Path(f"/proc/{process_id}/task").iterdir():
        with contextlib.suppress(OSError):  # a thread may end meanwhile
            seconds += int((task / "schedstat").read_text().split()[0])
    return seconds / 1e9


def probe(url: str, process_id: int, longest: "Synchronized[float]", busiest: "Synchronized[float]") -> None:
    """Ask for the server's health every 50 ms, for ever."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
    while True:
        began, busy = time.perf_counter(), processor_seconds(process_id)
        try:
            connection.request("GET", "/health")
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            connection.close()
        took = time.perf_counter() - began
        longest.value = max(longest.value, took)
        busiest.value = max(busiest.value, min(took, processor_seconds(process_id) - busy))
        time.sleep(max(0.0, EVERY - took))


@contextlib.contextmanager
def serve(folder: Path, reference: str, *words: str) -> Iterator[Server]:
    """Serve an environment, and ask for the server's health meanwhile."""
    lines = folder / "server.log"
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "ORS_LOG_LEVEL": "warning"}
    command = [sys.executable, "-m", "ors_server", "serve", reference, "--port", "0", "--json", *words]
    with lines.open("w") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        if process.stdout is None or not (announcement := process.stdout.readline()):
            raise SystemExit(f"the server did not start:\n{lines.read_text()}")
        url = find_url(json.loads(announcement))
        longest: Any = multiprocessing.Value("d", 0.0)
        busiest: Any = multiprocessing.Value("d", 0.0)
        shared = (url, process.pid, longest, busiest)
        prober = multiprocessing.Process(target=probe, args=shared, daemon=True)
        prober.start()
        time.sleep(1.0)
        yield Server(process, url, longest, busiest, lines)
        prober.terminate()
    finally:
        process.terminate()
        process.wait(30)


def find_url(announcement: Any) -> str:
    """Return the first URL of an announcement, without a path."""
    if isinstance(announcement, str):
        place = urlsplit(announcement)
        return f"{place.scheme}://{place.netloc}" if place.scheme == "http" else ""
    parts = announcement.values() if isinstance(announcement, dict) else announcement
    parts = parts if isinstance(parts, list | tuple) or hasattr(parts, "__iter__") else ()
    return next(filter(None, map(find_url, parts)), "")


@dataclass(frozen=True)
class Cell:
    """What one measurement found."""

    milliseconds: float
    """The longest answer."""
    busy_milliseconds: float
    """The most processor time of the server between a question and its answer."""
    mebibytes: float
    result: str

    def show(self, limit: float) -> str:
        """Return it as a text for the table."""
        mark = "!" if self.busy_milliseconds > limit else ""
        return f"{self.milliseconds:.0f} ({self.busy_milliseconds:.0f}{mark}) {self.mebibytes:.0f}"


def measure(server: Server, action: Callable[[], str], limit: float) -> Cell:
    """Measure an action; again if an answer was late, and return the best."""
    best: Cell | None = None
    for _ in range(TRIES):
        server.begin()
        cell = server.end(action())
        if best is None or cell.busy_milliseconds < best.busy_milliseconds:
            best = cell
        if cell.busy_milliseconds <= limit:
            break
    if best is None:
        raise AssertionError
    return best


def worst(cells: Mapping[str, Cell]) -> Cell:
    """Return the cell with the latest answer; its result says of which input it is."""
    name, cell = max(cells.items(), key=lambda item: item[1].busy_milliseconds)
    mebibytes = max(other.mebibytes for other in cells.values())
    return replace(cell, mebibytes=mebibytes, result=f"{name}: {cell.result}")


def schema_of(keyword: str) -> dict[str, Any]:
    """Return a schema of arguments that uses a keyword."""
    part = {keyword: HARD[keyword], **BESIDE.get(keyword, {})}
    return {"type": "object", "properties": {"x": part}, "$defs": {"tree": TREE}}


def call(client: Client, name: str, value: Any) -> str:
    """Call a tool in a session of its own; return what came of it."""
    try:
        with client.episode("lag", split="test", index=0) as episode:
            result = episode.call(name, {"x": value})
        return f"{result.text}"[:160]
    except Exception as error:  # noqa: BLE001  (a refusal of any kind is a result)
        return f"{type(error).__name__}: {error}"[:160]


def keyword_rows(only: str, limit: float) -> Iterator[tuple[str, list[Cell]]]:
    """Measure every keyword with every shape of arguments; yields the worst shape of each size."""
    names = {f"k{number}": keyword for number, keyword in enumerate(HARD) if only in keyword}
    if not names:
        return
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        schemas = {name: schema_of(keyword) for name, keyword in names.items()}
        (folder / "lag.py").write_text(TOOLS.replace("__SCHEMAS__", repr(schemas)))
        with serve(folder, "lag.py:Lag") as server, Client(server.url) as client:
            yield "(nothing)", [measure(server, lambda: "", limit) for _ in SIZES]
            for name, keyword in names.items():
                cells = []
                for size in SIZES.values():
                    values = {shape: make(size) for shape, make in SHAPES.items()}
                    cells.append(
                        worst(
                            {
                                shape: measure(server, partial(call, client, name, value), limit)
                                for shape, value in values.items()
                            }
                        )
                    )
                yield keyword, cells


def ask(client: Client, side: str, url: str, socket: str) -> str:
    """Have a far side asked in a session of its own; return what came of it."""
    with client.episode("lag", split="test", index=0) as episode:
        return episode.call("ask", {"side": side, "url": url, "socket": socket}).text[:160]


def far_side_rows(only: str, limit: float) -> Iterator[tuple[str, list[Cell]]]:
    """Measure every far side with every kind of answer; yields the worst kind of each size."""
    sides = [side for side in FAR.SIDES if only in f"far side {side}"]
    if not sides:
        return
    with tempfile.TemporaryDirectory() as directory, FAR.far_sides() as (url, socket):
        folder = Path(directory)
        (folder / "lag.py").write_text(FAR.TOOLS)
        with serve(folder, "lag.py:Lag") as server, Client(server.url) as client:
            for side in sides:
                cells = []
                for size in SIZES.values():
                    places = {kind: f"{kind.replace(' ', '_')}/{size}" for kind in (*FAR.BODIES, "bomb")}
                    if side != "openenv_socket":
                        places |= {f"{kind}, packed": f"{places[kind]}/packed" for kind in FAR.BODIES}
                    found = {
                        kind: measure(
                            server, partial(ask, client, side, f"{url}/{place}", f"{socket}/{place}"), limit
                        )
                        for kind, place in places.items()
                    }
                    cells.append(worst(found))
                yield f"far side {side}", cells


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
    """Return many short rows."""
    return [{"question": f"What is {number}?", "answer": str(number)} for number in range(max(1, size // 44))]


def hostile_lines(size: int) -> dict[str, bytes]:
    """Return files of JSON lines of about a size."""
    wide = [f"c{number}" for number in range(size // 8)]
    repeated = b"{" + b",".join(b'"n%d": 1' % (number % 997) for number in range(size // 10)) + b"}\n"
    holes = [{"question": "q", **dict.fromkeys(wide[:100], 1)} for _ in range(max(1, size // 1_000))]
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


def packed_lines(size: int) -> dict[str, bytes]:
    """Return packed files of JSON lines, of which one is as small as it may be for its content."""
    packed = {kind: gzip.compress(content, 1) for kind, content in hostile_lines(size).items()}
    packer = gzip.compress(b" " * 1_000_000 + b"\n", 9)
    return {**packed, "bomb": packer * max(1, size // len(packer))}


def documents(size: int) -> dict[str, bytes]:
    """Return files that are one JSON value."""
    lines = hostile_lines(size)
    return {
        "many rows": json.dumps(many(size)).encode(),
        **{
            kind: b"[" + lines[kind].strip() + b"]"
            for kind in ("deep", "repeated names", "wide row", "digits")
        },
    }


def tables(size: int, separator: str) -> dict[str, bytes]:
    """Return files of separated values."""
    wide = ["question", "answer", *(f"c{number}" for number in range(size // 8))]
    rows = {
        "many rows": [["question", "answer"], *([f"q{number}", "1"] for number in range(size // 8))],
        "wide header": [wide, *([["1"]] * 1_000)],
        "repeated names": [[*wide, "c7"], ["1"] * 3],
        "one long row": [["question", "answer"], ["q" * (size - 64), "1"]],
        "one row of controls": [["question", "answer"], ["\x01" * (size - 64), "1"]],
    }
    return {kind: table(values, separator) for kind, values in rows.items()}


def parquets(size: int) -> dict[str, bytes]:
    """Return parquet files."""
    return {
        "many rows": parquet(many(size)),
        "one long row": parquet([{"question": "q" * (size - 64), "answer": "1"}]),
        "one row of controls": parquet([{"question": "\x01" * (size // 6 - 64), "answer": "1"}]),
        "repeated value": parquet([{"question": "q" * 1_000, "answer": "1"}] * max(1, size // 50)),
    }


FORMATS: Mapping[str, Callable[[int], dict[str, bytes]]] = {
    "jsonl": hostile_lines,
    "jsonl.gz": packed_lines,
    "json": documents,
    "csv": lambda size: tables(size, ","),
    "tsv": lambda size: tables(size, "\t"),
    "parquet": parquets,
}


def look(client: Client) -> str:
    """Read some tasks and a prompt; return what came of it."""
    try:
        (name,) = client.environments()
        tasks = client.tasks("train", 0, 3, environment=name)
        with client.episode(name, split="train", index=0) as episode:
            return f"{len(tasks)} tasks, {len(str(episode.prompt()))} characters"
    except Exception as error:  # noqa: BLE001  (a refusal of any kind is a result)
        return f"{type(error).__name__}: {error}"[:160]


def reload(server: Server, client: Client, path: Path, content: bytes) -> str:
    """Replace a data file, wait until the server has loaded or refused it, and read a task of it."""
    before = server.lines.read_text().count("reloaded")
    path.write_bytes(content)
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        text = server.lines.read_text()
        if text.count("reloaded") > before:
            line = text.strip().rpartition("\n")[2]
            return line[:100] if "not reloaded" in line else f"{line[:60]}: {look(client)}"
        time.sleep(EVERY)
    return "no answer in time"


def format_rows(only: str, limit: float) -> Iterator[tuple[str, list[Cell]]]:
    """Measure every format with every kind of hostile content; yields the worst kind of each size."""
    for ending, make in FORMATS.items():
        if only not in ending:
            continue
        with tempfile.TemporaryDirectory() as directory:
            folder = Path(directory)
            keys = {"data": f"train.{ending}", "prompt": "question", "answer": "answer"}
            text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
            (folder / "environment.toml").write_text(f'{text}reward = "exact_match_reward"\n')
            path = folder / f"train.{ending}"
            path.write_bytes(make(1 << 10)["many rows"])
            with (
                serve(folder, str(folder), "--reload") as server,
                Client(server.url) as client,
            ):
                cells = []
                for size in SIZES.values():
                    found = {
                        kind: measure(server, partial(reload, server, client, path, content), limit)
                        for kind, content in make(size).items()
                    }
                    cells.append(worst(found))
                yield f"*.{ending}", cells


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="keywords, endings and far sides with this word")
    parser.add_argument("--results", action="store_true", help="print what came of each worst cell, too")
    parser.add_argument("--limit", type=float, default=LIMIT, help="milliseconds that an answer may take")
    options = parser.parse_args()
    sys.stdout.write("longest answer in ms (processor time of the server until it, in ms) memory in MiB\n")
    sys.stdout.write(f"{'input':24}{''.join(name.rjust(18) for name in SIZES)}\n")
    late = 0
    for name, cells in chain(
        *(rows(options.only, options.limit) for rows in (keyword_rows, far_side_rows, format_rows))
    ):
        late += sum(cell.busy_milliseconds > options.limit for cell in cells)
        sys.stdout.write(f"{name:24}{''.join(cell.show(options.limit).rjust(18) for cell in cells)}\n")
        if options.results:
            sys.stdout.writelines(f"    {cell.result}\n" for cell in cells)
        sys.stdout.flush()
    sys.stdout.write(f"{late} cells are above {options.limit:g} ms\n")


if __name__ == "__main__":
    main()
