"""The record in a SQL database: SQLite or PostgreSQL, through SQLAlchemy Core."""
