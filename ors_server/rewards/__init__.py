"""Rewards: functions from what an episode left behind to a number, or to a reason why there is none."""
