"""The console and the control API over a record of 100,000 episodes and 2 million steps, through HTTP.

A thousand episodes are written as sessions write them, and copied within the database; one more has 2,000
steps. Each address is requested ten times; a row has the median of the later nine beside the slowest. Memory
is what the server holds after all of it beyond what it held before. Then 20 browsers follow a live episode
while agents call tools: what a call costs is compared by the server's processor time.
"""

import contextlib
import http.client
import json
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

import anyio
from sqlalchemy import Connection, Table, create_engine, func, insert, literal, select, text, update

from bench import record_scale, servers
from bench.programs import record_scale as program
from bench.report import Goal, Row
from ors_server.store.aggregates import SUMS
from ors_server.store.open import open_store
from ors_server.store.sql.record_tables import episodes, labels, metadata, totals
from ors_server.store.store_options import Durability, StoreOptions
from tests.postgres import running_postgres

WRITTEN = 1_000
COPIES = 100
STEPS = 20
LONG_EPISODE_STEPS = 2_000
"""Steps of the long episode."""
LONG_EPISODE_ID = f"{10**9:032x}"
TIMES = 10
CONSOLES = 20
TURNS = 60
CALLS = 100
"""Calls of one turn beside open consoles."""
WARM_UP = 5
REST = 5.0
"""Seconds after which the pages of an idle episode poll as rarely as they ever do."""
PARTS = ("standings", "steps", "moves", "tool_uses", "prompts", "labels")
PAGES: Sequence[tuple[str, str, float | None]] = (
    ("overview", "/console", 200),
    ("episodes", "/console/episodes", 300),
    ("episodes of a run", "/console/episodes?run=r1", 300),
    ("episodes by environment and return", "/console/episodes?environment=alpha&sort=-return", 300),
    ("episodes with penalties", "/console/episodes?has=penalty", 300),
    ("episodes of a split", "/console/episodes?split=test", 300),
    ("runs", "/console/runs", 200),
    ("long episode, first page", f"/console/episodes/{LONG_EPISODE_ID}", 300),
    ("long episode, last page", f"/console/episodes/{LONG_EPISODE_ID}?step=2000", 300),
    ("totals", "/_ors/episodes/totals", None),
    ("totals of a split", "/_ors/episodes/totals?split=test", None),
    ("by task", "/_ors/episodes/by-task?limit=100", None),
    ("series by the hour", "/_ors/episodes/series?every=1h", None),
    ("histogram", "/_ors/episodes/histogram", None),
)
"""Name, address, and the bar in milliseconds."""


def fill(where: str) -> None:
    """Write the record."""
    record_scale.write(where, WRITTEN)
    anyio.run(_write_long, where)
    address = f"sqlite:///{where}" if "://" not in where else where.replace("://", "+psycopg://", 1)
    engine = create_engine(address)
    with engine.begin() as connection:
        multiply(connection)
        if connection.dialect.name == "postgresql":  # copies took keys that its sequence does not know
            highest = select(func.max(episodes.c.key)).scalar_subquery()
            connection.execute(select(func.setval(func.pg_get_serial_sequence("episodes", "key"), highest)))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ANALYZE"))
    engine.dispose()


async def _write_long(where: str) -> None:
    store = await open_store(where, StoreOptions(durability=Durability.NONE))
    await program.play(store, 10**9, LONG_EPISODE_STEPS)
    await store.aclose()


def multiply(connection: Connection) -> None:
    """Copy all episodes but the long one, with ids, tasks and times of their own."""
    short = episodes.c.episode_id != LONG_EPISODE_ID
    size = connection.execute(select(func.max(episodes.c.key))).scalar_one()
    for copy in range(1, COPIES):
        start, name = copy * size, f"{copy:04x}"
        fresh = literal(name).op("||")(func.substr(episodes.c.episode_id, 5))
        task = literal(f"{copy // 10:04x}").op("||")(func.substr(episodes.c.task_hash, 5))
        values = {
            "key": episodes.c.key + start,
            "episode_id": fresh,
            "session_id": literal(f"{name}-").op("||")(episodes.c.session_id),
            "task_hash": task,
            "task_index": episodes.c.task_index + copy // 10 * WRITTEN,
            "created_at": episodes.c.created_at + copy * WRITTEN * 1_000_000,
            "body": func.replace(episodes.c.body, episodes.c.episode_id, fresh),
        }
        _copy(connection, episodes, values, short)
        for part in PARTS:
            table = metadata.tables[part]
            ours = table.c.episode.in_(select(episodes.c.key).where(short, episodes.c.key <= size))
            _copy(connection, table, {"episode": table.c.episode + start}, ours)
    connection.execute(update(totals).values({totals.c[name]: totals.c[name] * COPIES for name in SUMS}))
    assert connection.execute(select(func.count()).select_from(labels)).scalar_one() > WRITTEN


def _copy(connection: Connection, table: Table, values: dict[str, object], where: object) -> None:
    names = [column.name for column in table.columns]
    query = select(*(values.get(name, table.c[name]) for name in names)).where(where)  # type: ignore[call-overload]
    if table is episodes:
        query = query.where(episodes.c.key <= _first(connection))
    connection.execute(insert(table).from_select(names, query))


def _first(connection: Connection) -> int:
    """Return the last key of what was written and not copied."""
    query = select(episodes.c.key).where(episodes.c.episode_id == LONG_EPISODE_ID)
    return int(connection.execute(query).scalar_one())


