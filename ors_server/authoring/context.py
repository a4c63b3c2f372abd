"""What a running tool may know of its call, and say while it runs."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from ors_server.wire import JSONObject

ProgressListener: TypeAlias = Callable[[float, float | None, str | None], Awaitable[None]]
"""Told (progress, total, message) while a tool runs."""


@dataclass(slots=True)
class CallContext:
    """The call that a tool serves; a tool receives it by annotating a parameter with this class.

    Attributes:
        session_id: Id of the session.
        call_id: Id of the call, unique within the session.
        step: Number that the step will have, from 1.
        task_spec: The task being played.
        listeners: Who is told of progress.
    """

    session_id: str
    call_id: str
    step: int
    task_spec: JSONObject
    listeners: list[ProgressListener]

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell whoever listens how far the call is; where nobody listens, nothing happens.

        Args:
            progress: How far, in the tool's own unit; it should only grow.
            total: The value of `progress` at the end, if known.
            message: A short text for a person.
        """
        for listener in list(self.listeners):
            await listener(progress, total, message)
