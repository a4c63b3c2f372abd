"""A reward that compares what two queries give, with bounded work."""
