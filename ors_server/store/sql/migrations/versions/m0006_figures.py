"""Steps have columns for their tool, status, blame and time; totals of closed episodes are kept."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_whole = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ROWS = 500
_COUNTS = ("ungraded_steps", "failed_steps", "refused_steps", "penalised_steps")
_AUTHOR = {
    *("environment_error", "environment_definition", "declaration", "environment_failed"),
    *("tool_failed", "tool_timeout", "tool_output"),
}
"""Codes of errors that blame the author, as servers of the older schemas wrote them."""
_ENDINGS = {"completed", "step_limit", "time_limit", "blocked"}
_KINDS = ("environment", "run", "agent", "phase", "stop_reason", "result")


def upgrade() -> None:
    """Add the columns and tables, and fill them from what is there."""
    _add_columns()
    connection = op.get_bind()
    _fill_origins(connection)
    counts, paid = _fill_steps(connection)
    _fill_standings(connection, counts, paid)
    connection.execute(
        sa.text("INSERT INTO tool_uses (episode, tool) SELECT DISTINCT episode, tool FROM steps")
    )
    _fill_totals(connection)


def _add_columns() -> None:
    for name in ("environment_version", "server_version", "run", "agent"):
        op.add_column("episodes", sa.Column(name, _name, nullable=False, server_default=""))
    op.add_column("episodes", sa.Column("forked_from", _name))
    for name in _COUNTS:
        op.add_column("standings", sa.Column(name, sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("standings", sa.Column("result", _name, nullable=False, server_default="live"))
    op.add_column("standings", sa.Column("duration", sa.Double))
    for name in ("tool", "status"):
        op.add_column("steps", sa.Column(name, _name, nullable=False, server_default=""))
    op.add_column("steps", sa.Column("blame", _name))
    op.add_column("steps", sa.Column("started_at", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("steps", sa.Column("duration", sa.Double, nullable=False, server_default="0"))
    op.create_index("episodes_by_run", "episodes", ["run", "created_at", "episode_id"])
    op.create_table(
        "tool_uses",
        sa.Column(
            "episode",
            _whole,
            sa.ForeignKey("episodes.key", ondelete="CASCADE"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("tool", _name, primary_key=True),
    )
    op.create_index("tool_uses_by_tool", "tool_uses", ["tool", "episode"])
    op.create_table(
        "totals",
        *(sa.Column(name, _name, primary_key=True) for name in _KINDS),
        *(
            sa.Column(name, sa.BigInteger, nullable=False)
            for name in ("episodes", "steps", *_COUNTS, "unjudged_steps", "successes", "last_at")
        ),
        *(
            sa.Column(name, sa.Double, nullable=False)
            for name in ("return_sum", "return_squares", "least_return", "greatest_return")
        ),
    )


def _texts(connection: sa.Connection, query: str) -> Iterator[Any]:
    # In batches: psycopg would else take every body of the record into memory before the first row.
    yield from connection.execute(sa.text(query), execution_options={"yield_per": _ROWS})


def _write(connection: sa.Connection, statement: str, rows: list[dict[str, Any]]) -> None:
    for start in range(0, len(rows), _ROWS):
        connection.execute(sa.text(statement), rows[start : start + _ROWS])


def _searched(text: str) -> str:
    return text.replace("\0", "\N{SYMBOL FOR NULL}")


def _fill_origins(connection: sa.Connection) -> None:
    rows: list[dict[str, Any]] = []
    for key, body in _texts(connection, 'SELECT "key", body FROM episodes'):
        origin: dict[str, Any] = json.loads(body)
        labels: dict[str, str] = origin.get("labels") or {}
        fork = origin.get("forked_from")
        rows.append(
            {
                "key": key,
                "environment_version": _searched(origin["environment_version"]),
                "server_version": _searched(origin["server_version"]),
                "forked_from": None if fork is None else _searched(fork["session_id"]),
                "run": _searched(labels.get("run", "")),
                "agent": _searched(labels.get("agent", "")),
            }
        )
    _write(
        connection,
        "UPDATE episodes SET environment_version = :environment_version, server_version = :server_version, "
        'forked_from = :forked_from, run = :run, agent = :agent WHERE "key" = :key',
        rows,
    )


def _fill_steps(connection: sa.Connection) -> tuple[dict[int, dict[str, int]], set[int]]:
    """Fill the columns of steps; return the numbers of certain steps, and which episodes were paid."""
    counts: dict[int, dict[str, int]] = {}
    paid: set[int] = set()
    update = (
        "UPDATE steps SET tool = :tool, status = :status, blame = :blame, started_at = :started_at, "
        "duration = :duration WHERE episode = :episode AND number = :number"
    )
    # Pages by key: a cursor over rows that are being updated is not defined in SQLite.
    last = (-1, -1)
    while True:
        page = connection.execute(
            sa.text(
                "SELECT episode, number, reward, body FROM steps WHERE episode > :episode OR "
                "(episode = :episode AND number > :number) ORDER BY episode, number LIMIT 500"
            ),
            {"episode": last[0], "number": last[1]},
        ).all()
        if not page:
            return counts, paid
        rows: list[dict[str, Any]] = []
        for episode, number, reward, body in page:
            step: dict[str, Any] = json.loads(body)
            charged = [name for name in step["components"] if name not in {"tool", "withheld"}]
            own = [name for name in step["components"] if name != "withheld"]
            earned = own or (reward is not None and "withheld" not in step["components"])
            added = counts.setdefault(episode, dict.fromkeys(_COUNTS, 0))
            added["ungraded_steps"] += not earned
            added["failed_steps"] += step["status"] == "failed"
            added["refused_steps"] += step["status"] == "refused"
            added["penalised_steps"] += bool(charged)
            if reward is not None:
                paid.add(episode)
            moment = datetime.fromisoformat(step["started_at"]) - _EPOCH
            rows.append(
                {
                    "episode": episode,
                    "number": number,
                    "tool": _searched(step["tool"]),
                    "status": step["status"],
                    "blame": _blame(step),
                    "started_at": (moment.days * 86_400 + moment.seconds) * 1_000_000 + moment.microseconds,
                    "duration": step["duration"],
                }
            )
        _write(connection, update, rows)
        last = (page[-1].episode, page[-1].number)


def _blame(step: dict[str, Any]) -> str | None:
    if step.get("error_code") is None:
        return None
    if step["status"] == "cancelled":
        return "client"
    if step["status"] != "failed":
        return "agent"
    return "author" if step["error_code"] in _AUTHOR else "machinery"


def _fill_standings(connection: sa.Connection, counts: dict[int, dict[str, int]], paid: set[int]) -> None:
    rows: list[dict[str, Any]] = []
    nothing: dict[str, int] = dict.fromkeys([*_COUNTS], 0)
    for row in _texts(connection, "SELECT episode, stop_reason, unjudged_steps, body FROM standings"):
        summary: dict[str, Any] = json.loads(row.body)
        own: dict[str, int] = counts.get(row.episode, nothing)
        started, finished = summary.get("started_at"), summary.get("finished_at")
        duration = None
        if started is not None and finished is not None:
            first, last = (datetime.fromisoformat(text) for text in (started, finished))
            duration = (last - first).total_seconds()
        rows.append(
            {
                "episode": row.episode,
                "result": _result(row, row.episode in paid),
                "duration": duration,
                **own,
            }
        )
    _write(
        connection,
        "UPDATE standings SET result = :result, duration = :duration, "  # noqa: S608  (ours)
        f"{', '.join(f'{name} = :{name}' for name in _COUNTS)} WHERE episode = :episode",
        rows,
    )


def _result(row: Any, is_paid: bool) -> str:  # noqa: FBT001  (one flag of one caller)
    if row.unjudged_steps:
        return "unjudged"
    if row.stop_reason is None:
        return "live"
    if row.stop_reason == "failed":
        return "failed"
    if row.stop_reason not in _ENDINGS:
        return "abandoned"
    return "graded" if is_paid else "ungraded"


def _fill_totals(connection: sa.Connection) -> None:
    limit = "1e150"
    value = (
        f"CASE WHEN episode_return > {limit} THEN {limit} "
        f"WHEN episode_return < -{limit} THEN -{limit} "
        "WHEN episode_return BETWEEN -1e-150 AND 1e-150 THEN 0.0 ELSE episode_return END"
    )
    sums = ", ".join(f"sum({name})" for name in ("steps", *_COUNTS, "unjudged_steps"))
    connection.execute(
        sa.text(
            "INSERT INTO totals (environment, run, agent, phase, stop_reason, result, episodes, "  # noqa: S608  (ours)
            f"steps, {', '.join(_COUNTS)}, unjudged_steps, successes, return_sum, return_squares, "
            "least_return, greatest_return, last_at) "
            f"SELECT environment, run, agent, phase, coalesce(stop_reason, ''), result, count(*), {sums}, "
            "sum(CASE WHEN result = 'graded' AND episode_return >= 1.0 THEN 1 ELSE 0 END), "
            f"sum({value}), sum(({value}) * ({value})), min(episode_return), max(episode_return), "
            'max(created_at) FROM standings JOIN episodes ON "key" = episode WHERE closed_at IS NOT NULL '
            "GROUP BY 1, 2, 3, 4, 5, 6"
        )
    )
