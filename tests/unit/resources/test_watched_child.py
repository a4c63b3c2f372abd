"""A child that a thread watches: it is reaped once, whoever asks about it meanwhile."""

import sys
import time

from ors_server.resources import watched_child
from ors_server.resources.watched_child import WatchedChild

PATIENCE = 60.0
"""Seconds that a test waits at most."""


def test_who_asks_whether_it_is_alive_leaves_its_end_to_the_thread(monkeypatch):
    monkeypatch.setattr(watched_child, "_PAUSE", 1.0)  # the thread is away while it ends
    child = WatchedChild([sys.executable, "-c", "import os; os.write(2, bytes(1 << 16)); os._exit(7)"])
    deadline = time.monotonic() + PATIENCE
    while child.is_alive():
        assert time.monotonic() < deadline
        child._watcher.join(0.01)
    child._watcher.join(PATIENCE)
    assert not child.is_alive()
    assert child._is_reaped
    assert child.end() == 7
