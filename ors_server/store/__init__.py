"""Stores of episode records: in memory, or in SQLite or PostgreSQL."""
