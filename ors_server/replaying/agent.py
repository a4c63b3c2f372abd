"""An agent that plays what was played before."""

from collections.abc import Sequence
from typing import Protocol

from ors_server.replaying.recorded import recorded_calls
from ors_server.trajectory import Step
from ors_server.wire import JSONObject


class Answered(Protocol):
    """What a call came to, as far as the agent looks."""

    @property
    def finished(self) -> bool:
        """Whether the episode is over."""
        ...


class Playable(Protocol):
    """Where an episode is played."""

    async def call(self, tool: str, arguments: JSONObject) -> Answered:
        """Call a tool.

        Args:
            tool: Its name.
            arguments: Its arguments.
        """
        ...


class ReplayAgent:
    """Plays the recorded calls of an episode in order, whatever it is answered; it compares nothing."""

    def __init__(self, steps: Sequence[Step]) -> None:
        """Take the calls.

        Args:
            steps: Of the recorded episode, in order. Calls that were withdrawn or that the machinery failed
                are left out, and so is what follows a restored snapshot.
        """
        self.calls = tuple(recorded_calls(steps))

    async def play(self, seat: Playable) -> int:
        """Play until the calls or the episode end.

        Args:
            seat: Where the episode is played.

        Returns:
            How many calls were made.

        Raises:
            Exception: Whatever a call raises.
        """
        for made, call in enumerate(self.calls, 1):
            if (await seat.call(call.tool, call.arguments)).finished:
                return made
        return len(self.calls)
