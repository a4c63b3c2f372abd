"""The input of rewards, under the module from which ARISE's pages import it (`arise.types`)."""

from ors_server.rewards.reward_trajectory import Step, Trajectory

__all__ = ["Step", "Trajectory"]
