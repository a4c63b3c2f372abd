"""Asks any OpenAI-compatible endpoint, through the `openai` package, which is imported on first use.

The endpoint is configured by its own environment variables, so that a gateway which captures the policy's
traffic (`OPENAI_BASE_URL`) does not capture the judge's. Nothing of `OPENAI_*` is sent.
"""

import os
import random
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Self

import anyio
from anyio.lowlevel import RunVar

from ors_server.client.bounded_http import ACCEPTED_CODINGS
from ors_server.installation import install_hint
from ors_server.model.clock import Clock, SystemClock
from ors_server.rewards.judges.chat_replies import (
    InvalidReplyError,
    RetryableReplyError,
    StatedFaultError,
    open_http,
    quoted,
    read_usage,
    send_chat,
    wait_of,
)
from ors_server.rewards.judges.judge_model import Completion, Message, Sampling, Schema
from ors_server.rewards.reward_errors import JudgeError, JudgeSettingsError

PASSING = frozenset({408, 409, 425, 429})
"""Statuses below 500 after which the same request may succeed later."""
FAULTY = 500
UNRELATED = frozenset({401, 403, 408, 409, 425, 429})
"""Statuses that do not depend on the schema of a request."""
SCHEMA_WORDS = (
    "response_format",
    "schema",
    "structured",
    "guided",
    "grammar",
    "json mode",
    "requested param",
)
"""Words, in lower case, in messages of endpoints that refuse a request for its schema."""


@dataclass(frozen=True, slots=True)
class EndpointOptions:
    """Time limits, retries and concurrency of the requests to an endpoint."""

    time_limit: float = 60.0
    """Seconds that one try may take, from the connection to the last byte."""
    most_retries: int = 5
    """Tries after the first one."""
    first_wait: float = 0.5
    """Greatest first pause, in seconds; each further one may be twice as long."""
    longest_wait: float = 30.0
    """Greatest pause, in seconds, also where the endpoint requests a longer one."""
    at_once: int = 8
    """Requests under way at the same time."""


@dataclass(frozen=True, slots=True)
class EndpointVariables:
    """The environment variables that configure the endpoint of a model with a purpose."""

    purpose: str
    """What the model is, in errors: `judge`."""
    base_url: str
    """The variable with the address."""
    api_key: str
    """The variable with the key."""
    model: str
    """The variable with the model's name."""


JUDGE_VARIABLES = EndpointVariables("judge", "ORS_JUDGE_BASE_URL", "ORS_JUDGE_API_KEY", "ORS_JUDGE_MODEL")


class _NoSchemaError(Exception):
    """The endpoint refused the schema."""


