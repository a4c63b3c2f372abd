"""Clients that begin requests and do not go on, for a minute, beside one that plays."""

import contextlib
import json
import resource
import socket
import threading
import urllib.request

import pytest

pytestmark = [pytest.mark.stress, pytest.mark.timeout(400)]
HALF_OPEN = 1_000
CALLS = 1_000
SECONDS = 60.0
LIMIT = 60.0
BEGUN = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Ty"


class Crowd:
    """So many half-open requests at any time: whoever is sent away comes back."""

    def __init__(self, port):
        self._port = port
        self._ends = threading.Event()
        self.is_there = threading.Event()
        self.sent_away = 0
        self.threads = [threading.Thread(target=self._stay, args=(part,)) for part in range(10)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        assert self.is_there.wait(LIMIT)
        return self

    def __exit__(self, *_error):
        self._ends.set()
        for thread in self.threads:
            thread.join(LIMIT)

    def _begin(self):
        begun = socket.create_connection(("127.0.0.1", self._port), timeout=LIMIT)
        begun.sendall(BEGUN)
        begun.settimeout(0)
        return begun

    def _stay(self, part):
        with contextlib.ExitStack() as ends:
            mine = [self._begin() for _ in range(HALF_OPEN // len(self.threads))]
            ends.callback(lambda: [begun.close() for begun in mine])
            if part == 0:
                self.is_there.set()
            while not self._ends.wait(0.5):
                for place, begun in enumerate(mine):
                    with contextlib.suppress(BlockingIOError):
                        begun.recv(1000)
                        begun.close()
                        self.sent_away += 1
                        mine[place] = self._begin()


def test_a_thousand_half_open_requests_cost_nobody_else_a_call(serve_live, refenv):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 16_384), hard))
    try:
        server = serve_live(f"{refenv}:RefEnv")
        with Crowd(server.port) as crowd:
            pause = threading.Event()
            ask(server.url, "/create", {"split": "train", "index": 0})
            for number in range(CALLS):
                answer = ask(server.url, "/refenv/call", {"name": "count", "input": {}})
                assert f'"text":"{number + 1}"' in answer
                pause.wait(SECONDS / CALLS)
        assert crowd.sent_away >= HALF_OPEN
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def ask(url, path, body):
    headers = {"X-Session-ID": "s", "Content-Type": "application/json"}
    request = urllib.request.Request(url + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=LIMIT) as answer:
        assert answer.status == 200
        return answer.read().decode()
