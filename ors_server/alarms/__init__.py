"""Sixteen alarms over the episodes of a run: training that learns nothing, cheats, or gets wrong numbers."""
