"""Prints how late a server answers others while it reads hostile input, and how much memory that takes.

A separate process asks `/health` of a real server every 50 ms. Meanwhile the server checks arguments by a
schema with each keyword of JSON Schema, at its three doors; reads answers of each kind of far side; and loads
data files of each format (with --reload), at four sizes. A cell is about all inputs of a kind and size:

- the longest time that an answer took, in milliseconds: on a busy machine it says little;
- the most processor time of the server's main thread, which runs the event loop, from one answer to the next;
- the longest time that an answer took, without waits for a processor, but at most the processor time of all
  threads of the server meanwhile: another thread that holds the interpreter's lock counts here;
- the most memory of the server, in MiB.

A cell fails if the second or third is above the limit. It is measured again then, up to three times, at last
input by input, so that it names the worst. The exit status is 1 if a cell fails.

Usage: .venv/bin/python scripts/lag.py [--only WORD] [--row NAME] [--limit MILLISECONDS] [--json FILE]
       .venv/bin/python scripts/lag.py --table FILE
"""

import argparse
import contextlib
import http.client
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from importlib import import_module
from itertools import chain
from multiprocessing.sharedctypes import SynchronizedArray
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from ors_server.client import Client

sys.path.insert(0, str(Path(__file__).parent))
FAR: Any = import_module("lag_far_sides")  # beside this script
FORMATS: Any = import_module("lag_formats")
KEYWORDS: Any = import_module("lag_keywords")

SIZES = {"1 KB": 1 << 10, "50 KB": 50 << 10, "1 MB": 1 << 20, "16 MB": 16 << 20}
EVERY = 0.05
"""Seconds between two questions."""
LIMIT = 150.0
"""Milliseconds that nothing may hold the event loop."""
TRIES = 3
"""Measurements of a cell that is above the limit."""
WAIT = 300.0
"""Seconds for one file to be loaded."""
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
Actions = Mapping[str, Callable[[], str]]
Cells = dict[str, "Cell"]
"""The cells of a row by their size."""


@dataclass(frozen=True)
class Choice:
    """Which cells are measured, and with which inputs."""

    words: str
    rows: tuple[str, ...]
    kinds: tuple[str, ...]
    sizes: tuple[str, ...]
    limit: float

    def has(self, row: str) -> bool:
        """Whether a row is measured."""
        return self.words in row and (not self.rows or row in self.rows)

    def measure(self, server: "Server", make: Callable[[int], Actions]) -> Cells:
        """Measure the actions of each size that are chosen by their kind."""
        cells: Cells = {}
        for name in self.sizes:
            actions = {
                kind: action
                for kind, action in make(SIZES[name]).items()
                if not self.kinds or kind in self.kinds
            }
            if actions:
                cells[name] = measure(server, actions, self.limit)
        return cells


@dataclass(frozen=True)
class Cell:
    """What one measurement found, in milliseconds and MiB."""

    answer: float
    """The longest answer."""
    loop: float
    """The most processor time of the event loop's thread from one answer to the next."""
    held: float
    """The longest answer without waits for a processor, at most the processor time of all threads."""
    mebibytes: float
    result: str

    @property
    def busy(self) -> float:
        """What is compared with the limit."""
        return max(self.loop, self.held)

    def show(self, limit: float) -> str:
        """Return it as a text for the table."""
        mark = "!" if self.busy > limit else ""
        return f"{self.answer:.0f} ({self.loop:.0f}, {self.held:.0f}{mark}) {self.mebibytes:.0f}"


@dataclass
class Server:
    """A served environment, and what is measured of it."""

    process: "subprocess.Popen[str]"
    url: str
    figures: "SynchronizedArray[float]"
    lines: Path

    def begin(self) -> None:
        """Begin a cell."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
        self.figures[:] = [0.0] * len(self.figures)

    def end(self, result: str) -> Cell:
        """Return what was measured since the beginning."""
        time.sleep(3 * EVERY)
        answer, loop, held = (1e3 * seconds for seconds in self.figures[:])
        return Cell(answer, loop, held, read_peak(self.process.pid), result)

    def ask(self, path: str, body: bytes, headers: Mapping[str, str]) -> str:
        """Send a request; return the status and the end of the answer."""
        place = urlsplit(self.url)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=300)
        with contextlib.closing(connection):
            try:
                connection.request("POST", path, body, {"Content-Type": "application/json", **headers})
                response = connection.getresponse()
                return f"{response.status} {response.read()[-120:]!r}"
            except OSError as error:  # it may refuse a long body before it was sent
                return f"{type(error).__name__}: {error}"


def read_peak(process_id: int) -> float:
    """Return the most memory of a process in MiB since it was reset."""
    status = Path(f"/proc/{process_id}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def schedule(task: Path | str) -> tuple[float, float]:
    """Return a thread's seconds on a processor, and ready to run without one."""
    running, waiting, _ = (Path(task) / "schedstat").read_text().split()
    return int(running) / 1e9, int(waiting) / 1e9


