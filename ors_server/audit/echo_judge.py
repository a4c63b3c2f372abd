"""A model that judges nothing: it repeats the question, as a judge may that quotes the answer first."""

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any, ClassVar

from typing_extensions import override

from ors_server.rewards.judges.judge_endpoint import JUDGE_VARIABLES

_MAX_BYTES = 4 << 20


@dataclass
class EchoJudge:
    """An endpoint of OpenAI's form on this machine, for one audit."""

    url: str = ""
    questions: int = 0
    """How many questions were received."""
    _lock: Lock = field(default_factory=Lock)

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment variables with which this package's judges or OpenAI's client find it."""
        return {
            JUDGE_VARIABLES.base_url: self.url,
            JUDGE_VARIABLES.api_key: "echo",
            JUDGE_VARIABLES.model: "echo",
            "OPENAI_BASE_URL": self.url,
            "OPENAI_API_KEY": "echo",
        }

    def reply(self, question: Mapping[str, Any]) -> str:
        """Return the last message of a request."""
        with self._lock:
            self.questions += 1
        content = question["messages"][-1]["content"]
        if isinstance(content, str):
            return content
        return "\n".join(str(part.get("text", "")) for part in content)


class _Handler(BaseHTTPRequestHandler):
    """Answers `POST /chat/completions`."""

    judge: ClassVar[EchoJudge]
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_POST(self) -> None:
        """Reply with the question."""
        try:
            size = min(int(self.headers.get("Content-Length", 0)), _MAX_BYTES)
            question = json.loads(self.rfile.read(size))
            text = self.judge.reply(question)
        except (ValueError, LookupError, TypeError, AttributeError):
            self.send_error(400)
            return
        message = {"role": "assistant", "content": text}
        body = json.dumps(
            {
                "id": "echo",
                "object": "chat.completion",
                "created": 0,
                "model": "echo",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
            }
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing."""


@contextmanager
def echo_judge() -> Generator[EchoJudge]:
    """Serve an echo judge on a free port of this machine, in a thread."""
    judge = EchoJudge()
    # One handler class for each judge: `http.server` creates handlers by itself, so a class attribute is
    # the only way to hand them the judge.
    handler = type("_Asked", (_Handler,), {"judge": judge})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        judge.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        thread = Thread(target=server.serve_forever, args=(0.05,), name="echo-judge", daemon=True)
        # The poll interval is short, as `shutdown` waits for the end of a poll.
        thread.start()
        try:
            yield judge
        finally:
            server.shutdown()
            thread.join()
