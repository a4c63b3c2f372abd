"""Notes about episodes."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_whole = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the table, empty."""
    op.create_table(
        "notes",
        sa.Column("note_id", _name, primary_key=True),
        sa.Column("episode", _whole, sa.ForeignKey("episodes.key", ondelete="CASCADE"), nullable=False),
        sa.Column("author", _name, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("verdict", _name),
        sa.Column("step", sa.BigInteger),
    )
    op.create_index("notes_by_episode", "notes", ["episode", "at", "note_id"])
