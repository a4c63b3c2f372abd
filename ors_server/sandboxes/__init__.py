"""Isolated places for an agent's commands: one interface, one file per backend."""
