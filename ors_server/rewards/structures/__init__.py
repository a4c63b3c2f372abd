"""Rewards that compare structures: JSON, tool calls, states, points on a screen."""
