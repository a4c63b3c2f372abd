"""Structured logs: silent in a library, one handler in a program; never secrets, keys or answers.

Modules take their logger from [`get_logger`][ors_server.model.logs.get_logger]. Its events travel through the
standard library's `logging`, so a program that embeds the server configures where they go; by default nothing
is printed. Secrets are removed before an event leaves this module, for every handler.
"""

import logging
import re
import sys
import traceback
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, TextIO, TypeGuard, cast

from typing_extensions import override

ROOT = "ors_server"
"""Name above all our loggers."""
REDACTED = "[redacted]"

SECRET_WORDS = frozenset(
    {
        *(
            "answer",
            "answers",
            "arguments",
            "input",
            "gold",
            "solution",
            "target",
            "task_spec",
            "blocks",
            "output",
        ),
        *("api_key", "api_keys", "authorization", "cookie", "credential", "headers", "key", "password"),
        *("secret", "secrets", "token", "token_secret", "agent_token", "agent_url", "x-api-key", "x-secrets"),
    }
)
"""Names under which an event must not carry a value; the test is on the whole name, in lower case."""
_SECRET_ENDINGS = ("_key", "_token", "_secret", "_secrets", "_password", "_answer")
_INSIDE = re.compile(
    r"agt_[A-Za-z0-9_.=-]+|(?<=Bearer )\S+|(?<=input_value=).+?(?=, input_type=)", re.IGNORECASE | re.DOTALL
)
"""Agent tokens, credentials in headers, and what pydantic quotes, inside a text such as a traceback."""

_EventDict = MutableMapping[str, Any]

MIN_SECRET = 6
"""Characters of a secret value that texts are searched for; a shorter one is in too many other words."""


class SecretValues:
    """The values of live sessions' secrets, which no log and no message of an exception may have."""

    def __init__(self) -> None:
        """Know none yet."""
        self._uses: Counter[str] = Counter()

    def keep(self, owner: object, values: Iterable[str]) -> None:
        """Mask these values until the owner is gone."""
        long_enough = [value for value in values if len(value) >= MIN_SECRET]
        if long_enough:
            self._uses.update(long_enough)
            weakref.finalize(owner, self._forget, long_enough).atexit = False

    def mask(self, text: str) -> str:
        """Return a text without them, the longest first."""
        if self._uses:
            values = [value for value in tuple(self._uses) if value in text]
            for value in sorted(values, key=len, reverse=True):
                text = text.replace(value, REDACTED)
        return text

    def _forget(self, values: Iterable[str]) -> None:
        self._uses.subtract(values)
        for value in values:
            if self._uses[value] <= 0:
                del self._uses[value]


secret_values = SecretValues()
"""Those of this process: an exception of one session may be raised in a resource that others share."""


_context_fields: list[Callable[[], dict[str, str]]] = []
"""Returns fields that each event gets, such as the ids of the span in which it happens; at most one."""

_host: list[str] = []
"""Name of this process among several hosts; empty for a server without others."""


