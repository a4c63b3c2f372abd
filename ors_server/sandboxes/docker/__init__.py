"""The backend that isolates with a Docker engine."""
