"""Sends requests to an OpenAI-compatible endpoint, through the `openai` package, imported on first use.

A request that fails temporarily is sent again. No tool call is repeated by that: earlier calls and their
results are part of the request.
"""

import os
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from random import Random
from typing import Any

from ors_server.evaluation.agents.base import AgentError, AgentSettingsError
from ors_server.installation import install_hint
from ors_server.model.clock import Clock, SystemClock
from ors_server.rewards.judges.chat_replies import (
    InvalidReplyError,
    RetryableReplyError,
    open_http,
    quoted,
    send_chat,
    wait_of,
)
from ors_server.rewards.judges.judge_endpoint import FAULTY, PASSING

BASE_URL = "OPENAI_BASE_URL"
API_KEY = "OPENAI_API_KEY"
MAX_WAIT = 60.0
"""Maximum number of seconds of one pause, also if the endpoint requests more."""
FIRST_WAIT = 0.5
TOO_LONG = re.compile(
    r"context_length_exceeded|(maximum|max) (context|model) ?len|context (length|window|size)"
    r"|(prompt|input)( is|s are)? too long|too many (input )?tokens"
    r"|exceeds? the (available|maximum) (context|number)",
    re.IGNORECASE,
)
"""Messages of endpoints for a conversation that does not fit: OpenAI's code; vLLM, llama.cpp and others."""


class ContextOverflowError(AgentError):
    """The conversation no longer fits into the model's context."""


class ChatEndpoint:
    """An endpoint that completes chats."""

    def __init__(
        self,
        base_url: str | None = None,
        *,
        api_key_env: str = API_KEY,
        tries: int = 6,
        time_limit: float = 600.0,
        clock: Clock | None = None,
    ) -> None:
        """Name an endpoint; nothing is sent yet.

        `base_url` has no `/chat/completions`; it is `OPENAI_BASE_URL`, or OpenAI's own, by default. One
        request is sent `tries` times at most, each for `time_limit` seconds.
        """
        self.base_url = base_url or os.environ.get(BASE_URL) or None
        self._api_key_env = api_key_env
        self._tries = tries
        self._time_limit = time_limit
        self._clock = clock or SystemClock()
        self._chance = Random()  # noqa: S311  (spreads out retries)
        self._client: Any = None

    async def complete(
        self, body: Mapping[str, Any], on_retry: Callable[[float], None] = lambda _: None
    ) -> Mapping[str, Any]:
        """Send a request until it is answered, and return the response's JSON, which has a message.

        Args:
            on_retry: Called after each pause before another try, with its seconds.

        Raises:
            ContextOverflowError: If the conversation is too long.
            AgentError: If the endpoint refuses, or every try failed.
            AgentSettingsError: If the `openai` package or the key is missing.
        """
        for attempt in range(1, self._tries + 1):
            try:
                return await self._try(body)
            except RetryableReplyError as error:
                if attempt == self._tries:
                    where = self.base_url or "the endpoint"
                    raise AgentError(f"{where} failed {attempt} times, the last time: {error}") from error
                began = self._clock.monotonic()
                # The real pause is counted: it may have been cut short by a cancellation.
                try:
                    await self._clock.sleep(self._pause(attempt, error.wait))
                finally:
                    on_retry(self._clock.monotonic() - began)
        raise AgentSettingsError("a request is sent at least once; set tries to 1 or more")

    def open(self) -> Any:
        """Create the client and return the `openai` package.

        Raises:
            AgentSettingsError: If the package or the key is missing.
        """
        openai = load_openai()
        if self._client is None:
            self._client = self._open(openai)
        return openai

    async def aclose(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    def _pause(self, attempt: int, requested: float | None) -> float:
        own: float = FIRST_WAIT * 2.0 ** (attempt - 1) * self._chance.uniform(0.5, 1.0)
        return min(MAX_WAIT, max(own, requested or 0.0))

    async def _try(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        openai = self.open()
        try:
            return await send_chat(self._client, body, self._time_limit)
        except openai.APIStatusError as error:
            raise _by_status(error) from error
        except InvalidReplyError as error:
            raise AgentError(f"the endpoint gave no usable reply: {error}") from error

    def _open(self, openai: Any) -> Any:
        key = os.environ.get(self._api_key_env)
        if not key and self.base_url is None:
            raise AgentSettingsError(
                f"no API key: set {self._api_key_env}, or name an endpoint that needs none as base_url"
            )
        return openai.AsyncOpenAI(
            base_url=self.base_url,
            api_key=key or "none",
            # Retries are made here and not in the package, so that they are counted and bounded.
            max_retries=0,
            timeout=self._time_limit,
            http_client=open_http(),
        )


def load_openai() -> Any:
    """Return the `openai` package; raises `AgentSettingsError` if it is not installed."""
    try:
        return import_module("openai")
    except ImportError as error:
        raise AgentSettingsError(
            f"language models play through the package openai; install the extra: {install_hint('eval')}"
        ) from error


def _by_status(error: Any) -> Exception:
    status: int = error.status_code
    message = quoted(str(error.message))
    code = quoted(str(getattr(error, "code", None) or ""))
    # Endpoints tell that in the text, with different statuses below 500.
    if status < FAULTY and TOO_LONG.search(f"{code} {message}"):
        return ContextOverflowError(f"the conversation does not fit into the model's context: {message}")
    is_temporary = status in PASSING or status >= FAULTY
    # An exhausted quota has the status of a rate limit (429), and does not pass.
    if is_temporary and code != "insufficient_quota":
        return RetryableReplyError(f"{status}: {message}", wait_of(error.response.headers))
    return AgentError(f"the endpoint refused with {status}: {message}")
