"""Watches an event loop: how late it runs, and which code of an author's held it.

All sessions share one event loop, so that code which blocks it (`time.sleep` in an async tool) delays
all of them. A heartbeat on the loop measures how late it is. Author code is stepped under its name, which a
long step is reported with. A thread looks at the loop's stack while it is held, and so finds code without a
name. Time in which the machine stopped the whole process does not count.
"""

import asyncio
import math
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import PurePath
from types import FrameType, coroutine
from typing import Any, TypeVar

from anyio.lowlevel import RunVar

from ors_server.model.logs import get_logger
from ors_server.timing.late_alarm import TOLERANCE, LateAlarm, make_alarm

log = get_logger("ors_server.loop")

T = TypeVar("T")

HEARTBEAT_SECONDS = 0.1
"""Seconds between two heartbeats."""
HOLD_SECONDS = 0.1
"""Seconds for which a step of an author's code may hold the loop without being reported."""
STUCK_SECONDS = 1.0
"""Seconds after which a loop that is still held is logged, because it may never be free again."""
WARN_AGAIN_SECONDS = 10.0
"""Seconds in which one name is warned of once."""
MAX_NAMES = 64
"""Names whose figures are kept; more are counted together."""
OVERFLOW_NAME = "others"
"""Name under which the holds of code beyond `MAX_NAMES` names are counted."""
UNNAMED = "other code"
"""Name of code that held the loop while no author's code ran; the log says where."""
MAX_SHOWN_FRAMES = 3
"""Innermost frames of a stack that the log shows."""

_now = time.monotonic


@dataclass(frozen=True, slots=True)
class AuthorCode:
    """A piece of an author's code that runs: a tool, a hook or a reward of an environment."""

    environment: str
    part: str
    """For instance `tool 'look'` or `setup`."""
    is_urgent: bool = False
    """Whether a client waits for it before play can begin."""

    def __str__(self) -> str:
        return f"{self.part} of {self.environment!r}"


author_code: ContextVar[AuthorCode | None] = ContextVar("author_code", default=None)
"""The author's code that runs in this context."""


class RunningCode:
    """Has an author's code run under its name in this context.

    Hot path: a class is several times cheaper than `@contextmanager`.
    """

    __slots__ = ("_before", "_code")

    def __init__(self, code: AuthorCode) -> None:
        self._code = code

    def __enter__(self) -> None:
        self._before = author_code.set(self._code)

    def __exit__(self, *_error: object) -> None:
        author_code.reset(self._before)


def running_code(environment: str, part: str, *, is_urgent: bool = False) -> AbstractContextManager[None]:
    """Name the author's code that runs in this context."""
    return RunningCode(AuthorCode(environment, part, is_urgent))


@dataclass(frozen=True, slots=True)
class LoopHold:
    """The number and length of times for which one piece of code held the loop."""

    name: str
    times: int
    seconds: float
    """In all."""
    longest_s: float


@dataclass(frozen=True, slots=True)
class LoopFigures:
    """The lateness of an event loop."""

    late_s: float
    """Seconds that it was late, in all, since it is watched."""
    longest_late_s: float
    held_by: tuple[LoopHold, ...]
    """Code that held it for longer than `HOLD_SECONDS`, the longest first."""

    def summary(self) -> dict[str, Any]:
        """Return the figures with JSON types, for a health check."""
        return {
            "late_s": round(self.late_s, 3),
            "longest_late_s": round(self.longest_late_s, 3),
            "held_by": [
                {
                    "name": holder.name,
                    "times": holder.times,
                    "seconds": round(holder.seconds, 3),
                    "longest_s": round(holder.longest_s, 3),
                }
                for holder in self.held_by
            ],
        }