def processor_seconds(process_id: int) -> float:
    """Return the processor time that all threads of a process have taken."""
    seconds = 0.0
    for task in Path(f"/proc/{process_id}/task").iterdir():
        with contextlib.suppress(OSError):  # a thread may end meanwhile
            seconds += schedule(task)[0]
    return seconds


def probe(url: str, process_id: int, figures: "SynchronizedArray[float]") -> None:
    """Ask for the server's health every 50 ms, for ever."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
    loop, own = f"/proc/{process_id}/task/{process_id}", f"/proc/self/task/{os.getpid()}"
    answered = schedule(loop)[0]
    while True:
        began, busy = time.perf_counter(), processor_seconds(process_id)
        waited = schedule(loop)[1] + schedule(own)[1]
        try:
            connection.request("GET", "/health")
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            connection.close()
        took = time.perf_counter() - began
        busy = processor_seconds(process_id) - busy
        waited = schedule(loop)[1] + schedule(own)[1] - waited
        ran, answered = schedule(loop)[0] - answered, schedule(loop)[0]
        now = (took, ran, max(0.0, min(took - waited, busy)))
        figures[:] = [max(pair) for pair in zip(figures[:], now, strict=True)]
        time.sleep(max(0.0, EVERY - took))


@contextlib.contextmanager
def serve(folder: Path, reference: str, *words: str) -> Iterator[Server]:
    """Serve an environment, and ask for the server's health meanwhile."""
    lines = folder / "server.log"
    homes = {"XDG_CACHE_HOME": str(folder / "cache"), "XDG_DATA_HOME": str(folder / "record")}
    environment = {**os.environ, **homes, "ORS_LOG_LEVEL": "warning"}
    command = [sys.executable, "-m", "ors_server", "serve", reference, "--port", "0", "--json", *words]
    with lines.open("w") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        if process.stdout is None or not (announcement := process.stdout.readline()):
            raise SystemExit(f"the server did not start:\n{lines.read_text()}")
        url = find_url(json.loads(announcement))
        figures: Any = multiprocessing.Array("d", 3)
        prober = multiprocessing.Process(target=probe, args=(url, process.pid, figures), daemon=True)
        prober.start()
        time.sleep(1.0)
        yield Server(process, url, figures, lines)
        prober.terminate()
    finally:
        process.terminate()
        process.wait(60)


def find_url(announcement: Any) -> str:
    """Return the first URL of an announcement, without a path."""
    if isinstance(announcement, str):
        place = urlsplit(announcement)
        return f"{place.scheme}://{place.netloc}" if place.scheme == "http" else ""
    parts = announcement.values() if isinstance(announcement, dict) else announcement
    parts = parts if isinstance(parts, list | tuple) or hasattr(parts, "__iter__") else ()
    return next(filter(None, map(find_url, parts)), "")


def measure(server: Server, actions: Actions, limit: float) -> Cell:
    """Measure actions together; if something was late, again, and at last each of them by itself."""
    best = measure_best(server, actions, limit)
    if best.busy <= limit or len(actions) == 1:
        return best
    cells = {name: measure_best(server, {name: action}, limit) for name, action in actions.items()}
    worst = max(cells.values(), key=lambda cell: cell.busy)
    return replace(worst, mebibytes=max(cell.mebibytes for cell in cells.values()))


def measure_best(server: Server, actions: Actions, limit: float) -> Cell:
    """Measure actions together until nothing is late, some times; return the best."""
    cells: list[Cell] = []
    while len(cells) < TRIES and not (cells and cells[-1].busy <= limit):
        server.begin()
        results = {name: action() for name, action in actions.items()}
        cells.append(server.end("\n    ".join(f"{name}: {result}" for name, result in results.items())))
    return min(cells, key=lambda cell: cell.busy)


