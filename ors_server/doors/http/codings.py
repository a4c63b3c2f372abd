"""Decodes compressed request bodies up to a limit, because few bytes may expand to very many."""

import zlib
from typing import Protocol

from anyio.lowlevel import checkpoint

from ors_server.model.errors import MalformedRequestError, PayloadTooLargeError, UnsupportedCodingError

GZIP = frozenset({"gzip", "x-gzip"})
STEP = 1 << 18
"""Bytes that are decoded before other tasks run."""
MEMBERS = 64
"""Most parts of one gzip body."""


class _Member(Protocol):
    """One compressed part of a body, while it is decoded; zlib does not name the type."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    @property
    def unconsumed_tail(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


async def decode(body: bytes, coding: str, limit: int) -> bytes:
    """Decode a body of at most `limit` decoded bytes.

    Raises:
        UnsupportedCodingError: If the server does not know the coding.
        MalformedRequestError: If the body does not have that coding.
        PayloadTooLargeError: If the decoded body is longer.
    """
    names = [name.strip().lower() for name in coding.split(",")]
    codings = [name for name in names if name not in ("", "identity")]
    if not codings:
        return body
    if len(codings) > 1 or codings[0] not in GZIP:
        raise UnsupportedCodingError(
            f"the body has the Content-Encoding {coding[:100]!r}; send it as it is, or with gzip"
        )
    return await _gunzip(body, limit)


async def _gunzip(body: bytes, limit: int) -> bytes:
    out: list[bytes] = []
    size, members, start = 0, 0, 0
    member: _Member | None = None
    data, is_full = b"", False
    while data or is_full or start < len(body):
        if not (data or is_full):
            data, start = body[start : start + STEP], start + STEP
        if member is None:
            member, members = _next_member(members)
        piece = _inflate(member, data)
        out.append(piece)
        size += len(piece)
        if size > limit:
            raise PayloadTooLargeError(
                f"the body, decoded, has more than {limit} bytes (setting max_body_bytes)"
            )
        is_full = len(piece) == STEP and not member.eof
        data = member.unused_data if member.eof else member.unconsumed_tail
        if member.eof:
            member = None
        await checkpoint()
    if member is not None:
        raise MalformedRequestError("the gzip body is incomplete; send all of it")
    return b"".join(out)


def _next_member(members: int) -> tuple[_Member, int]:
    if members == MEMBERS:
        raise MalformedRequestError(f"the gzip body has more than {MEMBERS} parts; compress it as a whole")
    return zlib.decompressobj(wbits=31), members + 1


def _inflate(member: _Member, data: bytes) -> bytes:
    try:
        return member.decompress(data, STEP)
    except zlib.error as error:
        raise MalformedRequestError(f"the body is not gzip, as its Content-Encoding says: {error}") from error
