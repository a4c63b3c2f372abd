"""One epoll for all descriptors of a session, so that the event loop watches a single one per session."""

import asyncio
import select
from collections.abc import Callable
from typing import TypeAlias

OnReady: TypeAlias = Callable[[int], None]
"""Called with the epoll events of the descriptor; must not wait and must not raise."""

_TURN = 16
_AT_EDGES = select.EPOLLIN | select.EPOLLET


class Pump:
    """Calls back when a descriptor can be read; several sessions share the loop fairly.

    Every callback takes a bounded bite, and what is left comes back in the next turn. Must be made, used and
    closed on the loop's own thread.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._callbacks: dict[int, OnReady] = {}
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._epoll.fileno(), self._turn)

    def watch(self, descriptor: int, on_ready: OnReady, *, at_edges: bool = False) -> None:
        """Call back whenever the descriptor has something to read, or is at its end.

        Args:
            descriptor: Not watched yet.
            on_ready: What to call.
            at_edges: Only when something new has happened; who leaves something unread asks to `look_again`.
        """
        self._epoll.register(descriptor, _AT_EDGES if at_edges else select.EPOLLIN)
        self._callbacks[descriptor] = on_ready

    def look_again(self, descriptor: int) -> None:
        """Call back in the next turn if there is still something to read, though nothing new has happened.

        Args:
            descriptor: Watched at edges.
        """
        self._epoll.modify(descriptor, _AT_EDGES)

    def forget(self, descriptor: int) -> None:
        """Stop watching; call it before the descriptor is closed.

        Args:
            descriptor: Watched until now.
        """
        if self._callbacks.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def close(self) -> None:
        """Stop watching anything; a second call does nothing."""
        if not self._epoll.closed:
            self._loop.remove_reader(self._epoll.fileno())
            self._callbacks.clear()
            self._epoll.close()

    def _turn(self) -> None:
        for descriptor, events in self._epoll.poll(0, _TURN):
            on_ready = self._callbacks.get(descriptor)
            if on_ready is not None:
                on_ready(events)
            if self._epoll.closed:
                return
