"""Which episode is which attempt of a key at a task."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

_name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_whole = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the table, with the episodes on record in their order."""
    key = sa.ForeignKey("episodes.key", ondelete="CASCADE")
    task = ("credential_id", "environment", "split")
    op.create_table(
        "attempts",
        sa.Column("episode", _whole, key, primary_key=True, autoincrement=False),
        *(sa.Column(name, _name, nullable=False) for name in task),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("task_index", "number")),
    )
    op.create_index("attempts_by_task", "attempts", [*task, "task_index", "number"], unique=True)
    op.execute(
        "INSERT INTO attempts (episode, credential_id, environment, split, task_index, number) "
        "SELECT key, credential_id, environment, coalesce(split, ''), coalesce(task_index, -1), "
        "row_number() OVER (PARTITION BY credential_id, environment, split, task_index ORDER BY key) "
        "FROM episodes WHERE credential_id IS NOT NULL"
    )
