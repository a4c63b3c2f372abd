"""Child processes: their variables, start and end, and the offload workers."""
