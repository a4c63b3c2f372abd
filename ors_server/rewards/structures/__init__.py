"""Rewards of JSON, tool calls, states and places on a screen."""
