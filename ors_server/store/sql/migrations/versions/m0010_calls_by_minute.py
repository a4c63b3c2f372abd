"""Calls are counted by minute."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Count the calls that are on record."""
    op.create_table(
        "call_minutes",
        sa.Column("minute", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("writer", sa.BigInteger, primary_key=True, autoincrement=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("calls", "refused", "failed")),
    )
    op.execute(
        "INSERT INTO call_minutes (minute, writer, calls, refused, failed) "
        "SELECT started_at / 60000000, 0, count(*), sum(CASE WHEN status = 'refused' THEN 1 ELSE 0 END), "
        "sum(CASE WHEN status = 'failed' THEN 1 ELSE 0 END) FROM steps GROUP BY 1"
    )
