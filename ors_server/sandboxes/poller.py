"""Watches all descriptors of a session with one epoll, so the event loop watches one per session."""

import asyncio
import select
from collections.abc import Callable
from typing import TypeAlias

OnReady: TypeAlias = Callable[[int], None]
"""Called with the epoll events of the descriptor; must not wait and must not raise."""

_EVENTS = 16
_EDGE_TRIGGERED = select.EPOLLIN | select.EPOLLET


class Poller:
    """Calls back when a descriptor is readable; sessions share the event loop fairly.

    Every callback reads a bounded amount, and the rest comes in the next loop iteration. Must be created,
    used and closed on the event loop's thread.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._callbacks: dict[int, OnReady] = {}
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._epoll.fileno(), self._dispatch)

    def watch(self, descriptor: int, on_ready: OnReady, *, edge_triggered: bool = False) -> None:
        """Call back whenever the descriptor is readable or at its end.

        Args:
            descriptor: Not watched yet.
            edge_triggered: Call back only when something new arrives; a callback that leaves data unread
                calls `rearm`.
        """
        self._epoll.register(descriptor, _EDGE_TRIGGERED if edge_triggered else select.EPOLLIN)
        self._callbacks[descriptor] = on_ready

    def rearm(self, descriptor: int) -> None:
        """Call back in the next iteration if an edge-triggered descriptor still has unread data."""
        self._epoll.modify(descriptor, _EDGE_TRIGGERED)

    def unwatch(self, descriptor: int) -> None:
        """Stop watching a descriptor; call it before the descriptor is closed."""
        if self._callbacks.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def close(self) -> None:
        """Stop watching everything; a second call does nothing."""
        if not self._epoll.closed:
            self._loop.remove_reader(self._epoll.fileno())
            self._callbacks.clear()
            self._epoll.close()

    def _dispatch(self) -> None:
        # At most this many per iteration, then other sessions have their turn; epoll reports the rest again.
        for descriptor, events in self._epoll.poll(0, _EVENTS):
            # An earlier callback of this round may have stopped watching it, or closed the whole poller.
            on_ready = self._callbacks.get(descriptor)
            if on_ready is not None:
                on_ready(events)
            if self._epoll.closed:
                return
