"""The same environment as `echo_environment.py`, served by the `openreward` package.

Usage: PORT
"""

import sys

from openreward.environments import Environment, JSONObject, Server, Split, TextBlock, ToolOutput, tool
from pydantic import BaseModel


class EchoInput(BaseModel):
    """The tool's arguments."""

    text: str


class Echo(Environment):
    """Echoes."""

    @classmethod
    def list_splits(cls) -> list[Split]:
        """Return the one split."""
        return [Split(name="test", type="test")]

    @classmethod
    def list_tasks(cls, split: str) -> list[JSONObject]:
        """Return the one task."""
        del split
        return [{"target": "hello"}]

    def get_prompt(self) -> list[TextBlock]:
        """Return what the agent is told."""
        return [TextBlock(text="Echo.")]

    @tool
    async def echo(self, params: EchoInput) -> ToolOutput:
        """Echoes the text."""
        return ToolOutput(blocks=[TextBlock(text=params.text)], reward=0.0, finished=False)


Server([Echo]).run(host="127.0.0.1", port=int(sys.argv[1]))
