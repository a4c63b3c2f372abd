"""A robot walks along a corridor to a lamp: steps towards it pay, steps away from it take that back."""

from typing import Any, Literal

from ors_server import Environment, EpisodePolicy, JSONObject, ToolOutput, tool

ROOMS = 5
DISTANCE = 2
"""Rooms between the robot and the lamp at the start."""
STARTS = {"train": (0, 1, 2), "test": (2, 3, 4)}
"""Where the robot starts; in training the lamp is always on its right."""


class Corridor(Environment):
    """Five rooms in a row; the return is 1 at the lamp, and the less the further away the robot ends."""

    name = "corridor"
    policy = EpisodePolicy(step_limit=6, reward_range=(-0.5, 0.5))

    def __init__(self, task_spec: JSONObject, secrets: dict[str, str] | None = None) -> None:
        """Place the robot."""
        super().__init__(task_spec, secrets)
        self.room = int(task_spec["room"])

    @classmethod
    def list_splits(cls) -> list[str]:
        """Return the splits."""
        return list(STARTS)

    @classmethod
    def list_tasks(cls, split: str) -> list[JSONObject]:
        """Return where the robot and the lamp are."""
        side = DISTANCE if split == "train" else -DISTANCE
        return [{"id": f"{split}/{room}", "room": room, "lamp": room + side} for room in STARTS[split]]

    @classmethod
    def gold_actions(cls, task_spec: JSONObject) -> list[tuple[str, dict[str, Any]]]:
        """Return the calls that reach the lamp."""
        direction = "right" if task_spec["lamp"] > task_spec["room"] else "left"
        return [("walk", {"direction": direction})] * DISTANCE

    def get_prompt(self) -> str:
        """Return what the agent reads first."""
        lamp = self.task_spec["lamp"]
        return f"You are in room {self.room} of 0 to {ROOMS - 1}. Walk to the lamp in room {lamp}."

    @tool
    def walk(self, direction: Literal["left", "right"]) -> ToolOutput:
        """Walk one room to the left or to the right.

        Args:
            direction: left towards room 0, right towards the last room.
        """
        before = self._distance()
        self.room = min(max(self.room + (1 if direction == "right" else -1), 0), ROOMS - 1)
        reward = (before - self._distance()) / DISTANCE
        if self._distance() == 0:
            return ToolOutput.final("You are at the lamp.", reward=reward)
        return ToolOutput.ongoing(f"You are in room {self.room}.", reward=reward)

    def _distance(self) -> int:
        return abs(int(self.task_spec["lamp"]) - self.room)
