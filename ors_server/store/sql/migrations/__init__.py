"""Alembic migrations from every older schema; Alembic runs `env`, which is not imported."""
