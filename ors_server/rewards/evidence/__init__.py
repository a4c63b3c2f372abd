"""Rewards of what an agent left in its work dir: files, and programs that are run."""
