"""The words that a session's shell says on its terminal: readiness, end of command, death. Pure.

A mark is an operating-system-command escape, ``ESC ] ors ; kind ; fields... BEL``. The terminal carries
nothing that a command prints, since commands have pipes of their own; other text on it is the shell's own
remarks.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

_OPEN = b"\x1b]ors;"
_CLOSE = b"\x07"
_LONGEST_MARK = 256 * 1024
_LONGEST_REMARK = 4096
_PROMPT_FIELDS = 4

_ESCAPES = {
    "a": 7,
    "b": 8,
    "t": 9,
    "n": 10,
    "v": 11,
    "f": 12,
    "r": 13,
    "e": 27,
    "E": 27,
    "\\": 92,
    "'": 39,
    '"': 34,
    "?": 63,
}


@dataclass(frozen=True)
class Prompt:
    """The shell is done with command `sequence`; 0 stands for its start."""

    sequence: int
    status: int
    shell_pid: int
    """As the shell sees itself."""
    cwd: str


@dataclass(frozen=True)
class Death:
    """The shell ended; the init starts another one."""

    status: int


Mark: TypeAlias = Prompt | Death


def unquote(quoted: str) -> str:
    r"""Undo bash's ``printf %q``.

    Args:
        quoted: A word as bash quotes it: bare, with backslashes, or ``$'...'``.
    """
    ansi = quoted.startswith("$'") and quoted.endswith("'")
    body = quoted[2:-1] if ansi else quoted
    out = bytearray()
    at = 0
    while at < len(body):
        if body[at] != "\\" or at + 1 == len(body):
            out += body[at].encode(errors="surrogateescape")
            at += 1
        elif not ansi:
            out += body[at + 1].encode(errors="surrogateescape")
            at += 2
        else:
            byte, at = _escape(body, at + 1)
            out += byte
    return out.decode(errors="surrogateescape")


def _escape(body: str, at: int) -> tuple[bytes, int]:
    octal = at
    while octal < len(body) and octal < at + 3 and body[octal] in "01234567":
        octal += 1
    if octal > at:
        return bytes([int(body[at:octal], 8) & 0xFF]), octal
    code = _ESCAPES.get(body[at])
    return (bytes([code]) if code is not None else body[at].encode(errors="surrogateescape")), at + 1


@dataclass
class MarkReader:
    """Finds marks in what the terminal says, however it is cut into pieces."""

    _pending: bytes = field(default=b"", init=False)
    remarks: str = field(default="", init=False)
    """The last few kilobytes that the shell said beside its marks."""

    def feed(self, piece: bytes) -> list[Mark]:
        """Take the next bytes and return the marks completed by them, in order.

        Args:
            piece: Any number of bytes.
        """
        data = self._pending + piece
        marks: list[Mark] = []
        while (start := data.find(_OPEN)) >= 0:
            self._remark(data[:start])
            end = data.find(_CLOSE, start)
            if end < 0:
                break
            mark = _parse(data[start + len(_OPEN) : end])
            if mark is not None:
                marks.append(mark)
            data = data[end + 1 :]
        if data.find(_OPEN) < 0:
            kept = _overlap(data)
            self._remark(data[: len(data) - kept])
            data = data[len(data) - kept :]
        else:
            data = data[data.find(_OPEN) :]
        self._pending = data if len(data) <= _LONGEST_MARK else b""
        return marks

    def _remark(self, text: bytes) -> None:
        if text:
            said = self.remarks + text.decode(errors="replace")
            self.remarks = said[-_LONGEST_REMARK:]


def _overlap(data: bytes) -> int:
    """Return how many last bytes might begin a mark."""
    for length in range(min(len(_OPEN) - 1, len(data)), 0, -1):
        if _OPEN.startswith(data[-length:]):
            return length
    return 0


def _parse(body: bytes) -> Mark | None:
    kind, _, rest = body.decode(errors="surrogateescape").partition(";")
    try:
        if kind == "x":
            return Death(int(rest))
        if kind == "p":
            fields = rest.split(";", _PROMPT_FIELDS - 1)
            sequence, status, shell_pid, cwd = fields
            return Prompt(int(sequence), int(status) & 0xFF, int(shell_pid), unquote(cwd))
    except ValueError:
        return None
    return None
