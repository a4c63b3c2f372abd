"""The environment that the benchmarks play: one async tool that does next to nothing."""

from ors_server import Environment, ToolOutput, tool


class Echo(Environment):
    """Echoes."""

    name = "echo"

    @classmethod
    def list_splits(cls) -> list[str]:
        """Return the one split."""
        return ["test"]

    @classmethod
    def list_tasks(cls, split: str) -> list[dict[str, str]]:
        """Return the one task."""
        del split
        return [{"target": "hello"}]

    def get_prompt(self) -> str:
        """Return what the agent is told."""
        return "Echo."

    @tool
    async def echo(self, text: str) -> ToolOutput:
        """Echoes the text."""
        return ToolOutput.ongoing(text, reward=0.0)
