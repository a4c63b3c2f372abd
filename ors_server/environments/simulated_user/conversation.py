"""The conversation of an agent with the user of its episode: bounded, and recorded with the steps."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

import anyio

from ors_server.environments.boundary import encodable
from ors_server.environments.call_context import running_call
from ors_server.environments.episode_rewards import own_episode, remaining_call_time
from ors_server.environments.simulated_user.user_errors import (
    UserBudgetError,
    UserError,
    UserMessageError,
    UserRecordError,
    UserSettingsError,
)
from ors_server.model.trajectory import UserTurn

MAX_REPLY_CHARACTERS = 8_000
"""Characters of a user's answer; what is longer is cut."""

_CONVERSATION = "_ors_conversation"
_RECORDED = "_ors_recorded_turns"


@dataclass(frozen=True, slots=True)
class UserReply:
    """A user's answer to one message."""

    text: str
    """What the user answers."""
    tokens: int = 0
    """Tokens that a model used, for prompt and answer."""


class SimulatedUser(Protocol):
    """A simulated person to whom an agent can write. It keeps nothing: its answer depends on its input."""

    @property
    def name(self) -> str:
        """The name that the record has, such as `scripted` or a model's."""
        ...

    async def reply(self, message: str, before: Sequence[UserTurn], seed: int) -> UserReply:
        """Answer a message.

        Args:
            message: The agent's words; they are data, never instructions.
            before: The conversation until now, oldest first.
            seed: The episode's seed, in [0, 2**53).

        Raises:
            UserError: If there is no answer, and the agent has not caused that.
        """
        ...


@dataclass(frozen=True, slots=True)
class UserBudget:
    """Limits on one episode's use of its user."""

    turns: int = 30
    """Messages, failed ones included; then the user has left."""
    tokens: int = 100_000
    """Of a model, prompts and answers of all turns, failed ones included; when they are used, the user has
    left."""
    seconds: float = 300.0
    """For which the episode may wait for its user, failed answers included; then the machinery has failed."""
    failures: int = 3
    """Failed answers after which the conversation is over; then the machinery has failed."""
    characters: int = 4_000
    """Of one message."""


@dataclass(frozen=True, slots=True)
class FailedReplies:
    """A conversation's use of its user for answers that failed."""

    count: int = 0
    tokens: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class SavedConversation:
    """A conversation at one moment, to be copied with a session."""

    turns: tuple[UserTurn, ...] = ()
    failed: FailedReplies = FailedReplies()


_spent_tokens: ContextVar[list[int] | None] = ContextVar("ors_user_tokens", default=None)
"""Tokens that the current request has used, entry by entry; `None` outside of requests."""


def spend_tokens(count: int) -> None:
    """Count tokens that a user's model used for the answer under way; they count even if it fails."""
    spent = _spent_tokens.get()
    if spent is not None:
        spent.append(count)


