"""The Open Reward Standard."""
