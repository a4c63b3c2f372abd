"""How rewards read what stands in answers, options and metrics, with bounded work."""
