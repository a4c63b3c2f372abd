"""A flawed environment on the `openreward` package's own server; the argument is the port.

It searches the answer in what is said (H3, H4), and its prompt has the answer, encoded (H9).
"""

import base64
import sys

import uvicorn
from openreward.environments import Environment, Server, Split, TextBlock, ToolOutput, tool
from pydantic import BaseModel

RIVERS = {
    "Cairo": "Nile",
    "London": "Thames",
    "Paris": "Seine",
    "Rome": "Tiber",
    "Vienna": "Danube",
    "Hamburg": "Elbe",
    "Baghdad": "Tigris",
    "Porto": "Douro",
    "Lyon": "Rhone",
    "Khartoum": "Atbara",
}


class AnswerInput(BaseModel):
    answer: str


class Rivers(Environment):
    """Asks which river flows through a city."""

    @classmethod
    def list_splits(cls):
        return [Split(name="test", type="test")]

    @classmethod
    def list_tasks(cls, split):
        return [{"city": city, "answer": river} for city, river in RIVERS.items()]

    def get_prompt(self):
        seal = base64.b64encode(self.task_spec["answer"].encode()).decode()
        return [TextBlock(text=f"Which river flows through {self.task_spec['city']}? [seal {seal}]")]

    @tool
    async def submit(self, given: AnswerInput) -> ToolOutput:
        """Submit the river's name."""
        is_right = self.task_spec["answer"].lower() in given.answer.lower()
        return ToolOutput(blocks=[TextBlock(text="noted")], reward=float(is_right), finished=True)


if __name__ == "__main__":
    uvicorn.run(Server([Rivers]).app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
