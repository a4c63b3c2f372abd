"""How rewards read answers, options and metrics, with bounded work."""
