"""Small environments: an honest one, and one that pays for fragments."""

from typing import Any

from ors_server import Environment, EpisodePolicy, JSONObject, ToolOutput, tool


class Exact(Environment):
    """Pays for the capital of a country."""

    name = "exact"
    policy = EpisodePolicy(reward_range=(0.0, 1.0))

    @classmethod
    def list_splits(cls) -> list[str]:
        return ["test"]

    @classmethod
    def list_tasks(cls, split: str) -> list[JSONObject]:
        capitals = {"Austria": "Vienna", "Chile": "Santiago", "Ghana": "Accra", "Nepal": "Kathmandu"}
        return [{"country": country, "answer": capital} for country, capital in capitals.items()]

    @classmethod
    def gold_actions(cls, task_spec: JSONObject) -> list[tuple[str, dict[str, Any]]]:
        return [("submit", {"answer": task_spec["answer"]})]

    def get_prompt(self) -> str:
        return f"What is the capital of {self.task_spec['country']}?"

    def judge(self, answer: str) -> float:
        return float(answer == self.task_spec["answer"])

    @tool
    def submit(self, answer: str) -> ToolOutput:
        """Submits the answer, which ends the episode."""
        return ToolOutput.final("noted", reward=self.judge(answer))


class Mentions(Exact):
    """Pays for every text with the capital in it."""

    name = "mentions"

    def judge(self, answer: str) -> float:
        return float(self.task_spec["answer"] in answer)
