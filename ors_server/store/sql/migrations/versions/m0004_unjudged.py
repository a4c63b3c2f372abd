"""Summaries count the steps whose judgement failed; those of older servers are counted here."""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_STATUSES = {"bad_gold", "error", "limit"}
"""Of rewards without a number, as servers of the older schemas wrote them."""


def upgrade() -> None:
    """Add the column, and count in the steps that are there; their rows stay as they are."""
    op.add_column("standings", sa.Column("unjudged_steps", sa.BigInteger, nullable=False, server_default="0"))
    connection = op.get_bind()
    # In batches: psycopg would else take every body of the record into memory before the first row.
    steps = connection.execute(
        sa.text("SELECT episode, body FROM steps WHERE body LIKE '%reward_status%'"),
        execution_options={"yield_per": 500},
    )
    counts: dict[int, int] = {}
    for episode, body in steps:
        metadata: dict[str, Any] = json.loads(body).get("metadata") or {}
        status = metadata.get("reward_status")
        if isinstance(status, str) and status in _STATUSES:
            counts[episode] = counts.get(episode, 0) + 1
    if counts:
        connection.execute(
            sa.text("UPDATE standings SET unjudged_steps = :count WHERE episode = :episode"),
            [{"episode": episode, "count": count} for episode, count in counts.items()],
        )
