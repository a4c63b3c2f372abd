"""The MCP door: agents play episodes, and programs that speak only MCP reach the environments."""
