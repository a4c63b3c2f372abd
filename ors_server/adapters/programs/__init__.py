"""Programs of worker processes: each is imported by its path, in the Python that has its package."""
