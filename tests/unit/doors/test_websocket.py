"""Frames of WebSockets: what is read whole, in pieces and in parts, and what ends a connection."""

import pytest

from ors_server.doors.http.websocket import (
    INVALID_TEXT,
    PROTOCOL_ERROR,
    TOO_BIG,
    UNSUPPORTED,
    FrameError,
    FrameReader,
    WebSocket,
    write_frame,
)

MASK = b"\x01\x02\x03\x04"


def frame(opcode, content, *, last=True, mask=MASK):
    size = len(content)
    if size < 126:
        length = bytes((0x80 | size,))
    elif size < 1 << 16:
        length = b"\xfe" + size.to_bytes(2)
    else:
        length = b"\xff" + size.to_bytes(8)
    masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(content))
    return bytes(((0x80 if last else 0) | opcode,)) + length + mask + masked


class Transport:
    """A transport that keeps what is written."""

    def __init__(self):
        self.written = b""
        self.is_closed = self.is_paused = False

    def write(self, data):
        self.written += data

    def close(self):
        self.is_closed = True

    def is_closing(self):
        return self.is_closed

    def pause_reading(self):
        self.is_paused = True

    def resume_reading(self):
        self.is_paused = False


class Connection:
    """The HTTP side of a connection."""

    def __init__(self):
        self.transport = Transport()
        self.flow = None
        self.lost = []

    def connection_lost(self, exc):
        self.lost.append(exc)


@pytest.mark.parametrize("size", [0, 5, 125, 126, 65_535, 65_536])
@pytest.mark.parametrize("step", [1, 7, 10**6])
def test_a_message_is_read_whole_however_it_arrives(size, step):
    content = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    data = frame(1, content)
    step = max(step, len(data) // 500)
    reader = FrameReader(1 << 17)
    complete = [item for at in range(0, len(data), step) for item in reader.feed(data[at : at + step])]
    assert complete == [(1, content)]


def test_parts_are_joined_and_control_frames_may_come_between_them():
    reader = FrameReader(100)
    data = frame(1, b"ab", last=False) + frame(9, b"ping") + frame(0, b"cd") + frame(8, b"")
    assert reader.feed(data) == [(9, b"ping"), (1, b"abcd"), (8, b"")]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x81\x02ab", PROTOCOL_ERROR),
        (b"\xc1\x80" + MASK, PROTOCOL_ERROR),
        (b"\x83\x80" + MASK, PROTOCOL_ERROR),
        (frame(0, b"x"), PROTOCOL_ERROR),
        (frame(1, b"x", last=False) + frame(1, b"y"), PROTOCOL_ERROR),
        (frame(9, b"x" * 126), PROTOCOL_ERROR),
        (frame(9, b"x", last=False), PROTOCOL_ERROR),
        (frame(1, b"x" * 101), TOO_BIG),
        (b"\x81\xff" + (2**63).to_bytes(8), TOO_BIG),
        (frame(1, b"x" * 60, last=False) + frame(0, b"x" * 60), TOO_BIG),
    ],
)
def test_a_frame_that_breaks_the_rules_is_refused_with_its_code(data, code):
    with pytest.raises(FrameError) as raised:
        FrameReader(100).feed(data)
    assert raised.value.code == code


@pytest.mark.parametrize(
    ("data", "code"),
    [(frame(2, b"x"), UNSUPPORTED), (frame(1, b"\xff"), INVALID_TEXT), (b"\x00\x00", PROTOCOL_ERROR)],
)
def test_a_connection_ends_with_the_code_of_the_fault(data, code):
    connection = Connection()
    WebSocket(connection, 100).data_received(data)
    assert connection.transport.written == write_frame(8, code.to_bytes(2))
    assert connection.transport.is_closed


async def test_pings_are_answered_and_reading_stops_while_too_much_waits():
    connection = Connection()
    socket = WebSocket(connection, 100)
    socket.data_received(frame(9, b"there?"))
    assert connection.transport.written == write_frame(10, b"there?")
    for number in range(16):
        assert not connection.transport.is_paused
        socket.data_received(frame(1, b"%d" % number))
    assert connection.transport.is_paused
    assert [await socket.receive() for _ in range(16)] == [str(number) for number in range(16)]
    assert not connection.transport.is_paused
