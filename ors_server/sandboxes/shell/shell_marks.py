"""Parses the marks that a session's shell prints on its terminal: ready, end of command, exit. No I/O.

A mark is an operating-system-command escape, ``ESC ] ors ; kind ; fields... BEL``. Commands print to pipes of
their own, so any other text on the terminal comes from the shell itself.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

_OPEN = b"\x1b]ors;"
_CLOSE = b"\x07"
_MAX_MARK = 256 * 1024
_MAX_OTHER_OUTPUT = 4096
_PROMPT_FIELDS = 4

_ESCAPES = dict(zip("abtnvfreE\\'\"?", b"\a\b\t\n\v\f\r\x1b\x1b\\'\"?", strict=True))


@dataclass(frozen=True)
class PromptMark:
    """The shell finished command `sequence`; 0 is its start, with the status 1 if it restored no state."""

    sequence: int
    status: int
    shell_pid: int
    """In the shell's own pid namespace."""
    cwd: str


@dataclass(frozen=True)
class ExitMark:
    """The shell exited; the init starts another one."""

    status: int


Mark: TypeAlias = PromptMark | ExitMark


def unquote(quoted: str) -> str:
    """Reverse bash's ``printf %q``."""
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
class MarkParser:
    """Finds marks in the terminal's output, in pieces of any size."""

    _pending: bytes = field(default=b"", init=False)
    other_output: str = field(default="", init=False)
    """The last few kilobytes that the shell printed other than its marks."""

    def feed(self, piece: bytes) -> list[Mark]:
        """Take the next bytes and return the marks that they complete, in order."""
        data = self._pending + piece
        marks: list[Mark] = []
        while (start := data.find(_OPEN)) >= 0:
            self._keep_other(data[:start])
            end = data.find(_CLOSE, start)
            if end < 0:
                break
            mark = _parse(data[start + len(_OPEN) : end])
            if mark is not None:
                marks.append(mark)
            data = data[end + 1 :]
        if data.find(_OPEN) < 0:
            # A mark may be cut anywhere, even within its opening bytes.
            pending_length = _overlap(data)
            self._keep_other(data[: len(data) - pending_length])
            data = data[len(data) - pending_length :]
        else:
            data = data[data.find(_OPEN) :]
        # An opening without an end would otherwise grow with everything that follows.
        self._pending = data if len(data) <= _MAX_MARK else b""
        return marks

    def _keep_other(self, text: bytes) -> None:
        if text:
            printed = self.other_output + text.decode(errors="replace")
            self.other_output = printed[-_MAX_OTHER_OUTPUT:]


def _overlap(data: bytes) -> int:
    """Return how many last bytes may be the beginning of a mark."""
    for length in range(min(len(_OPEN) - 1, len(data)), 0, -1):
        if _OPEN.startswith(data[-length:]):
            return length
    return 0


def _parse(body: bytes) -> Mark | None:
    kind, _, rest = body.decode(errors="surrogateescape").partition(";")
    try:
        if kind == "x":
            return ExitMark(int(rest))
        if kind == "p":
            fields = rest.split(";", _PROMPT_FIELDS - 1)
            sequence, status, shell_pid, cwd = fields
            return PromptMark(int(sequence), int(status) & 0xFF, int(shell_pid), unquote(cwd))
    except ValueError:
        return None
    return None
