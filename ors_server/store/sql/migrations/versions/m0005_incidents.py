"""Incidents of episodes, and values that the servers of a record share."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_whole = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add both tables, empty."""
    op.create_table(
        "incidents",
        sa.Column(
            "episode",
            _whole,
            sa.ForeignKey("episodes.key", ondelete="CASCADE"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("digest", _name, nullable=False, server_default=""),
    )
    op.create_table(
        "shared_values",
        sa.Column("name", _name, primary_key=True),
        sa.Column("value", sa.LargeBinary, nullable=False),
    )
