"""ALFWorld: household tasks in text, played by TextWorld in worker processes."""

from ors_server_tasks.alfworld.environment import AlfworldTasks

__all__ = ["AlfworldTasks"]
