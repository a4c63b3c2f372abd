"""Messages over two descriptors, one at a time in either direction. Needs only the standard library.

A message is a tag of 32 characters, its length in 8 hexadecimal digits, and its bytes. The answer to a
message has that message's tag, which its sender chose at random: bytes that were not written as the answer
to this one message are not accepted as it.
"""

from __future__ import annotations  # Python 3.9 knows no `X | None` at run time

import os

TAG_LENGTH = 32
HEADER_LENGTH = TAG_LENGTH + 8
NO_TAG = b"0" * TAG_LENGTH
MAX_MESSAGE = 8 * 1024 * 1024
"""Bytes."""
# The first byte of a message between the process of hidden tests and the server: requests, then replies.
ASK_AGENT = b"A"
"""Followed by a message to the agent's worker; answered by `WORKER_ANSWER` or `AGENT_LOST`."""
START_WORKER = b"S"
"""Start a new worker in place of the lost one; answered by `WORKER_STARTED` or `AGENT_LOST`."""
VERDICT = b"V"
"""Followed by a report of pytest as JSON; not answered."""
WORKER_ANSWER = b"R"
WORKER_STARTED = b"G"
AGENT_LOST = b"X"
"""Followed by the reason."""
_PIECE = 65_536


class ChannelError(Exception):
    """The received bytes are not a message."""


def frame(tag: bytes, payload: bytes) -> bytes:
    """Return a message's bytes."""
    return tag + b"%08x" % len(payload) + payload


def payload_length(header: bytes, tag: bytes | None = None) -> int:
    """Return how many bytes follow a header, whose tag must be `tag` if that is given.

    Raises:
        ChannelError: It is not a header, has another tag, or announces more than a message may hold.
    """
    if tag is not None and header[:TAG_LENGTH] != tag:
        raise ChannelError("wrote something else where an answer was awaited")
    try:
        length = int(header[TAG_LENGTH:], 16)
    except ValueError:
        raise ChannelError("wrote something else where an answer was awaited") from None
    if not 0 <= length <= MAX_MESSAGE:
        raise ChannelError(f"answered with more than {MAX_MESSAGE} bytes")
    return length


class AgentChannel:
    """The blocking end of a channel."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading = reading
        self._writing = writing
        self._tag = NO_TAG

    def receive(self) -> bytes | None:
        """Return the next message; None at the end."""
        header = self._read(HEADER_LENGTH)
        if len(header) < HEADER_LENGTH:
            return None
        self._tag = header[:TAG_LENGTH]
        length = payload_length(header)
        payload = self._read(length)
        return payload if len(payload) == length else None

    def send(self, payload: bytes) -> None:
        """Answer the last received message; raises `ChannelError` if the answer is too long."""
        if len(payload) > MAX_MESSAGE:
            raise ChannelError(f"answered with more than {MAX_MESSAGE} bytes")
        rest = memoryview(frame(self._tag, payload))
        while rest:
            rest = rest[os.write(self._writing, rest) :]

    def _read(self, length: int) -> bytes:
        pieces: list[bytes] = []
        while length:
            piece = os.read(self._reading, min(length, _PIECE))
            if not piece:
                break
            pieces.append(piece)
            length -= len(piece)
        return b"".join(pieces)


def take_standard_streams() -> AgentChannel:
    """Return a channel over standard input and output, which are replaced.

    Later output goes to standard error; standard input is empty.
    """
    channel = AgentChannel(os.dup(0), os.dup(1))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    # The agent's code may print by any means: none of it may mix with the messages.
    os.dup2(2, 1)
    return channel
