"""Every row that holds a text says what the text was: a digest of it."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the digests; rows that are there already keep an empty one."""
    for table in ("episodes", "standings", "steps", "moves", "prompts"):
        op.add_column(table, sa.Column("digest", _name, nullable=False, server_default=""))
