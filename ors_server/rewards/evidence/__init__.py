"""Rewards of the files and programs that an agent left in its work dir."""
