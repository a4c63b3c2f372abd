"""ORS `/call` on a trivial tool, with and without what the server tells about itself.

Four kinds of server take turns: one that counts nothing for `/metrics`, the ordinary one, one that sends its
spans to a collector, and one that sends those of every call. There are five processes of each kind, because
two processes of one program differ by a few per cent. CPU per call counts.
"""

import asyncio
import http.server
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

from typing_extensions import override

from bench import client, servers
from bench.ors_calls import SESSIONS, Samples, load, sample
from bench.report import Goal, Row

PROCESSES = 5
ROUNDS = 4
SECONDS = 1


class Collector(http.server.BaseHTTPRequestHandler):
    """Takes spans over OTLP, and forgets them."""

    def do_POST(self) -> None:
        """Read a request."""
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@contextmanager
def collecting() -> Iterator[str]:
    """Run a collector on the load's core; yields its address."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def measure() -> list[Row]:
    """Load all of them in turns."""
    names = [f"bench-{uuid4().hex}" for _ in range(SESSIONS)]
    kinds = {name: Samples() for name in ("unmetered", "ordinary", "exporting", "every span")}
    with ExitStack() as stack:
        sessions = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "sessions"
        sessions.write_text("\n".join(names))
        exporting = ["--otel-endpoint", stack.enter_context(collecting())]

        def start(kind: str) -> servers.Server:
            port = servers.free_port()
            command = servers.ours(port)
            if kind == "unmetered":
                command = [sys.executable, str(servers.PROGRAMS / "unmetered_server.py"), *command[1:]]
            if kind in {"exporting", "every span"}:
                command += exporting
            sampler = {"OTEL_TRACES_SAMPLER": "always_on"} if kind == "every span" else {}
            server = stack.enter_context(servers.running(command, port, sampler))
            asyncio.run(client.create_sessions(port, names))
            load(server, sessions, SECONDS)
            return server

        started = [(start(kind), samples) for _ in range(PROCESSES) for kind, samples in kinds.items()]
        for _ in range(ROUNDS):
            for server, samples in started:
                sample(server, sessions, SECONDS, samples)
    return [
        _row("metrics and traces, no SDK", kinds["ordinary"], kinds["unmetered"], "no metrics", most=1.02),
        _row("spans sent to a collector", kinds["exporting"], kinds["ordinary"], "no spans", most=1.10),
        _row("spans of every call sent", kinds["every span"], kinds["ordinary"], "no spans"),
    ]


def _row(name: str, ours: Samples, peer: Samples, peer_name: str, *, most: float | None = None) -> Row:
    goal = None if most is None else Goal("ratio", most=most)
    return Row(f"a call with {name}", "µs of CPU", ours.cost, peer.cost, peer_name, goal)
