"""Long blocks are stored once, apart from the steps that refer to them."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_whole = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the tables of blobs; texts that are in steps stay there."""
    op.add_column("steps", sa.Column("blobs", sa.Text))
    op.add_column("prompts", sa.Column("blobs", sa.Text))
    op.create_table(
        "blobs",
        sa.Column("sha256", _name, primary_key=True),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("data", sa.LargeBinary),
    )
    op.create_table(
        "blob_uses",
        sa.Column(
            "episode",
            _whole,
            sa.ForeignKey("episodes.key", ondelete="CASCADE"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("sha256", _name, sa.ForeignKey("blobs.sha256"), primary_key=True),
    )
    op.create_index("blob_uses_by_blob", "blob_uses", ["sha256"])
