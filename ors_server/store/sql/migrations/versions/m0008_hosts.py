"""The hosts of a server with several of them, and the host of each slot of session ids."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add both tables, empty; the first host fills them."""
    op.create_table(
        "hosts",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("draining", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "slots",
        sa.Column("slot", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("host", sa.BigInteger, nullable=False),
    )
