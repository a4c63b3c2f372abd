"""Conformance suites for servers of the Open Reward Standard and of MCP, in any language."""
