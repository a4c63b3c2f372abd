"""Bounds on what another program answers over HTTP: bytes after decompression, codings, redirects, JSON.

Every client of this package reads responses within these bounds: the client of servers, MCP, models behind
an endpoint, OpenEnv and the record of a running server. `AnswerBounds.apply` is a response hook of
`httpx2`, so that proxies, certificates and connection pools stay the library's. Seconds are counted by the
callers, with `anyio.fail_after` around the request and the reading of its answer: a hook does not see slow
headers.
"""

import os
import ssl
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import Any, cast

import httpx2
from anyio.lowlevel import checkpoint
from typing_extensions import override

from ors_server.model.errors import MachineryError
from ors_server.model.json_bounds import parse_json
from ors_server.model.printable import clean_line

MIB = 1 << 20
MAX_PROBLEM_BYTES = 64 * 1024
"""Bytes that are read of an unsuccessful answer; the rest is cut off."""
MAX_SHOWN_CHARACTERS = 200
"""Characters that an error repeats of an answer."""
EVENT_STREAM = "text/event-stream"
ACCEPTED_CODINGS = {"Accept-Encoding": "gzip, deflate"}
"""The header for a client whose answers are read within bounds."""
_WINDOWS = {"gzip": zlib.MAX_WBITS | 16, "x-gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}
_EVENT_STREAM = EVENT_STREAM.encode()
_CODINGS = frozenset({b"", b"identity", *map(str.encode, _WINDOWS)})
_PIECE = 64 * 1024


def tls_context() -> ssl.SSLContext:
    """Return what connections trust: the certificates of the system, or those that the environment names.

    They are read once: reading them takes 20 ms of processor time, and a client or a judge is often opened
    for one request.
    """
    return _read_certificates(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@lru_cache(maxsize=4)
def _read_certificates(*_variables: str | None) -> ssl.SSLContext:
    return httpx2.create_ssl_context()


class BrokenAnswerError(MachineryError):
    """The answer does not have the protocol's form, or exceeds a bound: a proxy's page, or another server."""

    code = "broken_answer"


@dataclass(frozen=True, slots=True)
class AnswerBounds:
    """Bounds of the answers to one client's requests."""

    max_bytes: int = 64 * MIB
    """Bytes of an answer after decompression."""
    max_stream_bytes: int | None = 64 * MIB
    """Bytes of an event stream that was requested; `None` where each event has its own bound."""
    max_values: int = 500_000
    """Values, keys and containers of an answer's JSON."""

    async def apply(self, response: httpx2.Response) -> None:
        """Bound the reading of a response that has begun: a response hook of a client.

        Raises:
            BrokenAnswerError: If it has an unknown coding, or states too long a body. While it is read: if it
                is too long, or its coding is broken.
        """
        source = f"the answer of {response.request.method} {response.request.url}"
        is_problem = response.status_code >= HTTPStatus.BAD_REQUEST
        length = coding = kind = b""
        # Once over the raw headers: each look-up by name costs as much as all of this.
        for name, value in response.headers.raw:
            lower = name.lower()
            if lower == b"content-length":
                length = value
            elif lower == b"content-type":
                kind = value
            elif lower == b"content-encoding":
                coding = coding + b", " + value if coding else value
        limit = MAX_PROBLEM_BYTES if is_problem else self._limit(response, kind)
        if not is_problem and limit is not None and length.isdigit() and len(length) < 20:  # noqa: PLR2004  (fewer digits than 2**64)
            _check_length(int(length), limit, source)
        if coding:
            # Decoded here, in pieces and within the limit; the client would decode it again.
            del response.headers["content-encoding"]
            coding = coding.strip().lower()
            if coding not in _CODINGS:
                shown_coding = coding.decode(errors="replace")[:MAX_SHOWN_CHARACTERS]
                raise BrokenAnswerError(f"{source} is coded as {shown_coding!r}; expected gzip or deflate")
        response.encoding = "utf-8"  # a stated charset may be unknown, or slow to decode
        assert isinstance(response.stream, httpx2.AsyncByteStream)  # noqa: S101  (of async clients only)
        response.stream = _BoundedStream(response.stream, coding.decode(), limit, source, is_cut=is_problem)

    def _limit(self, response: httpx2.Response, kind: bytes) -> int | None:
        if _EVENT_STREAM in kind:
            for name, value in response.request.headers.raw:
                if name.lower() == b"accept" and _EVENT_STREAM in value:
                    return self.max_stream_bytes
        return self.max_bytes

    async def parse(self, body: bytes, content_type: str, source: str) -> Any:
        """Return the JSON value of an answer.

        Args:
            content_type: As the answer states it; empty if it states none.
            source: What the body is, for errors: `the answer of GET http://host/path`.

        Raises:
            BrokenAnswerError: If the answer states another type, or is not JSON within the bounds.
        """
        kind = content_type.partition(";")[0].strip().lower()
        is_json = not kind or kind == "text/plain" or kind.endswith(("/json", "+json"))
        if not is_json:
            raise BrokenAnswerError(f"{source}: expected application/json, got {kind}: {shown(body)}")
        try:
            return await parse_json(body, self.max_values)
        except (ValueError, RecursionError) as error:
            raise BrokenAnswerError(f"{source}: expected JSON, got {shown(body)}: {error}") from error


def shown(body: bytes) -> str:
    """Return the beginning of an answer, quoted."""
    return repr(body[: 4 * MAX_SHOWN_CHARACTERS].decode(errors="replace")[:MAX_SHOWN_CHARACTERS])


class _BoundedStream(httpx2.AsyncByteStream):
    """The decoded bytes of a response, up to a limit."""

    def __init__(
        self, inner: httpx2.AsyncByteStream, coding: str, limit: int | None, source: str, *, is_cut: bool
    ) -> None:
        self._inner = inner
        self._limit = limit
        self._source = source
        self._is_cut = is_cut
        window = _WINDOWS.get(coding)
        self._decoder = None if window is None else zlib.decompressobj(window)

    @override
    async def __aiter__(self) -> AsyncGenerator[bytes]:
        total, unshared = 0, 0
        pieces = aiter(self._inner)
        is_closable = isinstance(pieces, AsyncGenerator)
        generator = cast("AsyncGenerator[bytes]", pieces) if is_closable else _all_of(pieces)
        async with aclosing(generator) as coded_pieces:
            async for coded in coded_pieces:
                for piece in self._decode(coded):
                    total, unshared = total + len(piece), unshared + len(piece)
                    if self._limit is not None and total > self._limit:
                        if self._is_cut:
                            yield piece[: self._limit - total]
                            return
                        _check_length(total, self._limit, self._source)
                    yield piece
                    if unshared > MIB:
                        unshared = 0
                        await checkpoint()  # neither decompressing nor a fast sender ever waits
        if self._decoder is not None and total and not self._decoder.eof:
            raise BrokenAnswerError(f"{self._source} ended within its compressed data")

    def _decode(self, coded: bytes) -> Iterator[bytes]:
        decoder = self._decoder
        if decoder is None:
            yield coded
            return
        while coded:
            try:
                # At most this many bytes at once: a few kilobytes may unpack to gigabytes.
                piece = decoder.decompress(coded, _PIECE)
            except zlib.error as error:
                raise BrokenAnswerError(f"{self._source} cannot be decompressed: {error}") from error
            if decoder.unused_data or (decoder.eof and not piece):
                raise BrokenAnswerError(f"{self._source} has data after the end of its compressed data")
            coded = decoder.unconsumed_tail
            if piece:
                yield piece

    @override
    async def aclose(self) -> None:
        await self._inner.aclose()


async def _all_of(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    async for piece in pieces:
        yield piece


def _check_length(length: int, limit: int, source: str) -> None:
    if length > limit:
        raise BrokenAnswerError(f"{source} has more than the {limit:,} bytes that are read")


def redirect_error(request: str, target: str) -> BrokenAnswerError:
    """Return the error for a redirect that is not followed; `request` has its method and its path or URL."""
    return BrokenAnswerError(
        f"{request} redirects to {clean_line(target)[:MAX_SHOWN_CHARACTERS]}, which is not followed; if it "
        "is the right place, use its URL"
    )


async def refuse_foreign_redirect(response: httpx2.Response) -> None:
    """Refuse a redirect to another origin, which may be one that only this machine reaches."""
    if not response.has_redirect_location:
        return
    try:
        target = response.request.url.join(response.headers["location"])
    except httpx2.InvalidURL as error:
        raise BrokenAnswerError(f"{response.request.url} redirects to an invalid URL: {error}") from error
    if _origin(target) != _origin(response.request.url):
        raise BrokenAnswerError(
            f"{response.request.url} redirects to another origin, {str(target)[:MAX_SHOWN_CHARACTERS]}, "
            "which is not followed; if it is the right one, use its URL"
        )


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    defaults = {"http": 80, "https": 443}
    return url.scheme, url.host, url.port or defaults.get(url.scheme)