class EndpointJudge:
    """A model behind an OpenAI-compatible endpoint.

    Within `async with` its connections are kept; without, each question opens one. Tasks, threads and event
    loops may share it.

    Args:
        base_url: The endpoint's URL, up to and without `/chat/completions`.
        api_key: The key; empty for an endpoint without keys.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str,
        api_key: str = "",
        sampling: Sampling | None = None,
        options: EndpointOptions | None = None,
        clock: Clock | None = None,
        **renamed: EndpointOptions | None,
    ) -> None:
        self.name = model
        self.sampling = sampling or Sampling()
        self.options = options or _read_old_keyword(renamed) or EndpointOptions()
        self.takes_schema = True
        """Whether the endpoint is sent schemas; false after it has refused one."""
        self._base_url = base_url
        self._api_key = api_key
        self._clock = clock or SystemClock()
        # The limiter and the client belong to an event loop, and several loops may share the judge.
        self._slots: RunVar[anyio.CapacityLimiter] = RunVar("judge_slots")
        self._open_client: RunVar[Any] = RunVar("judge_client")

    @classmethod
    def from_environment(
        cls,
        model: str | None = None,
        *,
        sampling: Sampling | None = None,
        options: EndpointOptions | None = None,
        variables: EndpointVariables = JUDGE_VARIABLES,
        **renamed: EndpointOptions | None,
    ) -> Self:
        """Read `ORS_JUDGE_BASE_URL`, `ORS_JUDGE_API_KEY` and, unless a model is given, `ORS_JUDGE_MODEL`.

        Args:
            variables: Other names of these three.

        Raises:
            JudgeSettingsError: If there is no endpoint or no model.
        """
        base_url, named = os.environ.get(variables.base_url, ""), model or os.environ.get(variables.model, "")
        missing = f"no {variables.purpose} is configured:"
        if not base_url:
            raise JudgeSettingsError(
                f"{missing} set {variables.base_url} to the URL of an OpenAI-compatible endpoint"
            )
        if not named:
            raise JudgeSettingsError(f"{missing} pass a model, or set {variables.model}")
        key = os.environ.get(variables.api_key, "")
        return cls(
            named,
            base_url=base_url,
            api_key=key,
            sampling=sampling,
            options=options or _read_old_keyword(renamed),
        )

    def check_package(self) -> None:
        """Raise `JudgeSettingsError` if the package is not installed that asks the endpoint."""
        _load()

    async def __aenter__(self) -> Self:
        self._open_client.set(_open(self._base_url, self._api_key, self.options.time_limit))
        return self

    async def __aexit__(self, *error: object) -> None:
        client = self._open_client.get(None)
        self._open_client.set(None)
        if client is not None:
            await client.close()

    async def complete(
        self, messages: Sequence[Message], schema: Schema | None = None, *, sample: int = 0
    ) -> Completion:
        """Return one reply.

        408, 409, 425, 429, 5xx, broken connections, and replies that hold an error or no choices are tried
        again.

        Raises:
            JudgeError: The endpoint refused, or every try failed.
            JudgeSettingsError: The `openai` package is missing.
        """
        async with self._limiter():
            client = self._open_client.get(None)
            if client is not None:
                return await self._persist(client, messages, schema, sample)
            async with _open(self._base_url, self._api_key, self.options.time_limit) as client:
                return await self._persist(client, messages, schema, sample)

    def _limiter(self) -> anyio.CapacityLimiter:
        limiter = self._slots.get(None)
        if limiter is None:
            limiter = anyio.CapacityLimiter(self.options.at_once)
            self._slots.set(limiter)
        return limiter

    async def _persist(
        self, client: Any, messages: Sequence[Message], schema: Schema | None, sample: int
    ) -> Completion:
        started = self._clock.monotonic()
        failed = 0
        while True:
            # An endpoint that has refused a schema is not sent one again.
            sent = schema if self.takes_schema else None
            try:
                reply = await self._try(client, self._body(messages, sent, sample))
            except _NoSchemaError:
                # Not a failed try: the request is sent again at once, without the schema.
                self.takes_schema = False
            except RetryableReplyError as error:
                failed += 1
                if failed > self.options.most_retries:
                    raise JudgeError(
                        f"{self.name} failed {failed} times; the last time: {error}",
                        {"judge_retries": failed - 1},
                    ) from error
                await self._clock.sleep(self._pause(failed, error.wait))
            else:
                return read_completion(reply, latency=self._clock.monotonic() - started, retries=failed)

    def _body(self, messages: Sequence[Message], schema: Schema | None, sample: int) -> dict[str, Any]:
        """Return the fields of a request."""
        rest = self.sampling.as_body(sample)
        if schema is not None:
            named = {"name": "verdict", "strict": True, "schema": dict(schema)}
            rest = {"response_format": {"type": "json_schema", "json_schema": named}, **rest}
        sent = [dict(message) for message in messages]
        return {"model": self.name, "messages": sent, **rest}

    async def _try(self, client: Any, body: Mapping[str, Any]) -> Mapping[str, Any]:
        openai = _load()
        has_schema = "response_format" in body
        try:
            return await send_chat(client, body, self.options.time_limit)
        except openai.APIStatusError as error:
            raise _error_of_status(self.name, error, has_schema=has_schema) from error
        except StatedFaultError as error:
            if has_schema and _is_about_schema(str(error)):
                raise _NoSchemaError from error
            raise
        except InvalidReplyError as error:
            raise JudgeError(f"{self.name} gave no usable reply: {error}") from error
        except openai.OpenAIError as error:
            raise JudgeError(f"the request to {self.name} failed: {error}") from error

    def _pause(self, failed: int, requested: float | None) -> float:
        longest = min(self.options.longest_wait, self.options.first_wait * 2 ** (failed - 1))
        # Half of the pause is drawn at random, so that many requests do not come back together.
        drawn = random.uniform(longest / 2, longest)  # noqa: S311  (spreads retries; nothing secret)
        return drawn if requested is None else min(self.options.longest_wait, requested + drawn / 2)


def _read_old_keyword(keywords: dict[str, EndpointOptions | None]) -> EndpointOptions | None:
    """Return the options under their old keyword, `manners`."""
    if unknown := keywords.keys() - {"manners"}:
        raise TypeError(f"EndpointJudge has no argument {', '.join(sorted(unknown))}")
    if keywords:
        message = "EndpointJudge(manners=...) is deprecated, use options=...: version 0.3 removes it"
        warnings.warn(message, DeprecationWarning, stacklevel=3)
    return keywords.get("manners")


def read_completion(body: Mapping[str, Any], *, latency: float, retries: int) -> Completion:
    """Read the body of a reply, in the form of `/chat/completions`.

    Raises:
        JudgeError: It has another form, or a token count that is not a count.
    """
    try:
        choice = body["choices"][0]
        content: object = choice["message"].get("content")
        is_cut = choice.get("finish_reason") == "length"
        prompt, written = read_usage(body)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise JudgeError(f"the endpoint's reply has no choices[0].message: {quoted(body)}") from error
    except InvalidReplyError as error:
        raise JudgeError(str(error)) from error
    # A refusal or a tool call has no text; an empty reply is unusable, and its reader says so.
    text = content if isinstance(content, str) else ""
    return Completion(text, prompt, written, is_cut=is_cut, latency=latency, retries=retries)


def _error_of_status(name: str, error: Any, *, has_schema: bool) -> Exception:
    message = quoted(str(error))
    status: int = error.status_code
    # Before the retries: an endpoint may report an unknown schema with any status.
    if has_schema and _is_about_schema(message) and status not in UNRELATED:
        return _NoSchemaError()
    if status in PASSING or status >= FAULTY:
        return RetryableReplyError(message, wait_of(error.response.headers))
    return JudgeError(f"{name} refused the request: {message}")


def _is_about_schema(message: str) -> bool:
    return any(word in message.casefold() for word in SCHEMA_WORDS)


def _load() -> Any:
    try:
        return import_module("openai")
    except ImportError as error:
        raise JudgeSettingsError(
            f"judges need the package openai; install the extra: {install_hint('judges')}"
        ) from error


def _open(base_url: str, api_key: str, time_limit: float) -> Any:
    openai = _load()
    # A property of the class replaces the headers that the package would add.
    own = type("JudgeClient", (openai.AsyncOpenAI,), {"default_headers": property(_headers)})
    return own(
        # The package demands a key, also for endpoints without one.
        api_key=api_key or "none",
        base_url=base_url,
        organization="",
        project="",
        webhook_secret="",
        # Tries are made and counted in `_persist`, which knows the limits.
        max_retries=0,
        timeout=time_limit,
        http_client=open_http(),
    )


def _headers(client: Any) -> dict[str, str]:
    """Return all headers of a request: the package adds organisation, project and `OPENAI_CUSTOM_HEADERS`."""
    return {
        "Accept": "application/json",
        "Content-Type": "application/json",
        "User-Agent": "ors-server-judge",
        **ACCEPTED_CODINGS,
        "Authorization": f"Bearer {client.api_key}",
    }
