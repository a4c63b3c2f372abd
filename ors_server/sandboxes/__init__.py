"""Places where an agent's commands run: one interface, one file per backend."""
