"""How a database of an older server becomes one of this server; `env` is run by Alembic, not imported."""
