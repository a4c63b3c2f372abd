"""A real HTTP server that speaks the OpenAI protocol, and misbehaves on demand."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from tests.fixtures.chat_server import PATIENCE, CompletionServer


@dataclass(frozen=True)
class Act:
    """What the server does with one request."""

    text: str = ""
    """The model's reply."""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    """Sent as it is, instead of a completion."""
    is_short: bool = False
    """Whether half of the body is promised and never sent."""
    finish: str = "stop"
    usage: dict[str, int] | None = field(
        default_factory=lambda: {"prompt_tokens": 100, "completion_tokens": 10}
    )
    waits: bool = False
    """Whether nothing is sent until the server is let go, or ends."""


@dataclass(frozen=True)
class Asked:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: Any


class JudgeServer(CompletionServer):
    """Acts by its script, one act per request; the last one again and again."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.script: list[Act] = [Act("{}")]
        self.answer: Callable[[Asked], Act] | None = None
        self.asked: list[Asked] = []
        self.lock = threading.Condition()
        self.now = 0
        self.most = 0

    def play(self, *acts: dict[str, Any]) -> None:
        self.script = [Act(**act) for act in acts]

    def wait_for_requests(self, count: int) -> None:
        """Waits until so many requests are under way at once."""
        with self.lock:
            assert self.lock.wait_for(lambda: self.now >= count, PATIENCE)

    def act_for(self, asked: Asked) -> Act:
        with self.lock:
            self.asked.append(asked)
            if self.answer is not None:
                return self.answer(asked)
            return self.script.pop(0) if len(self.script) > 1 else self.script[0]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: JudgeServer

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        with self.server.lock:
            self.server.now += 1
            self.server.most = max(self.server.most, self.server.now)
            self.server.lock.notify_all()
        headers = {name.lower(): value for name, value in self.headers.items()}
        act = self.server.act_for(Asked(self.path, headers, json.loads(raw)))
        if act.waits:
            self.server.let_go.wait(PATIENCE)
        with self.server.lock:
            self.server.now -= 1
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._send(act)

    def _send(self, act: Act) -> None:
        body = _completion(act) if act.body is None else act.body
        self.send_response(act.status)
        for name, value in {"content-type": "application/json", **act.headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if act.is_short else body)
        if act.is_short:
            self.close_connection = True

    def log_message(self, *args: object) -> None:
        pass


def _completion(act: Act) -> bytes:
    if act.status >= 400:
        return json.dumps({"error": {"message": act.text or "no", "type": "error"}}).encode()
    message = {"role": "assistant", "content": act.text}
    choice = {"index": 0, "message": message, "finish_reason": act.finish}
    body = {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
    return json.dumps(body if act.usage is None else {**body, "usage": act.usage}).encode()


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    """An endpoint on a free port of loopback."""
    with JudgeServer().serving() as running:
        yield running