class EventLogger:
    """Logs events with fields. structlog is imported with the first event that a handler accepts."""

    def __init__(self, name: str) -> None:
        """Log under a name `ors_server...`."""
        self.standard = logging.getLogger(name)
        """The standard library's logger under it."""
        self._structured: Any = None

    def debug(self, event: str, **fields: Any) -> None:
        """Log what only a developer of the server wants to know."""
        if self.standard.isEnabledFor(logging.DEBUG):  # each call has such an event
            self._write("debug", event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """Log what an operator wants to know."""
        if self.standard.isEnabledFor(logging.INFO):
            self._write("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Log what an operator should look at."""
        if self.standard.isEnabledFor(logging.WARNING):
            self._write("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Log what failed."""
        if self.standard.isEnabledFor(logging.ERROR):
            self._write("error", event, fields)

    def critical(self, event: str, **fields: Any) -> None:
        """Log what ends the program."""
        if self.standard.isEnabledFor(logging.CRITICAL):
            self._write("critical", event, fields)

    def exception(self, event: str, **fields: Any) -> None:
        """Log what failed, with the traceback of the exception that is being handled."""
        if self.standard.isEnabledFor(logging.ERROR):
            self._write("exception", event, fields)

    def _write(self, method: str, event: str, fields: dict[str, Any]) -> None:
        if _host:
            fields = {**fields, "host": _host[0]}
        if _context_fields:
            fields = {**fields, **_context_fields[0]()}
        if self._structured is None:
            try:
                from ors_server.model.log_events import structure  # noqa: PLC0415  (imports structlog and rich)
            except ModuleNotFoundError:
                self._write_text(method, event, fields)
                return
            self._structured = structure(self.standard, redact)
        getattr(self._structured, method)(event, **fields)

    def _write_text(self, method: str, event: str, fields: dict[str, Any]) -> None:
        """Log an event as a line of text: the client's distribution does not require structlog."""
        if method == "exception":
            fields = {**fields, "exception": traceback.format_exc()}
        texts = [f"{name}={_clean(name, value)!r}" for name, value in fields.items()]
        level = logging.ERROR if method == "exception" else logging.getLevelNamesMapping()[method.upper()]
        self.standard.log(level, "%s", " ".join([event, *texts]))


class _LateFormatter(logging.Formatter):
    """Makes its formatter with the first record."""

    def __init__(self, form: str, *, has_colours: bool) -> None:
        super().__init__()
        self._form = form
        self._has_colours = has_colours
        self._made: logging.Formatter | None = None

    @override
    def format(self, record: logging.LogRecord) -> str:
        if self._made is None:
            from ors_server.model.log_events import make_formatter  # noqa: PLC0415  (as above)

            self._made = make_formatter(
                self._form, has_colours=self._has_colours, redact=redact, redact_trace=_redact_trace
            )
        return self._made.format(record)


@cache
def get_logger(name: str) -> EventLogger:
    """Return the logger `ors_server...`; it prints nothing until a program configures logging."""
    return EventLogger(name)


def configure(
    *, form: str = "console", level: str = "info", stream: TextIO | None = None, host: str | None = None
) -> None:
    """Send all logs of the process to one stream; a second call replaces the first one's handler.

    Args:
        form: `console` for people, `json` for one object per line.
        level: Least severity of our own events; other packages' begin at `warning`.
        host: Name of this process among the hosts of one server, which each event then has.
    """
    _host[:] = [] if host is None else [host]
    target = sys.stderr if stream is None else stream
    handler = logging.StreamHandler(target)
    handler.setFormatter(_LateFormatter(form, has_colours=target.isatty()))
    handler.set_name(ROOT)
    root = logging.getLogger()
    for old in [old for old in root.handlers if old.get_name() == ROOT]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger(ROOT).setLevel(level.upper())


def set_context_fields(function: Callable[[], dict[str, str]] | None) -> None:
    """Give each event of the process the fields that a function returns; `None` ends that."""
    _context_fields[:] = [] if function is None else [function]


def mask_credentials(text: str) -> str:
    """Return a text without agent tokens and credentials."""
    return _INSIDE.sub(REDACTED, text) if _may_hold_secret(text) else text


def load() -> None:
    """Import what events are made with, before a server's first event would hold its event loop for that."""
    import_module("ors_server.model.log_events")  # imports structlog and rich


def redact(logger: Any, method: str, event: _EventDict) -> _EventDict:
    """Blank the fields of an event whose names are secret, and credentials inside texts."""
    del logger, method
    return {name: _clean(name, value) for name, value in event.items()}


def _redact_trace(logger: Any, method: str, event: _EventDict) -> _EventDict:
    """Remove credentials from a traceback; everything else of an event was redacted before."""
    del logger, method
    if "exception" in event:
        event["exception"] = _clean("exception", event["exception"])
    return event


def _clean(name: str, value: Any) -> Any:
    if _is_secret(name):
        return REDACTED
    if isinstance(value, str):
        value = secret_values.mask(value)
        return _INSIDE.sub(REDACTED, value) if _may_hold_secret(value) else value
    if _is_mapping(value):
        return {inner: _clean(str(inner), part) for inner, part in value.items()}
    if isinstance(value, list | tuple):
        return [_clean("", part) for part in cast("Sequence[Any]", value)]
    return value


def _is_mapping(value: Any) -> TypeGuard[Mapping[Any, Any]]:
    return isinstance(value, Mapping)


def _may_hold_secret(text: str) -> bool:
    """Whether a text may match `_INSIDE`, at a tenth of its time."""
    if not text.isascii():  # other characters have other lower cases than the expression's
        return True
    lowered = text.lower()
    return "agt_" in lowered or "bearer " in lowered or "input_value=" in lowered


@lru_cache(1024)
def _is_secret(name: str) -> bool:
    lowered = name.lower()
    return lowered in SECRET_WORDS or lowered.endswith(_SECRET_ENDINGS)


logging.getLogger(ROOT).addHandler(logging.NullHandler())
