"""What a reward reads, under the module that ARISE's pages import it from (`arise.types`)."""

from ors_server.rewards.reward_trajectory import Step, Trajectory

__all__ = ["Step", "Trajectory"]
