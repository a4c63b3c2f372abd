"""Terminal exercises generated from a seed, graded by the state of the files that they leave."""

from ors_server_tasks.shell.environment import ShellTasks

__all__ = ["ShellTasks"]
