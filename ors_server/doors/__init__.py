"""The interfaces of a server: ORS, MCP and the control API, over HTTP and standard input."""
