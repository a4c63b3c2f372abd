"""Every row with a text has a digest of it."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the digests; existing rows have an empty one."""
    for table in ("episodes", "standings", "steps", "moves", "prompts"):
        op.add_column(table, sa.Column("digest", _name, nullable=False, server_default=""))
