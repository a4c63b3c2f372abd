"""A judge's model without a network, for tests of rubrics and of everything that is built on them."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import anyio.lowlevel

from ors_server.rewards.judges.completion import Completion, Message, Sampling, Schema
from ors_server.rewards.judges.errors import JudgeError

Reply: TypeAlias = str | Completion | Exception
Script: TypeAlias = Reply | Sequence[Reply] | Callable[[Sequence[Message]], Reply]
"""One reply for ever, replies in order, or a function of the messages; an exception is raised."""


class ScriptedJudge:
    """Says what its script says, and keeps what it was asked."""

    def __init__(self, script: Script, *, name: str = "scripted", sampling: Sampling | None = None) -> None:
        """Take a script.

        Args:
            script: What it says.
            name: The model's name.
            sampling: What its sampling is said to be.
        """
        self._script = script
        self._next = 0
        self.name = name
        self.sampling = sampling or Sampling()
        self.asked: list[list[Message]] = []
        """The messages of each call, in order."""
        self.schemas: list[Schema | None] = []
        """The schema of each call, in order."""

    async def complete(
        self, messages: Sequence[Message], schema: Schema | None = None, *, sample: int = 0
    ) -> Completion:
        """Give the next reply.

        Args:
            messages: What is asked; kept.
            schema: Kept.
            sample: Ignored.

        Raises:
            JudgeError: If the script is over.
        """
        _ = sample
        await anyio.lowlevel.checkpoint()
        self.asked.append(list(messages))
        self.schemas.append(schema)
        reply = self._reply(messages)
        if isinstance(reply, Exception):
            raise reply
        return Completion(reply) if isinstance(reply, str) else reply

    def _reply(self, messages: Sequence[Message]) -> Reply:
        script = self._script
        if isinstance(script, str | Completion | Exception):
            return script
        if callable(script):
            return script(messages)
        if self._next >= len(script):
            raise JudgeError(f"the script has {len(script)} replies, and one more was asked for")
        self._next += 1
        return script[self._next - 1]
