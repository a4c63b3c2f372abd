"""The episode store in SQLite or PostgreSQL, through SQLAlchemy Core."""
