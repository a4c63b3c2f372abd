"""Users without a model: one that follows a script, and one that a function answers for."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import anyio.lowlevel

from ors_server.environments.simulated_user.conversation import UserReply
from ors_server.environments.simulated_user.user_errors import UserSettingsError
from ors_server.environments.simulated_user.user_script import UserScript
from ors_server.model.trajectory import UserTurn

Answering: TypeAlias = Callable[[str, Sequence[UserTurn]], Any]
"""Given a message and the conversation before it, returns the answer, a text."""


class ScriptedUser:
    """Says only what its script has: a refusal, else the facts that are asked for, else the next answer."""

    def __init__(self, script: UserScript) -> None:
        self.name = "scripted"
        self.script = script

    async def reply(self, message: str, before: Sequence[UserTurn], seed: int) -> UserReply:
        """Answer by the script."""
        _ = seed
        await anyio.lowlevel.checkpoint()
        scripted_reply = self._known(message)
        if scripted_reply is not None:
            return UserReply(scripted_reply)
        # The next answer of the list: as many were used as earlier messages matched no rule.
        used = sum(self._known(turn.message) is None for turn in before)
        answers = self.script.answers
        return UserReply(answers[used] if used < len(answers) else self.script.otherwise)

    def _known(self, message: str) -> str | None:
        return self.script.refusal(message) or self.script.told(message)


class FunctionUser:
    """Answers by a function, which is quick, and whose answer depends on its arguments alone."""

    def __init__(self, function: Answering, *, name: str = "") -> None:
        self.name = name or getattr(function, "__name__", "function")
        self._function = function

    async def reply(self, message: str, before: Sequence[UserTurn], seed: int) -> UserReply:
        """Answer by the function; raises `UserSettingsError` if it returned no text."""
        _ = seed
        await anyio.lowlevel.checkpoint()
        text: object = self._function(message, before)
        if not isinstance(text, str) or not text.strip():
            raise UserSettingsError(
                f"the user {self.name!r} must return a text that is not empty, got {text!r:.80}"
            )
        return UserReply(text)
