"""The call that a tool serves, as the tool sees it: ids, policy, progress, and questions to the client."""

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from ors_server.environments.calling_client import (
    Ability,
    Answer,
    AskError,
    CallingClient,
    Elicit,
    Elicited,
    ListRoots,
    LogLevel,
    NoClient,
    Question,
    Root,
    RootList,
    Sample,
    Sampled,
)
from ors_server.model.logs import get_logger
from ors_server.model.policy import EpisodePolicy, PenaltyCause
from ors_server.model.trajectory import UserTurn
from ors_server.model.wire import JSONObject

log = get_logger("ors_server.context")

_Answer = TypeVar("_Answer", Elicited, Sampled, RootList)

INTERRUPTED = "the judgement was interrupted"
"""Reason of a judgement that its call did not wait for."""

ProgressListener: TypeAlias = Callable[[float, float | None, str | None], Awaitable[None]]
"""Receives (progress, total, message) while a tool runs."""


@dataclass(slots=True)
class CallContext:
    """The call that a tool serves; a tool receives it by annotating a parameter with this class.

    Attributes:
        call_id: Unique within the session.
        step: Number of the call among those that ran, from 1, in the order in which they began: the number of
            its step, unless calls side by side end in another order.
        listeners: Receive the progress.
        client: The program that made the call, which a tool may ask questions.
        time_limit: Seconds after which the call is stopped; `None` without a limit.
        charged: Causes of penalties that the tool reported.
        user_turns: What the tool sent to the simulated user, with the answers.
        judging: Number of judgements under way.
        is_judged: Whether a judgement began, or could not be made.
    """

    session_id: str
    """The session of the call."""
    call_id: str
    """The call's id, by which a repeat is recognised."""
    step: int
    """Number of the step that this call becomes, from 1."""
    task_spec: JSONObject
    """The task that is played."""
    listeners: list[ProgressListener]
    client: CallingClient = field(default_factory=NoClient)
    """The program that made the call, for questions to it."""
    policy: EpisodePolicy = field(default_factory=EpisodePolicy)
    """The episode's rules."""
    time_limit: float | None = None
    """Seconds that the call's own code may take; `None` without a limit."""
    charged: list[PenaltyCause] = field(default_factory=list[PenaltyCause])
    user_turns: list[UserTurn] = field(default_factory=list[UserTurn])
    judging: int = field(default=0, init=False)
    is_judged: bool = field(default=False, init=False)
    _unjudged: tuple[str, str] | None = field(default=None, init=False)

    def charge(self, cause: PenaltyCause) -> None:
        """Charge the policy's penalty for a cause, if it has one: once, when the call completes."""
        if cause not in self.charged:
            self.charged.append(cause)

    def note_unjudged(self, status: str, reason: str) -> None:
        """Record that a judgement produced no number; the call is then neither paid nor charged."""
        self.is_judged = True
        if self._unjudged is None:
            self._unjudged = status, reason

    @property
    def unjudged(self) -> tuple[str, str] | None:
        """Status and reason of the first judgement without a number, which one still under way also lacks."""
        if self._unjudged is None and self.judging:
            return "error", INTERRUPTED
        return self._unjudged

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Send the progress to the clients that requested it.

        Args:
            progress: In the tool's own unit; larger than in the call before.
            total: In the same unit; `None` if it is not known.
        """
        for listener in list(self.listeners):
            try:
                await listener(progress, total, message)
            except Exception:  # a listener that left does not fail the tool
                log.debug("listener_lost", session_id=self.session_id, call_id=self.call_id, exc_info=True)
                if listener in self.listeners:
                    self.listeners.remove(listener)

    def can(self, ability: Ability) -> bool:
        """Return whether the calling program offers an ability."""
        return self.client.can(ability)

    async def log(self, level: LogLevel, data: object, logger: str | None = None) -> None:
        """Send the calling program a log line; nothing happens if it accepts none."""
        try:
            await self.client.log(level, data, logger)
        except Exception:  # a program that left does not fail the tool
            log.debug("client_lost", session_id=self.session_id, call_id=self.call_id, exc_info=True)

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answer]:
        """Ask the calling program several questions at once and wait for all the answers.

        Args:
            questions: By a key that is unique within the call.

        Returns:
            The answers by the same keys; each kind of question has its kind of answer.

        Raises:
            AbilityError: If the program does not offer what a question needs; ORS clients offer nothing.
            AskError: If it refuses, leaves, or does not answer in time.
        """
        return await self.client.ask(questions)

    async def elicit(self, message: str, schema: JSONObject, *, key: str = "elicitation") -> Elicited:
        """Show a form to the user of the calling program; raises as `ask` does.

        Args:
            schema: JSON Schema of an object whose properties are strings, numbers, booleans or choices.
            key: Names the question; a second form in the same call needs another key.
        """
        return await self._ask_one(key, Elicit(message, schema), Elicited)

    async def sample(
        self, prompt: str, *, max_tokens: int = 100, system_prompt: str | None = None, key: str = "sample"
    ) -> Sampled:
        """Ask the calling program's own model; raises as `ask` does.

        Args:
            max_tokens: Tokens that the reply may have, at least 1.
            key: Names the question; a second one in the same call needs another key.
        """
        return await self._ask_one(key, Sample(prompt, max_tokens, system_prompt), Sampled)

    async def list_roots(self, *, key: str = "roots") -> tuple[Root, ...]:
        """Ask which folders the calling program works on; raises as `ask` does."""
        return (await self._ask_one(key, ListRoots(), RootList)).roots

    async def _ask_one(self, key: str, question: Question, kind: type[_Answer]) -> _Answer:
        answer = (await self.client.ask({key: question}))[key]
        if not isinstance(answer, kind):
            name = type(answer).__name__
            raise AskError(f"the calling program gave an answer of the wrong kind: {name}")
        return answer


running_call: ContextVar[CallContext | None] = ContextVar("ors_running_call", default=None)
"""The call that the current task serves; `None` outside of calls."""
