"""A judge's model without a network, for tests of rubrics and of everything that is built on them."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import anyio.lowlevel

from ors_server.rewards.judges.judge_model import Completion, Message, Sampling, Schema
from ors_server.rewards.reward_errors import JudgeError

Reply: TypeAlias = str | Completion | Exception
Script: TypeAlias = Reply | Sequence[Reply] | Callable[[Sequence[Message]], Reply]
"""One reply to all questions, replies in order, or a function of the messages; an exception is raised."""


class ScriptedJudge:
    """Replies by a script, and keeps its questions."""

    def __init__(self, script: Script, *, name: str = "scripted", sampling: Sampling | None = None) -> None:
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
        """Return the next reply.

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
            raise JudgeError(f"the script has only {len(script)} replies: no reply to another question")
        self._next += 1
        return script[self._next - 1]
