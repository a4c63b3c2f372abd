"""Serve RL environments for language-model agents over the Open Reward Standard and MCP."""

__version__ = "0.1.0"