class UserConversation:
    """The messages of an agent to its user, and the answers. Tools send one message at a time."""

    def __init__(
        self,
        user: SimulatedUser,
        *,
        seed: int = 0,
        budget: UserBudget | None = None,
        recorded: Sequence[UserTurn] | None = None,
    ) -> None:
        """Begin a conversation; one that is replayed has the `recorded` turns, and asks no user."""
        self.user = user
        self.turns: tuple[UserTurn, ...] = ()
        """The messages and their answers, oldest first."""
        self._seed = seed
        self._budget = budget or UserBudget()
        self._recorded = recorded
        self._failed = FailedReplies()
        self._lock: AbstractAsyncContextManager[object] = anyio.Lock()

    async def send(self, message: str) -> str:
        """Send the user a message, and return the answer.

        Raises:
            UserMessageError: The message is empty or too long, or the user has left. It is the agent's
                mistake, so a tool may let it pass.
            UserError: The user's model failed or was too slow; `UserBudgetError` if too often.
            UserRecordError: In a replay, if the record has another message here, or none.
        """
        # One message at a time: the budget and each answer depend on the turns before.
        async with self._lock:
            self._check(message)
            turn = await self._ask(message) if self._recorded is None else self._repeat(message)
            self.turns = (*self.turns, turn)
            call = running_call.get()
            if call is not None:
                call.user_turns.append(turn)
            return turn.reply

    def end_replay(self) -> None:
        """Ask the user from now on."""
        self._recorded = None

    def save(self) -> SavedConversation:
        """Return the conversation until now."""
        return SavedConversation(self.turns, self._failed)

    def restore(self, saved: SavedConversation) -> None:
        """Bring the turns to where they were; what failed answers have used since stays used."""
        self.turns = saved.turns
        now, then = self._failed, saved.failed
        self._failed = FailedReplies(
            max(now.count, then.count), max(now.tokens, then.tokens), max(now.seconds, then.seconds)
        )

    def _check(self, message: str) -> None:
        budget = self._budget
        if not message.strip():
            raise UserMessageError("The message is empty. Write a text for the user.")
        if len(message) > budget.characters:
            raise UserMessageError(
                f"The message has {len(message):,} characters; at most {budget.characters:,} are allowed."
            )
        used = sum(turn.tokens for turn in self.turns) + self._failed.tokens
        if len(self.turns) + self._failed.count >= budget.turns or used >= budget.tokens:
            raise UserMessageError(
                f"The user has left the conversation after {len(self.turns)} messages; continue alone."
            )

    async def _ask(self, message: str) -> UserTurn:
        left = self._budget.seconds - sum(turn.seconds for turn in self.turns) - self._failed.seconds
        if left <= 0:
            raise UserBudgetError(
                f"the user {self.user.name!r} has used its {self._budget.seconds:g} seconds of this episode"
            )
        if self._failed.count >= self._budget.failures:
            raise UserBudgetError(
                f"the user {self.user.name!r} has failed {self._failed.count} times, "
                "so the conversation is over"
            )
        started, spent = anyio.current_time(), list[int]()
        turn: UserTurn | None = None
        # The model reports its use while it works, so that a failure or a time-out is charged, too.
        token = _spent_tokens.set(spent)
        try:
            turn = await self._answer(message, min(left, remaining_call_time()))
            return turn
        finally:
            _spent_tokens.reset(token)
            if turn is None:  # for every reason: what a failed answer used stays used
                self._failed = FailedReplies(
                    self._failed.count + 1,
                    self._failed.tokens + sum(spent),
                    self._failed.seconds + anyio.current_time() - started,
                )

    async def _answer(self, message: str, limit: float) -> UserTurn:
        """Have the user answer within a number of seconds."""
        started = anyio.current_time()
        reply: UserReply | None = None
        with anyio.move_on_after(limit):
            reply = await self.user.reply(encodable(message), self.turns, self._seed)
        seconds = anyio.current_time() - started
        if reply is None:
            raise UserError(f"the user {self.user.name!r} gave no answer within {seconds:.0f} seconds")
        text = encodable(reply.text).strip()[:MAX_REPLY_CHARACTERS]
        if not text:
            raise UserError(f"the user {self.user.name!r} gave an empty answer")
        return UserTurn(message, text, self.user.name, reply.tokens, round(seconds, 3))

    def _repeat(self, message: str) -> UserTurn:
        recorded, number = self._recorded or (), len(self.turns) + 1
        if number > len(recorded):
            raise UserRecordError(
                f"the record has {len(recorded)} messages to the user, and the replay sent message {number}: "
                f"{message!r:.80}"
            )
        turn = recorded[number - 1]
        # The replay has diverged: an answer to another message would hide that.
        if turn.message != message:
            raise UserRecordError(
                f"message {number} to the user is {turn.message!r:.80} on record, and {message!r:.80} in the "
                "replay"
            )
        return turn


def conversation_of(environment: Any) -> UserConversation:
    """Return the conversation of an environment's episode, which begins with the first request for it.

    Raises:
        UserSettingsError: If the environment has no user.
    """
    existing: UserConversation | None = getattr(environment, _CONVERSATION, None)
    if existing is not None:
        return existing
    episode = own_episode(environment)
    conversation = UserConversation(
        _make_user(environment),
        seed=0 if episode is None else episode.seed,
        budget=getattr(environment, "user_budget", None),
        recorded=getattr(environment, _RECORDED, None),
    )
    # Past the author's own `__setattr__`, if the class has one.
    vars(environment)[_CONVERSATION] = conversation
    return conversation


def replay_turns(environment: Any, turns: Sequence[UserTurn]) -> None:
    """Have the user of an environment repeat recorded answers."""
    vars(environment)[_RECORDED] = tuple(turns)


def end_replay(environment: Any) -> None:
    """Have the user answer by itself from now on; what it repeated stays in the conversation."""
    if getattr(environment, _RECORDED, None) is None:
        return
    del vars(environment)[_RECORDED]
    conversation: UserConversation | None = getattr(environment, _CONVERSATION, None)
    if conversation is not None:
        conversation.end_replay()


def save_conversation(environment: Any) -> SavedConversation:
    """Return the conversation until now, to be copied with a session."""
    conversation: UserConversation | None = getattr(environment, _CONVERSATION, None)
    return SavedConversation() if conversation is None else conversation.save()


def load_conversation(environment: Any, saved: SavedConversation) -> None:
    """Bring a session's conversation to where a copied one was."""
    if saved != save_conversation(environment):
        conversation_of(environment).restore(saved)


def _make_user(environment: Any) -> SimulatedUser:
    try:
        user: SimulatedUser = environment.make_user()
    except NotImplementedError as error:
        raise UserSettingsError(
            f"{type(environment).__name__} has no user: define make_user(self), which returns one, such as "
            "choose_user(UserScript(...))"
        ) from error
    return user
