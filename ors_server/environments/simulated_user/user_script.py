"""A user's goal, knowledge and refusals: data that no message of an agent can change."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from ors_server.environments.simulated_user.user_errors import UserSettingsError

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """Something that a user says when a message has one of some phrases."""

    asked: tuple[str, ...]
    """Phrases, of which a message has to have one: the same words in the same order. Letter case, signs
    between words, and invisible characters do not count."""
    says: str
    """What the user answers."""

    def is_asked_in(self, words: str) -> bool:
        """Return whether a message, as `words_of` returns it, has one of the phrases."""
        return any(words_of(phrase) in words for phrase in self.asked)


@dataclass(frozen=True, slots=True)
class UserScript:
    """A user's part. The user says only what is written here, for any message.

    Raises:
        UserSettingsError: If a text or a phrase has no words.
    """

    goal: str
    """What the user wants, in one or more sentences; a model reads it, and a scripted user never says it."""
    facts: tuple[ScriptedReply, ...] = ()
    """Facts that the user states on request; several at once, in this order."""
    refusals: tuple[ScriptedReply, ...] = ()
    """What the user never does or accepts: a message that speaks of it gets the refusal, and nothing else."""
    answers: tuple[str, ...] = ()
    """What the user says to other messages: the first answer to the first of them, and so on."""
    otherwise: str = "I don't know."
    """What the user says to all further messages."""

    def __post_init__(self) -> None:
        """Check that every text has words."""
        for name, text in self._texts():
            if not words_of(text).strip():
                raise UserSettingsError(f"a user's script: {name} must have words, got {text!r:.80}")

    def _texts(self) -> Iterator[tuple[str, str]]:
        yield from (("goal", self.goal), ("otherwise", self.otherwise))
        yield from (("an answer", answer) for answer in self.answers)
        for name, replies in (("fact", self.facts), ("refusal", self.refusals)):
            for reply in replies:
                yield f"what a {name} says", reply.says
                yield from ((f"a phrase of a {name}", phrase) for phrase in reply.asked or ("",))

    def refusal(self, message: str) -> str | None:
        """Return the refusal of what a message speaks of; `None` if it speaks of nothing forbidden."""
        words = words_of(message)
        return next((reply.says for reply in self.refusals if reply.is_asked_in(words)), None)

    def told(self, message: str) -> str | None:
        """Return the facts that a message asks for, each once; `None` if it asks for none."""
        words = words_of(message)
        facts = [reply.says for reply in self.facts if reply.is_asked_in(words)]
        return " ".join(dict.fromkeys(facts)) or None


def words_of(text: str) -> str:
    """Return the words of a text in small letters, with one space before and after each."""
    from ors_server.rewards.judges.hardening import clean  # noqa: PLC0415  (loading environments loads no judge)

    plain = unicodedata.normalize("NFKC", clean(text)).casefold()
    return f" {' '.join(_WORD.findall(plain))} "