def call_at_each_door(server: Server, name: str, arguments: bytes) -> str:
    """Call a tool over ORS, MCP and the control API; return how each answered."""
    tool = json.dumps(name).encode()
    params = b'"_meta":' + json.dumps(META).encode() + b',"name":' + tool + b',"arguments":' + arguments
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": name,
    }
    session = f"s-{uuid4().hex}"
    order = json.dumps({"env_name": "lag", "split": "test", "index": 0}).encode()
    own = {"X-Session-ID": session}
    created = server.ask("/create", order, own)
    if not created.startswith("200"):
        raise SystemExit(f"no session: {created}")
    answers = [
        server.ask("/lag/call", b'{"name":' + tool + b',"input":' + arguments + b"}", own),
        server.ask(
            f"/sessions/{session}/mcp",
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{' + params + b"}}",
            headers,
        ),
        server.ask(
            f"/_ors/sessions/{session}/calls", b'{"name":' + tool + b',"arguments":' + arguments + b"}", {}
        ),
    ]
    server.ask("/delete", b"{}", own)
    return " | ".join(answers)


def keyword_rows(choice: Choice) -> Iterator[tuple[str, Cells]]:
    """Measure every keyword with arguments of every shape."""
    names = {f"k{number}": keyword for number, keyword in enumerate(KEYWORDS.HARD) if choice.has(keyword)}
    if not names:
        return
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        schemas = {name: KEYWORDS.schema_of(keyword) for name, keyword in names.items()}
        (folder / "lag.py").write_text(KEYWORDS.TOOLS.replace("__SCHEMAS__", repr(schemas)))
        with serve(folder, "lag.py:Lag") as server:
            yield (
                "(nothing)",
                {size: measure(server, {"nothing": str}, choice.limit) for size in choice.sizes},
            )
            for name, keyword in names.items():
                yield keyword, choice.measure(server, partial(calls_of, server, name))


def calls_of(server: Server, name: str, size: int) -> Actions:
    """Return calls of a tool with arguments of each shape."""
    return {
        shape: partial(call_at_each_door, server, name, value)
        for shape, value in encoded_shapes(size).items()
    }


@cache
def encoded_shapes(size: int) -> Mapping[str, bytes]:
    """Return arguments of each shape as JSON."""
    shapes: Mapping[str, bytes] = KEYWORDS.encoded_shapes(size)
    return shapes


def ask(client: Client, side: str, url: str, socket: str) -> str:
    """Have a far side asked in a session of its own; return what came of it."""
    with client.episode("lag", split="test", index=0) as episode:
        return episode.call("ask", {"side": side, "url": url, "socket": socket}).text[:160]


def far_side_rows(choice: Choice) -> Iterator[tuple[str, Cells]]:
    """Measure every far side with every kind of answer."""
    sides = [side for side in FAR.SIDES if choice.has(f"far side {side}")]
    if not sides:
        return
    with tempfile.TemporaryDirectory() as directory, FAR.far_sides() as urls:
        folder = Path(directory)
        (folder / "lag.py").write_text(FAR.TOOLS)
        with serve(folder, "lag.py:Lag") as server, Client(server.url) as client:
            for side in sides:
                yield f"far side {side}", choice.measure(server, partial(asks_of, client, side, urls))


def asks_of(client: Client, side: str, urls: tuple[str, str], size: int) -> Actions:
    """Return calls that ask a far side for each kind of answer."""
    places = {kind: f"{kind.replace(' ', '_')}/{size}" for kind in (*FAR.BODIES, "bomb")}
    if side != "openenv_socket":
        places |= {f"{kind}, packed": f"{places[kind]}/packed" for kind in FAR.BODIES}
    url, socket = urls
    return {
        kind: partial(ask, client, side, f"{url}/{place}", f"{socket}/{place}")
        for kind, place in places.items()
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


def reload(
    server: Server, client: Client, folder: Path, data: str, make: Callable[[], Mapping[str, bytes]]
) -> str:
    """Replace data files, wait until the server has loaded or refused them, and read a task."""
    files = make()
    before = server.lines.read_text().count("reloaded")
    write(folder, data, files)
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        text = server.lines.read_text()
        if text.count("reloaded") > before:
            line = text.strip().rpartition("\n")[2]
            return line[:160] if "not reloaded" in line else f"{line[:60]}: {look(client)}"
        time.sleep(EVERY)
    return "no answer in time"


def write(folder: Path, data: str, files: Mapping[str, bytes]) -> None:
    """Replace the declaration and its data files."""
    keys = {"data": data, "prompt": "question", "answer": "answer", "reward": "exact_match_reward"}
    declaration = folder / "environment.toml"
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
    if not declaration.exists() or declaration.read_text() != text:
        declaration.write_text(text)
    paths = {folder / name: content for name, content in files.items()}
    for old in (*folder.glob("train*"), *folder.glob("tasks/*")):
        if old not in paths:
            old.unlink()
    for path, content in paths.items():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)


def format_rows(choice: Choice) -> Iterator[tuple[str, Cells]]:
    """Measure every format with every kind of hostile content."""
    formats = {name: form for name, form in FORMATS.FORMATS.items() if choice.has(name)}
    if not formats:
        return
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        data, make = FORMATS.FORMATS["*.jsonl"]
        write(folder, data, make(1 << 10)["many rows"]())
        with serve(folder, str(folder), "--reload") as server, Client(server.url) as client:
            for name, (data, make) in formats.items():

                def reloads_of(size: int, data: str = data, make: Any = make) -> Actions:
                    return {
                        kind: partial(reload, server, client, folder, data, content)
                        for kind, content in make(size).items()
                    }

                yield name, choice.measure(server, reloads_of)


def print_table(file: Path) -> None:
    """Print rows that were written with --json as a table of Markdown; of a row measured twice, the last."""
    rows: dict[str, dict[str, dict[str, Any]]] = {}
    for line in file.read_text().splitlines():
        row = json.loads(line)
        rows.setdefault(row["name"], {}).update(row["cells"])
    sys.stdout.write(f"| input | {' | '.join(SIZES)} |\n|---|{'---|' * len(SIZES)}\n")
    for name, cells in rows.items():
        shown = [
            f"{cell['loop']:.0f}, {cell['held']:.0f}; {cell['mebibytes']:.0f}" if cell else "-"
            for cell in map(cells.get, SIZES)
        ]
        sys.stdout.write(f"| `{name}` | {' | '.join(shown)} |\n")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="keywords, formats and far sides with this word")
    parser.add_argument("--row", action="append", default=[], help="a row by its name; may be repeated")
    parser.add_argument("--size", action="append", choices=SIZES, help="a size; may be repeated")
    parser.add_argument("--kind", action="append", default=[], help="a kind of input; may be repeated")
    parser.add_argument("--results", action="store_true", help="print the result of each input, too")
    parser.add_argument("--limit", type=float, default=LIMIT, help="milliseconds that the loop may be held")
    parser.add_argument("--json", type=Path, help="a file to which each row is added as a line of JSON")
    parser.add_argument("--table", type=Path, help="print such a file as a table of Markdown, and end")
    options = parser.parse_args()
    if options.table:
        print_table(options.table)
        return
    sizes = tuple(options.size or SIZES)
    choice = Choice(options.only, tuple(options.row), tuple(options.kind), sizes, options.limit)
    sys.stdout.write("longest answer in ms (processor time of the loop, time held, in ms) memory in MiB\n")
    sys.stdout.write(f"{'input':24}{''.join(name.rjust(24) for name in sizes)}\n")
    late = 0
    for name, cells in chain(*(rows(choice) for rows in (keyword_rows, far_side_rows, format_rows))):
        late += sum(cell.busy > options.limit for cell in cells.values())
        shown = "".join(cell.show(options.limit).rjust(24) for cell in cells.values())
        sys.stdout.write(f"{name:24}{shown}\n")
        if options.results:
            sys.stdout.writelines(f"    {cell.result}\n" for cell in cells.values())
        sys.stdout.flush()
        if options.json:
            shown_cells = {size: asdict(cell) for size, cell in cells.items()}
            with options.json.open("a") as file:
                file.write(json.dumps({"name": name, "cells": shown_cells}) + "\n")
    sys.stdout.write(f"{late} cells are above {options.limit:g} ms\n")
    raise SystemExit(1 if late else 0)


if __name__ == "__main__":
    main()