@contextmanager
def serving(where: str) -> Iterator[servers.Server]:
    """Serve a record."""
    port = servers.free_port()
    command = [*servers.ours(port), "--store", where]
    with servers.running(command, port) as server:
        yield server


def fetch(port: int, path: str) -> float:
    """Return the milliseconds that an answer takes, to its last byte."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    begun = time.perf_counter()
    connection.request("GET", path)
    answer = connection.getresponse()
    answer.read()
    took = (time.perf_counter() - begun) * 1000
    connection.close()
    if answer.status != http.client.OK:
        raise RuntimeError(f"{path} answers {answer.status}")
    return took


def measure_pages(server: servers.Server, store: str) -> list[Row]:
    """Request every page."""
    fetch(server.port, "/console")
    before = server.resident_bytes()
    rows: list[Row] = []
    for name, path, bar in PAGES:
        times = [fetch(server.port, path) for _ in range(TIMES)][1:]
        goal = None if bar is None else Goal("ours", most=bar)
        rows.append(
            Row(f"{name}, {store}", "ms, median", statistics.median(times), max(times), "slowest", goal)
        )
    grown = (server.resident_bytes() - before) / 2**20
    rows.append(
        Row(
            f"memory after all pages, {store}",
            "MiB more",
            grown,
            before / 2**20,
            "before",
            Goal("ours", most=60),
        )
    )
    return rows


def post(port: int, path: str, body: object) -> dict[str, object]:
    """Return the answer of a request with a JSON body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
    answer: dict[str, object] = json.loads(connection.getresponse().read())
    connection.close()
    return answer


@dataclass(frozen=True, slots=True)
class Cost:
    """What calls of an agent cost, each."""

    processor: float
    """Microseconds of the server's processor time, whatever it did meanwhile."""
    rate: float
    """Calls per second, which depends on the machine's other work, too."""


def caller(server: servers.Server) -> Callable[[], Cost]:
    """Create a session, and return what measures its calls."""
    session = post(server.port, "/_ors/sessions", {"split": "test", "index": 0})["session_id"]
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    body = json.dumps({"name": "echo", "arguments": {"text": "x"}})
    path, headers = f"/_ors/sessions/{session}/calls", {"content-type": "application/json"}

    def measure() -> Cost:
        begun, used = time.perf_counter(), server.cpu_seconds()
        for _ in range(CALLS):
            connection.request("POST", path, body, headers)
            connection.getresponse().read()
        used, took = server.cpu_seconds() - used, time.perf_counter() - begun
        return Cost(used / CALLS * 1e6, CALLS / took)

    return measure


@contextmanager
def watching(port: int, session: str) -> Iterator[None]:
    """Keep the streams of open pages of a live episode, which browsers read."""
    connections: list[http.client.HTTPConnection] = []
    readers: list[threading.Thread] = []
    for _ in range(CONSOLES):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", f"/console/episodes/{session}/events?after=0")
        readers.append(threading.Thread(target=_read, args=(connection.getresponse(),)))
        connections.append(connection)
        readers[-1].start()
    yield
    for connection in connections:
        connection.sock.shutdown(socket.SHUT_RDWR)
    for reader in readers:
        reader.join()


def _read(answer: http.client.HTTPResponse) -> None:
    with contextlib.suppress(http.client.IncompleteRead):  # the page was closed
        while answer.read1(65_536):
            pass


def measure_consoles(where: str, store: str) -> list[Row]:
    """Compare agents' calls with and without 20 consoles that follow another live episode.

    Two servers of one record are called in turns, a few calls each, so that a machine that becomes slower
    favours neither. The consoles are open on one of them, and then on the other, whose processes differ.
    """
    alone: list[Cost] = []
    watched_costs: list[Cost] = []
    with ExitStack() as stack:
        ports_and_callers = [
            (server.port, caller(server))
            for server in (stack.enter_context(serving(where)) for _ in range(2))
        ]
        for (port, measure_watched), (_, measure_alone) in permutations(ports_and_callers):
            watched = str(post(port, "/_ors/sessions", {"split": "test", "index": 0})["session_id"])
            with watching(port, watched):
                time.sleep(REST)
                for _ in range(WARM_UP):
                    measure_watched()
                    measure_alone()
                for _ in range(TURNS):
                    watched_costs.append(measure_watched())
                    alone.append(measure_alone())

    def row(what: str, unit: str, pick: Callable[[Cost], float], goal: Goal | None) -> Row:
        ours, peer = (statistics.median(map(pick, costs)) for costs in (watched_costs, alone))
        return Row(f"{what} with {CONSOLES} consoles open, {store}", unit, ours, peer, "no console", goal)

    return [
        row("a call", "µs of CPU", lambda cost: cost.processor, Goal("ratio", most=1.03)),
        row("calls", "calls/s", lambda cost: cost.rate, None),
    ]


def measure() -> list[Row]:
    """Measure over SQLite and PostgreSQL."""
    rows: list[Row] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)  # the database's own user has to get in
        postgres = stack.enter_context(running_postgres(within=folder))
        for store in ("SQLite", "PostgreSQL"):
            where = str(folder / "record.db") if store == "SQLite" else postgres.create_database()
            fill(where)
            with serving(where) as server:
                rows += measure_pages(server, store)
            rows += measure_consoles(where, store)
    return rows


if __name__ == "__main__":
    fill(sys.argv[1])
