"""The stream of what happens in all sessions of a server, on every host, from where a reader left off.

Invariants. Each host numbers its own events, and the id of an event in a stream has the reader's position on
every host: `h0.TOKEN.NUMBER,h1.TOKEN.NUMBER`. A token stands for one log of one process, so that a position
in the log of a process that was replaced is never taken for one in the new log. A reader that comes back with
the id gets every later event that is still kept, and learns how many are not.
"""

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Annotated, ClassVar, TypeAlias

from pydantic import Field, TypeAdapter, ValidationError

from ors_server.doors.control.models import LabelText, labels_of
from ors_server.doors.control.operations import (
    LAST_EVENT,
    ControlRequest,
    EventResponse,
    RequestQuery,
    encode,
    mistakes_of,
    problem_event,
)
from ors_server.doors.control.peers import Peers
from ors_server.doors.http.request_errors import WrongRequestError
from ors_server.doors.http.sse import event
from ors_server.model.clock import Clock
from ors_server.model.errors import CapacityError, MachineryError, OrsServerError, ShuttingDownError
from ors_server.model.host_slot import SINGLE_HOST, host_name
from ors_server.model.logs import get_logger
from ors_server.sessions.activity import ActivityEvent, ActivityFeed, ActivityReader

log = get_logger("ors_server.control")

STOP_SECONDS = 0.5
"""Seconds after which a silent stream looks whether the server stops."""
KEPT_SECONDS = 60.0
"""Seconds for which events are kept after the last reader has left, so that it can come back."""
CONNECT_SECONDS = 5.0
"""Seconds after which a stream begins without a host that does not answer."""
RETRY_SECONDS = 1.0
"""Seconds between two attempts to follow another host."""
MAX_FOLLOWERS = 256
"""Maximum number of streams that are sent at once."""
MAX_QUEUED = 100
"""Events of all hosts that wait for one reader; more wait at their hosts."""
PASSED_ON = frozenset({"opened", "call", "step", "closed", "missed"})
"""Events of another host that its reader gets; each host ends its own streams."""
_HOST_POSITION = r"h[0-9]{1,6}\.[0-9a-f]{8}\.[0-9]{1,15}"
_CURSOR: TypeAdapter[str] = TypeAdapter(
    Annotated[str, Field(max_length=40_000, pattern=rf"^{_HOST_POSITION}(,{_HOST_POSITION})*$")]
)

Name: TypeAlias = Annotated[str, Field(min_length=1)]


class ActivityQuery(RequestQuery):
    """Which episodes to follow."""

    repeatable: ClassVar[frozenset[str]] = frozenset({"environment", "label"})

    environment: list[Name] | None = None
    """Names of environments, of which one fits; all by default."""
    label: list[LabelText] | None = None
    """`KEY=VALUE`; given several times, the episode has all of them."""
    seconds: Annotated[float, Field(ge=0, le=86_400)] | None = None
    """Ends the stream after so long; by default it ends with the server."""

    def fits(self, activity_event: ActivityEvent) -> bool:
        """Return whether an event is about such an episode."""
        is_there = self.environment is None or activity_event.environment in self.environment
        return is_there and labels_of(self.label or ()).items() <= activity_event.labels.items()


@dataclass(slots=True, eq=False)
class ActivityLog:
    """The newest events of this process, numbered from 1; a reader of the feed keeps them."""

    reader: ActivityReader = field(default_factory=ActivityReader)
    token: str = field(default_factory=lambda: token_hex(4))

    @property
    def dropped_count(self) -> int:
        """Number of events that are no longer kept."""
        return self.reader.missed

    @property
    def newest_number(self) -> int:
        """Number of the newest event."""
        return self.reader.missed + len(self.reader.waiting)


@dataclass(frozen=True, slots=True)
class HostEvent:
    """An event of a host for a reader, or only a new position."""

    host: str
    position: str
    """The reader's position on the host after it: TOKEN.NUMBER."""
    name: str = ""
    """Of the event; empty where only the position has changed."""
    data: str = ""


