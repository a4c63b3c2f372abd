"""A call from its beginning to its one result, which stays readable under the call's id."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

import anyio

from ors_server.authoring.client import CallingClient, NoClient
from ors_server.authoring.context import ProgressListener
from ors_server.errors import OrsServerError, StoreError
from ors_server.wire import GroupScore, JSONObject, ToolOutput


class RefusalReason(StrEnum):
    """Why a call was not run; the reference implementation's words."""

    NOT_FOUND = "not_found"
    INPUT_VALIDATION = "input_validation"
    EPISODE_FINISHED = "episode_finished"


@dataclass(frozen=True, slots=True)
class Completed:
    """The call gave an output: the tool's, or the server's where an agent's mistake was charged."""

    output: ToolOutput
    step: int
    is_error: bool = False
    """Whether the output tells the agent of a mistake of its own."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The call was not run, or its result was discarded, and nothing was paid."""

    reason: RefusalReason
    error: str
    step: int | None = None
    """The step's number; `None` for a call after the end, which is no step."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The call failed through no fault of the agent's, and nothing was paid."""

    error: OrsServerError


@dataclass(frozen=True, slots=True)
class Scored:
    """A group of rollouts was scored."""

    scores: tuple[GroupScore, ...]


CallResult: TypeAlias = Completed | Refusal | Fault | Scored


NO_CLIENT = NoClient()
"""The caller of whom nothing can be asked."""


@dataclass(slots=True, eq=False)
class Call:
    """One call; everybody who asks for its id gets the same result."""

    id: str
    tool: str
    arguments: JSONObject
    result: CallResult | None = None
    listeners: list[ProgressListener] = field(default_factory=list[ProgressListener])
    client: CallingClient = NO_CLIENT
    """The calling program, of which the tool may ask something while the call runs."""
    scope: anyio.CancelScope | None = None
    """Cancels the call while it runs."""
    is_cancelled: bool = False
    """Whether somebody asked the call to stop."""
    _done: anyio.Event | None = None

    @property
    def is_unwritten(self) -> bool:
        """Whether the step could not be written, so that asking again under the same id is worth while."""
        return isinstance(self.result, Fault) and isinstance(self.result.error, StoreError)

    @property
    def is_done(self) -> bool:
        """Whether the result is there."""
        return self.result is not None

    def resolve(self, result: CallResult) -> None:
        """Set the result and wake everybody who waits; the first result stays.

        Args:
            result: What the call came to.
        """
        if self.result is None:
            self.result = result
        self.scope = None
        self.client = NO_CLIENT
        self.listeners.clear()
        if self._done is not None:
            self._done.set()
            self._done = None  # the call is kept for replays; what woke its readers is not

    def mend(self, result: CallResult) -> None:
        """Replace the fault of a call whose step was written in the end.

        Args:
            result: What the call came to.
        """
        self.result = result

    async def wait(self) -> CallResult:
        """Return the result, waiting for it as long as it takes."""
        while self.result is None:
            if self._done is None:
                self._done = anyio.Event()
            await self._done.wait()
        return self.result

    def seal(self) -> AbstractContextManager[object]:
        """Return the context in which the result is written; from now on a wish to stop comes too late."""
        self.scope = None
        return anyio.CancelScope(shield=True) if self.is_cancelled else nullcontext()

    def cancel(self) -> None:
        """Ask the call to stop, running or not begun yet; a call that is done stays as it is."""
        self.is_cancelled = True
        if self.scope is not None:
            self.scope.cancel()
