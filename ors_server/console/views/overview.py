"""The overview: what needs attention, and the lines that connect an agent, a harness or a trainer."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

from ors_server.console.views.episode import task_title
from ors_server.console.views.formats import age
from ors_server.doors.control.models import Health
from ors_server.model.trajectory import EpisodeRecord
from ors_server.model.wire import compact_json
from ors_server.store.aggregates import CallsOfMinute, fill_minutes

LATE_SECONDS = 0.25
"""Seconds by which the event loop may be late before the page says so."""
RECENT_FAILURE = timedelta(days=1)
GIST = 160
SHOWN_MINUTES, MEAN_MINUTES = 60, 5
"""Minutes whose calls are drawn, and those of the mean."""
MAX_ALARMS = 10
"""Alarms of runs that the overview shows."""


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that needs attention."""

    text: str
    is_bad: bool
    episode_id: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectionHint:
    """What one kind of user pastes."""

    user: str
    text: str


@dataclass(frozen=True, slots=True)
class AuditFindings:
    """What an audit found."""

    version: str
    """The environment's then."""
    holes: Sequence[tuple[str, bool, str]]
    """Of each finding that is not waived: its class, whether the class failed, and what happened."""
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class CallRate:
    """Calls per minute."""

    mean: float
    """Over the last minutes that are over."""
    greatest: int
    bars: tuple[tuple[int, float, str], ...]
    """Of each minute, oldest first: its position, its height of at most 16, and its words."""


def view_calls(counted: Iterable[CallsOfMinute], now: datetime) -> CallRate:
    """Return the calls of the last minutes; the current one is left out, because it is not over."""
    minutes = fill_minutes(counted, now, SHOWN_MINUTES + 1)[:-1]
    greatest = max(minute.calls for minute in minutes)
    bars = tuple(
        (position, 16 * minute.calls / greatest, f"{minute.start:%H:%M} UTC: {minute.calls:,}")
        for position, minute in enumerate(minutes)
        if minute.calls
    )
    return CallRate(sum(minute.calls for minute in minutes[-MEAN_MINUTES:]) / MEAN_MINUTES, greatest, bars)


def alerts_of(
    health: Health, *, is_open: bool, newest_failure: EpisodeRecord | None, now: datetime
) -> Sequence[Alert]:
    """Return what needs attention, the worst first."""
    alerts: list[Alert] = []
    if is_open and health.sandbox is not None and health.sandbox.loopback:
        alerts.append(
            Alert(
                "The sandbox can reach this server and no keys are set: an agent can be a trainer.",
                is_bad=True,
            )
        )
    if newest_failure is not None and now - newest_failure.origin.created_at <= RECENT_FAILURE:
        when = age(newest_failure.origin.created_at, now)
        text = f"An environment failed {when} ago, at {task_title(newest_failure)}."
        alerts.append(Alert(text, is_bad=True, episode_id=newest_failure.origin.episode_id))
    late = health.loop.get("worst_seconds")
    if isinstance(late, (int, float)) and late >= LATE_SECONDS:
        alerts.append(
            Alert(f"The event loop was {late:.2f} s late; /_ors/health names the code.", is_bad=False)
        )
    for name, queue in health.queues.items():
        waiting = cast("dict[str, Any]", queue).get("waiting") if isinstance(queue, dict) else None
        if isinstance(waiting, int) and waiting > 0:
            alerts.append(Alert(f"{waiting} waiting in the queue {name}.", is_bad=False))
    return alerts


def lines_to_paste(url: str, *, has_keys: bool) -> Sequence[ConnectionHint]:
    """Return one line per kind of user."""
    server: dict[str, Any] = {"type": "http", "url": f"{url}/mcp"}
    if has_keys:
        server["headers"] = {"X-API-Key": "YOUR-KEY"}
    key = " OPENREWARD_API_KEY=YOUR-KEY" if has_keys else ""
    variables = f"OPENREWARD_API_URL={url} OPENREWARD_SESSION_URL={url}{key}"
    return (
        ConnectionHint("Agent, over MCP", json.dumps({"mcpServers": {"ors": server}})),
        ConnectionHint("Evaluation", f"ors-server eval {url} --agent oracle"),
        ConnectionHint("Harness or trainer, over ORS", f"{variables} python your_program.py"),
        ConnectionHint("Author", "ors-server new my_environment"),
    )


def gist_of(value: object) -> str:
    """Return the beginning of a task: of its question, where it has one by a usual name."""
    names = ("question", "prompt", "problem", "instruction", "title", "statement")
    fields: Mapping[str, Any] = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    questions = (fields[name] for name in names if isinstance(fields.get(name), str))
    text: str = next(questions, None) or compact_json(value)
    return text if len(text) <= GIST else f"{text[:GIST]}…"


def read_audit(folder: Path | None, environment: str) -> AuditFindings | None:
    """Return what the kept report of an environment's audit found; `None` without a report."""
    try:
        report = json.loads((folder / f"{environment}.json").read_text("utf-8")) if folder else None
        if report is None:
            return None
        classes = [kind for kind in report["classes"] if kind["verdict"] in {"fail", "warn"}]
        holes = [
            (kind["id"], kind["verdict"] == "fail", finding["message"])
            for kind in classes
            if not kind["is_waived"]
            for finding in kind["findings"]
        ]
        return AuditFindings(str(report["version"]), holes)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        return AuditFindings("", [], f"The report in {folder} cannot be read: {error!r:.200}")


def pretty(value: object) -> str:
    """Write a schema for people."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def plain(value: object) -> Any:
    """Return a value as JSON has it."""
    return json.loads(json.dumps(value, default=str))
