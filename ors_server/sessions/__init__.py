"""The life of a session: creation, turns, calls, sums, expiry, end."""
