"""Toolsets that any environment can take by name."""