class ActivityHandlers:
    """Answers requests about what happens in all sessions."""

    def __init__(self, feed: ActivityFeed, *, clock: Clock, ping_seconds: float) -> None:
        """Follow the sessions of this process, once a client asks."""
        self.peers: Peers | None = None
        """The other hosts; set by the application that serves the operations."""
        self._feed = feed
        self._clock = clock
        self._ping_seconds = ping_seconds
        self._log: ActivityLog | None = None
        self._followers = 0
        self._is_stopping = False

    def stop(self) -> None:
        """End every stream soon, because a server that stops waits for them."""
        self._is_stopping = True

    async def follow_everything(
        self, request: ControlRequest, query: ActivityQuery
    ) -> EventResponse[ActivityEvent]:
        """Stream what happens in all sessions, on every host: episodes, calls that begin, steps."""
        cursor = _read_cursor(request.headers.get(LAST_EVENT))
        if self._followers >= MAX_FOLLOWERS:
            raise CapacityError(f"{MAX_FOLLOWERS} streams of events are open already; close one, or retry")
        return EventResponse(self._stream(request, query, cursor))

    async def _stream(
        self, request: ControlRequest, query: ActivityQuery, cursor: dict[str, str]
    ) -> AsyncGenerator[bytes, None]:
        self._followers += 1
        events: asyncio.Queue[HostEvent] = asyncio.Queue(MAX_QUEUED)
        hosts = {self._own_name: self._follow_own(query, cursor.get(self._own_name), events)}
        if self.peers is not None and self.peers.are_asked(request.headers):
            for number in self.peers.others():
                name = host_name(number)
                hosts[name] = self._follow_host(self.peers, number, request, cursor.get(name), events)
        # Tasks of asyncio, because a cancel scope must not be left open where a generator yields.
        tasks = [asyncio.create_task(follow) for follow in hosts.values()]
        try:
            async with aclosing(self._write(query, cursor, events, hosts.keys())) as pieces:
                async for piece in pieces:
                    yield piece
                    if tasks[0].done():  # it only ends by a defect
                        tasks[0].result()
        except OrsServerError as error:
            yield problem_event(error)
        except Exception:  # a stream that has begun must end with an event in every case
            log.exception("activity_defect")
            yield problem_event(OrsServerError("the server failed; its log has the details"))
        finally:
            for task in tasks:
                task.cancel()
            self._followers -= 1
            if not self._followers:
                asyncio.get_running_loop().call_later(KEPT_SECONDS, self._forget, self._log)

    async def _write(
        self,
        query: ActivityQuery,
        cursor: dict[str, str],
        events: "asyncio.Queue[HostEvent]",
        awaited: Collection[str],
    ) -> AsyncGenerator[bytes, None]:
        """Write the events of all hosts; the stream begins once each has sent the reader's position."""
        begun = self._clock.monotonic()
        missing, silent, is_begun = {*awaited}, 0.0, False
        while not self._is_stopping:
            now = self._clock.monotonic()
            if query.seconds is not None and now >= begun + query.seconds:
                yield event("end", "{}")
                return
            if not is_begun and (not missing or now >= begun + CONNECT_SECONDS):
                is_begun = True
                yield _comment("following", cursor)
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    host_event = await events.get()
            except TimeoutError:
                silent += STOP_SECONDS
                if silent >= self._ping_seconds:
                    silent = 0.0
                    yield _comment("ping", cursor)
                continue
            cursor[host_event.host] = host_event.position
            missing.discard(host_event.host)
            if host_event.name:
                silent = 0.0
                yield f"event: {host_event.name}\nid: {_as_id(cursor)}\ndata: {host_event.data}\n\n".encode()
        raise ShuttingDownError("the server is stopping; come back with Last-Event-ID")

    @property
    def _own_name(self) -> str:
        return (SINGLE_HOST if self.peers is None else self.peers.slot).name

    async def _follow_own(
        self, query: ActivityQuery, position: str | None, events: "asyncio.Queue[HostEvent]"
    ) -> None:
        """Put the events of this process after a position into a queue; without one, what happens next."""
        host, own = self._own_name, self._log or ActivityLog()
        self._log = own
        self._feed.readers.add(own.reader)
        token, _, number = (position or f"{own.token}.{own.newest_number}").partition(".")
        is_known = token == own.token and int(number) <= own.newest_number
        at = int(number) if is_known else own.dropped_count
        if not is_known:  # of an earlier process, or a log that no reader came back to
            await events.put(HostEvent(host, f"{own.token}.{at}", "missed", "null"))
        await events.put(HostEvent(host, f"{own.token}.{at}"))
        while True:
            if at < own.dropped_count:
                missed, at = own.dropped_count - at, own.dropped_count
                await events.put(HostEvent(host, f"{own.token}.{at}", "missed", str(missed)))
            elif at < own.newest_number:
                activity_event = own.reader.waiting[at - own.dropped_count]
                at += 1
                is_selected = query.fits(activity_event)
                await events.put(
                    HostEvent(
                        host,
                        f"{own.token}.{at}",
                        activity_event.kind if is_selected else "",
                        encode(activity_event) if is_selected else "",
                    )
                )
            else:
                own.reader.arrived.clear()  # nothing can arrive between the comparison and the wait
                await own.reader.arrived.wait()

    async def _follow_host(
        self,
        peers: Peers,
        number: int,
        request: ControlRequest,
        position: str | None,
        events: "asyncio.Queue[HostEvent]",
    ) -> None:
        """Put the events of another host into a queue, again and again while it restarts."""
        name = host_name(number)
        while True:
            last = {} if position is None else {LAST_EVENT: _as_id({name: position})}
            try:
                stream = peers.events(number, request.query_string, {**request.headers, **last})
                async with aclosing(stream):
                    async for kind, last_id, data in stream:
                        position = _read_cursor(last_id)[name]
                        shown = kind if kind in PASSED_ON else ""
                        await events.put(HostEvent(name, position, shown, data if shown else ""))
            except MachineryError as error:
                log.info("activity_of_host_not_read", host=name, error=str(error))
            await self._clock.sleep(RETRY_SECONDS)

    def _forget(self, own: ActivityLog | None) -> None:
        """Keep no more events, unless a client follows again."""
        if own is not None and own is self._log and not self._followers:
            self._feed.readers.discard(own.reader)
            self._log = None


def _read_cursor(text: str | None) -> dict[str, str]:
    """Return a reader's position on each host; `WrongRequestError` if no event has this id."""
    if text is None:
        return {}
    try:
        parts = _CURSOR.validate_python(text).split(",")
    except ValidationError as error:
        raise WrongRequestError(mistakes_of("header", error, LAST_EVENT)) from error
    return {name: position for name, _, position in (part.partition(".") for part in parts)}


def _as_id(cursor: Mapping[str, str]) -> str:
    return ",".join(f"{name}.{position}" for name, position in sorted(cursor.items()))


def _comment(text: str, cursor: Mapping[str, str]) -> bytes:
    """Write a comment with the reader's position, from which it can come back without an event."""
    return f": {text}\nid: {_as_id(cursor)}\n\n".encode()
