"""The doors: each parses bytes, asks the engine, and writes bytes. None decides anything about an episode."""
