"""MCP: agents play episodes over it, and programs that speak only MCP reach the environments."""
