"""Elementary-school science tasks in the text world ScienceWorld."""

from ors_server_tasks.scienceworld.environment import ScienceWorld

__all__ = ["ScienceWorld"]
