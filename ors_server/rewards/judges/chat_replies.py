"""Sends a chat to an OpenAI-compatible endpoint once, and reads its reply within bounds.

Shared by judges, simulated users and the agents of evaluations. Who sends again, and when, is theirs.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from reprlib import Repr
from typing import Any, cast

import anyio
import httpx2

from ors_server.client.bounded_http import (
    ACCEPTED_CODINGS,
    MIB,
    AnswerBounds,
    BrokenAnswerError,
    refuse_foreign_redirect,
    tls_context,
)

MAX_QUOTED = 500
"""Characters of an endpoint's own message that an error shows."""
MAX_TOKENS = 10**9
"""Maximum number of tokens that a reply may state."""
MAX_REDIRECTS = 3
BOUNDS = AnswerBounds(max_bytes=16 * MIB, max_stream_bytes=16 * MIB)

_quoted = Repr()
_quoted.maxstring = _quoted.maxother = 100


class RetryableReplyError(Exception):
    """The same request may succeed later."""

    def __init__(self, problem: str, wait: float | None = None) -> None:
        super().__init__(problem)
        self.wait = wait


class StatedFaultError(RetryableReplyError):
    """The reply has status 200 and states an error."""


class InvalidReplyError(Exception):
    """The reply has something that the protocol does not allow, and that would be used."""


def open_http() -> httpx2.AsyncClient:
    """Return the HTTP client for the `openai` package: its answers are bounded, foreign redirects refused."""
    return httpx2.AsyncClient(
        headers=ACCEPTED_CODINGS,
        verify=tls_context(),
        follow_redirects=True,
        max_redirects=MAX_REDIRECTS,
        limits=httpx2.Limits(max_connections=1_000, max_keepalive_connections=100),
        event_hooks={"response": [refuse_foreign_redirect, BOUNDS.apply]},
    )


async def send_chat(client: Any, body: Mapping[str, Any], time_limit: float) -> Mapping[str, Any]:
    """Send a chat once, and return the JSON object of the reply, which has a message.

    Args:
        client: An `openai.AsyncOpenAI` over `open_http`.
        body: `model`, `messages`, and all further fields, which are sent unchanged.
        time_limit: Seconds from the request to the last byte.

    Raises:
        openai.APIStatusError: The status is not a success.
        RetryableReplyError: No reply, one that is not JSON, or one of a gateway: with an error or no message.
        InvalidReplyError: The reply exceeds a bound, or leads to another origin.
    """
    openai = import_module("openai")
    rest = {name: value for name, value in body.items() if name not in {"model", "messages"}}
    try:
        with anyio.fail_after(time_limit):
            raw = await client.chat.completions.with_raw_response.create(
                model=body["model"], messages=body["messages"], extra_body=rest
            )
    except TimeoutError as error:
        raise RetryableReplyError(f"no whole reply within {time_limit:g} seconds") from error
    except BrokenAnswerError as error:
        raise InvalidReplyError(str(error)) from error
    except openai.APIConnectionError as error:
        raise RetryableReplyError(f"no answer: {error.__cause__ or error}") from error
    response: httpx2.Response = raw.http_response
    content_type = response.headers.get("content-type", "")
    try:
        reply: object = await BOUNDS.parse(response.content, content_type, "the endpoint's reply")
    except BrokenAnswerError as error:
        raise RetryableReplyError(str(error)) from error
    return _check_completed(reply)


def _check_completed(reply: object) -> Mapping[str, Any]:
    """Return a reply with a message; gateways send others with status 200 for a while."""
    if not isinstance(reply, dict):
        raise RetryableReplyError(f"expected a JSON object from the endpoint, got {quoted(reply)}")
    body = cast("dict[str, Any]", reply)
    choices: object = body.get("choices")
    first: object = cast("list[object]", choices)[0] if isinstance(choices, list) and choices else None
    choice: Mapping[str, Any] = cast("dict[str, Any]", first) if isinstance(first, dict) else {}
    error: object = body.get("error") or choice.get("error")
    if error:
        raise StatedFaultError(f"the endpoint's reply holds an error: {quoted(error)}")
    if not isinstance(choice.get("message"), dict):
        raise RetryableReplyError(f"the endpoint's reply has no choices[0].message: {quoted(body)}")
    return body


def read_usage(body: Mapping[str, Any]) -> Sequence[int | None]:
    """Return the tokens that a reply states as read and as written; `None` where it states none.

    Raises:
        InvalidReplyError: If a count is not a whole number from 0 to `MAX_TOKENS`.
    """
    usage: object = body.get("usage")
    if usage is None:
        return None, None
    if not isinstance(usage, dict):
        raise InvalidReplyError(f"expected the reply's usage as a JSON object, got {quoted(usage)}")
    counts = cast("dict[str, object]", usage)
    return [_count(name, counts.get(name)) for name in ("prompt_tokens", "completion_tokens")]


def _count(name: str, count: object) -> int | None:
    if count is None:
        return None
    if isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= MAX_TOKENS:
        return count
    raise InvalidReplyError(
        f"expected usage.{name} of the reply as a whole number from 0 to {MAX_TOKENS:,}, got {quoted(count)}"
    )


def quoted(value: object) -> str:
    """Return the beginning of what an endpoint sent as one line, which every file can hold."""
    text = " ".join((value if isinstance(value, str) else _quoted.repr(value)).split())
    return text[:MAX_QUOTED].encode(errors="replace").decode()


def wait_of(headers: Mapping[str, str]) -> float | None:
    """Return the seconds, at least 0, that an endpoint's `Retry-After` requests."""
    try:
        return max(0.0, float(headers.get("retry-after", "")))
    except ValueError:
        return None
