"""Judges what an agent left behind, out of reach of the processes that it left running."""
