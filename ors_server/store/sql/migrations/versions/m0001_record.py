"""The first schema: episodes, their figures, steps, transitions, prompts and labels."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_whole = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def _episode() -> "sa.Column[int]":
    return sa.Column(
        "episode",
        _whole,
        sa.ForeignKey("episodes.key", ondelete="CASCADE"),
        primary_key=True,
        autoincrement=False,
    )


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "episodes",
        sa.Column("key", _whole, primary_key=True, autoincrement=True),
        sa.Column("episode_id", _name, nullable=False, unique=True),
        sa.Column("session_id", _name, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("environment", _name, nullable=False),
        sa.Column("split", _name),
        sa.Column("task_index", sa.BigInteger),
        sa.Column("task_hash", _name, nullable=False),
        sa.Column("credential_id", _name),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_index("episodes_by_time", "episodes", ["created_at", "episode_id"])
    op.create_index("episodes_by_environment", "episodes", ["environment", "created_at", "episode_id"])
    op.create_index("episodes_by_session", "episodes", ["session_id", "key"])
    op.create_index("episodes_by_task", "episodes", ["task_hash", "created_at"])
    op.create_table(
        "standings",
        _episode(),
        sa.Column("phase", _name, nullable=False),
        sa.Column("stop_reason", _name),
        sa.Column("steps", sa.BigInteger, nullable=False),
        sa.Column("episode_return", sa.Double, nullable=False),
        sa.Column("touched_at", sa.BigInteger, nullable=False),
        sa.Column("closed_at", sa.BigInteger),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_index("standings_by_closing", "standings", ["closed_at"])
    op.create_table(
        "steps",
        _episode(),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("reward", sa.Double),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table(
        "moves",
        _episode(),
        sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table("prompts", _episode(), sa.Column("body", sa.Text, nullable=False))
    op.create_table(
        "labels",
        _episode(),
        sa.Column("name", _name, primary_key=True),
        sa.Column("value", _name, nullable=False),
    )
    op.create_index("labels_by_value", "labels", ["name", "value"])
