"""Judging rows by the thousand, in worker processes: in order, within limits."""
