"""Events through structlog: how they are made, and how they are printed.

`logs` imports this module with the first event, since structlog imports much.
"""

import logging
from typing import Any

import structlog
from structlog.dev import Column, ColumnFormatter
from structlog.stdlib import BoundLogger, ProcessorFormatter
from structlog.typing import EventDict, Processor

from ors_server.model.printable import clean

EVENT_WIDTH = 24
"""Minimum number of characters for an event's name on the console."""
_LEVEL_WIDTH = len("exception")
_QUOTED = frozenset(" \t=\r\n\"'")
"""Characters of a text that is quoted on the console."""

_UNQUOTED = frozenset({"event", "exception", "stack"})
"""Texts that are printed as they are."""


def structure(logger: logging.Logger, redact: Processor) -> BoundLogger:
    """Return a logger of events with fields over a logger of the standard library."""
    return BoundLogger(
        logger,
        [
            structlog.stdlib.filter_by_level,
            structlog.stdlib.add_logger_name,
            structlog.stdlib.add_log_level,
            redact,
            ProcessorFormatter.wrap_for_formatter,
        ],
        {},
    )


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


def _escape(logger: Any, method: str, event: EventDict) -> EventDict:
    """Escape what a terminal would execute: texts of agents and far sides are in errors and tracebacks."""
    del logger, method
    for name, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            is_quoted = name not in _UNQUOTED and not _QUOTED.isdisjoint(value)  # `repr` escapes them
            event[name] = value if is_quoted else clean(value)
    return event


def make_formatter(
    form: str, *, has_colours: bool, redact: Processor, redact_trace: Processor
) -> ProcessorFormatter:
    """Return the formatter of a form, `console` or `json`; colours are the console's."""
    renderer: Any
    escaping: list[Processor] = []
    if form == "json":
        renderer = structlog.processors.JSONRenderer(default=str)
    else:
        escaping = [_escape]
        style: dict[str, Any] = (
            {"pad_event_to": EVENT_WIDTH} if has_colours else {"columns": _plain_columns()}
        )
        renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback, **style)
    return ProcessorFormatter(
        processors=[
            ProcessorFormatter.remove_processors_meta,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,  # the frames and the message, never the frames' variables
            redact_trace,
            *escaping,
            renderer,
        ],
        foreign_pre_chain=[structlog.stdlib.add_logger_name, structlog.stdlib.add_log_level, redact],
    )
