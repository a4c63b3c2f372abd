"""Programming tasks with hidden tests, in a sandbox."""

from ors_server_tasks.code.environment import CodeTasks

__all__ = ["CodeTasks"]
