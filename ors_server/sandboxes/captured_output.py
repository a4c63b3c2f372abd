"""Captures a stream: the first and last bytes are kept, every byte is counted. No I/O."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Output:
    """The kept part of a stream."""

    head: bytes = b""
    """First bytes; all of them if nothing was cut."""
    tail: bytes = b""
    """Last bytes, after the cut."""
    total: int = 0
    """Bytes that were printed."""
    lines: int = 0
    """Line feeds that were printed."""

    @property
    def omitted(self) -> int:
        """Bytes between head and tail that were not kept."""
        return self.total - len(self.head) - len(self.tail)

    @property
    def kept(self) -> bytes:
        """Head and tail, with nothing between."""
        return self.head + self.tail

    @property
    def text(self) -> str:
        """The output as text; a cut is at ends of lines if they are near, and is marked.

        Bytes that are not UTF-8 become U+FFFD.
        """
        if not self.omitted:
            return self.kept.decode(errors="replace")
        last, first = self.head.rfind(b"\n") + 1, self.tail.find(b"\n") + 1
        head = self.head[:last] if last > len(self.head) // 2 else self.head
        tail = self.tail[first:] if first < len(self.tail) // 2 else self.tail
        lines = self.lines - head.count(b"\n") - tail.count(b"\n")
        count = f"{lines} lines, " if lines > 0 else ""
        cut = f"[... {count}{self.total - len(head) - len(tail)} of {self.total} bytes omitted ...]\n"
        between = "" if head.endswith(b"\n") else "\n"
        return head.decode(errors="replace") + between + cut + tail.decode(errors="replace")


class OutputCapture:
    """Takes a stream in pieces and keeps at most its first and last bytes."""

    def __init__(self, keep_head: int, keep_tail: int) -> None:
        self._keep_head = keep_head
        self._keep_tail = keep_tail
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0
        self.lines = 0

    def feed(self, piece: bytes) -> None:
        """Take the next bytes."""
        self.total += len(piece)
        self.lines += piece.count(b"\n")
        space = self._keep_head - len(self._head)
        if space > 0:
            self._head += piece[:space]
            piece = piece[space:]
        if not piece:
            return
        if len(piece) >= self._keep_tail:
            self._tail[:] = piece[-self._keep_tail :] if self._keep_tail else b""
            return
        self._tail += piece
        # Cut only when twice the length is reached: cutting at every piece would copy the tail for each of
        # them.
        if len(self._tail) > 2 * self._keep_tail:
            del self._tail[: -self._keep_tail]

    def output(self) -> Output:
        """Return what is kept so far."""
        tail = bytes(self._tail[-self._keep_tail :]) if self._keep_tail else b""
        return Output(bytes(self._head), tail, self.total, self.lines)

    def take(self) -> Output:
        """Return what is kept, and start over."""
        output = self.output()
        self._head.clear()
        self._tail.clear()
        self.total = self.lines = 0
        return output
