"""Reads server-sent events from bytes as they arrive.

Follows section 9.2.6 of the HTML standard as far as the Open Reward Standard needs it: one leading space of a
value is removed, comments are skipped, and a blank line ends an event.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ors_server.client.bounded_http import BrokenAnswerError

MAX_LINE = 64 * 1024 * 1024
"""Maximum number of bytes of one line."""


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One server-sent event."""

    name: str
    data: str
    """Its data lines, joined by line feeds."""


class EventReader:
    """Cuts a stream of bytes into events."""

    __slots__ = ("_data", "_length", "_name", "_pieces", "last_id")

    def __init__(self) -> None:
        self.last_id = ""
        """The newest id, with which a reader comes back; a stream may state one without an event."""
        self._pieces: list[bytes] = []  # of the line that has not ended, joined once it has
        self._length = 0
        self._name = b""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[ServerSentEvent]:
        """Read the next bytes and yield the events that they complete.

        Raises:
            BrokenAnswerError: If a line is too long.
        """
        # A piece may end in the middle of a line, which is joined once, at its end.
        *lines, rest = piece.split(b"\n")
        if lines:
            lines[0] = b"".join([*self._pieces, lines[0]])
            self._pieces, self._length = [], 0
        self._pieces.append(rest)
        self._length += len(rest)
        if self._length > MAX_LINE:
            raise BrokenAnswerError(f"a line of the stream has more than {MAX_LINE} bytes")
        for line in lines:
            content = line.removesuffix(b"\r")
            label, _, value = content.partition(b":")
            if label == b"data":
                self._data.append(value.removeprefix(b" "))
            elif label == b"event":
                self._name = value.removeprefix(b" ")
            elif label == b"id":
                self.last_id = value.removeprefix(b" ").decode(errors="replace")
            elif not content and (self._name or self._data):
                name, data = self._name, b"\n".join(self._data)
                self._name, self._data = b"", []
                yield ServerSentEvent(
                    name.decode(errors="replace") or "message", data.decode(errors="replace")
                )