class LoopWatch:
    """Measures one event loop; everything but its own thread's look happens on that loop."""

    def __init__(self, now: Callable[[], float] = _now) -> None:
        """Watch nothing yet; `now` also runs while the loop is held."""
        self.now = now
        self._due = math.inf
        self._late_s = 0.0
        self._longest_s = 0.0
        self._holdings: dict[str, LoopHold] = {}
        self._warned: dict[str, float] = {}
        self._attributed_s = 0.0
        """Seconds that named code held the loop since the last heartbeat."""
        self._lost_before_s = 0.0
        """Seconds in all, at the last heartbeat, for which the machine did not run the loop's thread:
        lateness that no code caused (`LateAlarm.lost_s`)."""
        self._running: AuthorCode | str | None = None
        self._stack_text: str | None = None
        self._alarm: LateAlarm | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        """The watched loop, while it is watched."""
        self._loop_thread = 0
        self._timer: asyncio.TimerHandle | None = None

    def late_until(self, moment: float) -> float:
        """Return how many seconds the loop has been late in all, up to a moment."""
        late_s = moment - self._due
        return self._late_s + late_s if late_s > TOLERANCE else self._late_s

    def beat(self) -> None:
        """Note that the loop is free, and set when it should be free again."""
        now = self.now()
        late_s = now - self._due
        lost_s = 0.0
        if self._alarm is not None:
            lost_s = self._alarm.lost_until(now)
            self._alarm.put_off(HEARTBEAT_SECONDS + TOLERANCE)
        if late_s > TOLERANCE:
            self._late_s += late_s
            self._longest_s = max(self._longest_s, late_s)
            unattributed_s = late_s - self._attributed_s - (lost_s - self._lost_before_s)
            if unattributed_s > HOLD_SECONDS:
                self._hold(UNNAMED, unattributed_s, self._stack_text)
        self._stack_text = None
        self._attributed_s = 0.0
        self._lost_before_s = lost_s
        self._due = now + HEARTBEAT_SECONDS

    def figures(self) -> LoopFigures:
        """Return how the loop does."""
        holdings = sorted(self._holdings.values(), key=lambda holding: holding.longest_s, reverse=True)
        return LoopFigures(self._late_s, self._longest_s, tuple(holdings))

    @coroutine
    def stepping(
        self,
        awaitable: Awaitable[T],
        name: AuthorCode | str,
        on_hold: Callable[[float], None] | None = None,
        on_wait: Callable[[], None] | None = None,
    ) -> Generator[Any, Any, T]:
        """Await something and note under a name each step of it that holds the loop.

        Args:
            on_hold: Gets the seconds that the loop was late because of a step.
            on_wait: Called once, before it waits for the first time.
        """
        steps: Any = awaitable.__await__()
        step: Callable[[Any], Any] = getattr(steps, "send", None) or (
            lambda _argument: next(steps)  # an iterator that takes nothing
        )
        resume, argument = step, None
        now = self.now
        while True:
            outer, self._running = self._running, name
            attributed_s, alarm = self._attributed_s, self._alarm
            lost_s = 0.0 if alarm is None else alarm.lost_s
            began = now()
            try:
                passed = resume(argument)
            except StopIteration as stop:
                result: T = stop.value
                return result
            finally:
                self._running = outer
                ended = now()
                if ended - began > TOLERANCE:
                    if on_hold is not None:
                        on_hold(max(0.0, ended - max(began, self._due)))
                    held_s = ended - began - (self._attributed_s - attributed_s)
                    if self._alarm is not None:
                        held_s -= self._alarm.lost_until(self.now()) - lost_s
                    if held_s > HOLD_SECONDS:
                        self._attributed_s += held_s
                        self._hold(str(name), held_s, self._stack_text)
            if on_wait is not None:
                on_wait()
                on_wait = None
            try:
                argument, resume = (yield passed), step
            except BaseException as error:
                if not hasattr(steps, "throw"):
                    raise
                argument, resume = error, steps.throw

    def _hold(self, name: str, seconds: float, stack_text: str | None) -> None:
        if name not in self._holdings and len(self._holdings) >= MAX_NAMES:
            name = OVERFLOW_NAME
        before = self._holdings.get(name, LoopHold(name, 0, 0.0, 0.0))
        self._holdings[name] = LoopHold(
            name, before.times + 1, before.seconds + seconds, max(before.longest_s, seconds)
        )
        now = self.now()
        if now - self._warned.get(name, -math.inf) >= WARN_AGAIN_SECONDS:
            self._warned[name] = now
            log.warning(
                "event_loop_held",
                by=name,
                seconds=round(seconds, 3),
                at=stack_text,
                hint="blocking code in an async function delays all sessions: make it a plain def",
            )

    @contextmanager
    def watching(self) -> Generator["LoopWatch"]:
        """Watch the loop that runs this, until the context is left."""
        self._loop_thread = threading.get_ident()
        alarm = self._alarm = make_alarm(self.now)
        looker = threading.Thread(target=self._look, args=(alarm,), name="ors-loop-watch", daemon=True)
        self.loop = loop = asyncio.get_running_loop()

        def beat_again() -> None:
            self.beat()
            self._timer = loop.call_later(HEARTBEAT_SECONDS, beat_again)

        beat_again()
        looker.start()
        before = current_watch.get()
        current_watch.set(self)
        try:
            yield self
        finally:
            current_watch.set(before)
            if self._timer is not None:
                self._timer.cancel()
            self._due = math.inf
            self.loop = self._alarm = None
            alarm.close()

    def _look(self, alarm: LateAlarm) -> None:
        """Run in a thread: look at the loop's stack whenever the loop is late."""
        logged = -math.inf
        while alarm.wait():
            now, due = self.now(), self._due
            if now - due <= TOLERANCE:
                continue
            self._stack_text = _describe_frames(_frames_of_threads().get(self._loop_thread))
            if now - due > STUCK_SECONDS and logged != due:
                logged = due
                log.warning(
                    "event_loop_stuck",
                    by=str(self._running),
                    seconds=round(now - due, 3),
                    at=self._stack_text,
                )


_frames_of_threads: Callable[[], dict[int, FrameType]] = sys._current_frames  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # its documented name


def _describe_frames(frame: FrameType | None) -> str:
    """Name the innermost frames: `file.py:12 in look`, the innermost first."""
    descriptions: list[str] = []
    while frame is not None and len(descriptions) < MAX_SHOWN_FRAMES:
        code = frame.f_code
        descriptions.append(f"{PurePath(code.co_filename).name}:{frame.f_lineno} in {code.co_name}")
        frame = frame.f_back
    return " < ".join(descriptions)


current_watch: RunVar[LoopWatch | None] = RunVar("ors_loop_watch", None)
"""Watches the running event loop."""
