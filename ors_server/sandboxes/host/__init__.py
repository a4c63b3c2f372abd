"""Backends that isolate with the host's kernel: bubblewrap, Landlock, and no isolation."""
