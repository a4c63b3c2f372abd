"""The environment with which the benchmarks reach a shell through the server's door."""

from typing import ClassVar

from ors_server import Environment


class Shell(Environment):
    """Gives a shell."""

    name = "shell"
    toolsets: ClassVar = ("bash",)

    @classmethod
    def list_splits(cls) -> list[str]:
        """Return the one split."""
        return ["test"]

    @classmethod
    def list_tasks(cls, split: str) -> list[dict[str, str]]:
        """Return the one task."""
        del split
        return [{}]

    def get_prompt(self) -> str:
        """Return what the agent is told."""
        return "There is a shell."
