"""A client of ORS and MCP servers that checks its own sums."""
