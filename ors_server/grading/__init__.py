"""Judging what an agent left behind, out of the reach of what it left running."""
