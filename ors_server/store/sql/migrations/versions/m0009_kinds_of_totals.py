"""Totals are apart by split and kinds of steps too; episodes are indexed by split and in order of tasks."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

_name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_KINDS = ("environment", "split", "run", "agent", "phase", "stop_reason", "result", "marks")
_COUNTS = ("ungraded_steps", "failed_steps", "refused_steps", "penalised_steps", "unjudged_steps")
_VALUE = (
    "CASE WHEN episode_return > 1e150 THEN 1e150 WHEN episode_return < -1e150 THEN -1e150 "
    "WHEN episode_return BETWEEN -1e-150 AND 1e-150 THEN 0.0 ELSE episode_return END"
)
_MARKS = " || ".join(
    f"CASE WHEN {name} > 0 THEN '{letter}' ELSE '' END"
    for letter, name in zip(
        "frpu", ("failed_steps", "refused_steps", "penalised_steps", "ungraded_steps"), strict=True
    )
)


def upgrade() -> None:
    """Make the totals anew from the closed episodes, and add both indices."""
    op.drop_table("totals")
    op.create_table(
        "totals",
        *(sa.Column(name, _name, primary_key=True) for name in _KINDS),
        *(
            sa.Column(name, sa.BigInteger, nullable=False)
            for name in ("episodes", "steps", *_COUNTS, "successes", "last_at")
        ),
        *(
            sa.Column(name, sa.Double, nullable=False)
            for name in ("return_sum", "return_squares", "least_return", "greatest_return")
        ),
    )
    op.execute(
        f"INSERT INTO totals ({', '.join(_KINDS)}, episodes, steps, {', '.join(_COUNTS)}, successes, "  # noqa: S608  (ours)
        "last_at, return_sum, return_squares, least_return, greatest_return) "
        "SELECT environment, coalesce(split, ''), run, agent, phase, coalesce(stop_reason, ''), result, "
        f"{_MARKS}, count(*), sum(steps), {', '.join(f'sum({name})' for name in _COUNTS)}, "
        "sum(CASE WHEN result = 'graded' AND episode_return >= 1.0 THEN 1 ELSE 0 END), max(created_at), "
        f"sum({_VALUE}), sum(({_VALUE}) * ({_VALUE})), min(episode_return), max(episode_return) "
        'FROM standings JOIN episodes ON "key" = episode WHERE closed_at IS NOT NULL '
        "GROUP BY 1, 2, 3, 4, 5, 6, 7, 8"
    )
    op.create_index("episodes_by_split", "episodes", ["split", "created_at", "episode_id"])
    op.create_index("episodes_in_task_order", "episodes", ["environment", "split", "task_index", "task_hash"])
