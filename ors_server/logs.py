"""Structured logs: silent in a library, one handler in a program; never secrets, keys or answers.

Modules take their logger from [`get_logger`][ors_server.logs.get_logger]. Its events travel through the
standard library's `logging`, so a program that embeds the server configures where they go; by default nothing
is printed. Secrets are removed before an event leaves this module, whatever the handler.
"""

import logging
import re
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from functools import lru_cache
from typing import Any, TextIO, TypeGuard

import structlog
from structlog.dev import Column, ColumnFormatter
from structlog.stdlib import BoundLogger, ProcessorFormatter
from typing_extensions import override

ROOT = "ors_server"
"""Name above all our loggers."""
REDACTED = "[redacted]"
EVENT_WIDTH = 24
"""Characters of an event's name on the console, at least."""
_LEVEL_WIDTH = len("exception")
_QUOTED = frozenset(" \t=\r\n\"'")
"""Characters of a text that is quoted on the console."""

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


def get_logger(name: str) -> BoundLogger:
    """Return the logger `ors_server...`; it prints nothing until a program configures logging."""
    return _Quiet(
        logging.getLogger(name),
        [
            structlog.stdlib.filter_by_level,
            structlog.stdlib.add_logger_name,
            structlog.stdlib.add_log_level,
            redact,
            ProcessorFormatter.wrap_for_formatter,
        ],
        {},
    )


class _Quiet(BoundLogger):
    """Makes a disabled debug event, of which each call has one, cost next to nothing."""

    @override
    def debug(self, event: str | None = None, *args: Any, **fields: Any) -> Any:
        if self.isEnabledFor(logging.DEBUG):
            return super().debug(event, *args, **fields)
        return None


def configure(*, form: str = "console", level: str = "info", stream: TextIO | None = None) -> None:
    """Send all logs of the process to one stream; a second call replaces the first one's handler.

    Args:
        form: `console` for people, `json` for one object per line.
        level: Least severity of our own events; other packages' begin at `warning`.
    """
    target = sys.stderr if stream is None else stream
    handler = logging.StreamHandler(target)
    handler.setFormatter(_formatter(form, has_colours=target.isatty()))
    handler.set_name(ROOT)
    root = logging.getLogger()
    for old in [old for old in root.handlers if old.get_name() == ROOT]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger(ROOT).setLevel(level.upper())


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
        return _INSIDE.sub(REDACTED, value) if _may_hold_secret(value) else value
    if _is_mapping(value):
        return {inner: _clean(str(inner), part) for inner, part in value.items()}
    if _is_list(value):
        return [_clean("", part) for part in value]
    return value


def _is_mapping(value: Any) -> TypeGuard[Mapping[Any, Any]]:
    return isinstance(value, Mapping)


def _is_list(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, list | tuple)


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


def _plain_columns() -> list[Column]:
    """Return structlog's columns without colours; its own write each piece of a field into a buffer."""
    return [
        Column("timestamp", _plain_column()),
        Column("level", _plain_column("[", _LEVEL_WIDTH, "]")),
        Column("event", _plain_column(width=EVENT_WIDTH)),
        Column("logger", _plain_column("[", 0, "]")),
        Column("", _plain_field),
    ]


def _plain_column(before: str = "", width: int = 0, after: str = "") -> ColumnFormatter:
    def write(key: str, value: object) -> str:
        del key
        return f"{before}{str(value).ljust(width)}{after}"

    return write


def _plain_field(key: str, value: object) -> str:
    if isinstance(value, str) and _QUOTED.isdisjoint(value):
        return key + "=" + value  # not by its `__str__`, which enumerations have of their own
    return f"{key}={value!r}"


def _formatter(form: str, *, has_colours: bool) -> ProcessorFormatter:
    renderer: Any
    if form == "json":
        renderer = structlog.processors.JSONRenderer(default=str)
    else:
        style: dict[str, Any] = (
            {"pad_event_to": EVENT_WIDTH} if has_colours else {"columns": _plain_columns()}
        )
        renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback, **style)
    return ProcessorFormatter(
        processors=[
            ProcessorFormatter.remove_processors_meta,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,  # the frames and the message, never the frames' variables
            _redact_trace,
            renderer,
        ],
        foreign_pre_chain=[structlog.stdlib.add_logger_name, structlog.stdlib.add_log_level, redact],
    )


logging.getLogger(ROOT).addHandler(logging.NullHandler())
