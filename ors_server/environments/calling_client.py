"""Questions of a tool to the program that called it: to its user, to its model, or for its roots.

A tool sees the same interface behind every door. If the caller cannot answer, the tool gets an error that it
may catch. This module knows no protocol.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol, TypeAlias

from ors_server.model.errors import ClientError
from ors_server.model.wire import JSONObject

LogLevel: TypeAlias = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
"""Severities of RFC 5424, mildest first."""


class Ability(StrEnum):
    """Something that a calling program may be able to do for a tool."""

    ELICITATION = "elicitation"
    """Put a form before a person."""
    SAMPLING = "sampling"
    """Let its own model answer."""
    ROOTS = "roots"
    """List the folders that it works on."""


class AskError(ClientError):
    """The calling program did not answer a tool's question."""

    code = "client_silent"


class AbilityError(AskError):
    """The calling program lacks the abilities `missing`, which a question needs."""

    code = "client_ability"

    def __init__(self, missing: frozenset[Ability]) -> None:
        names = ", ".join(sorted(missing))
        super().__init__(
            f"the calling program does not offer {names}; catch this error to continue without it"
        )
        self.missing = missing


@dataclass(frozen=True, slots=True)
class Elicit:
    """A form for the person behind the calling program."""

    message: str
    """What the person reads."""
    schema: JSONObject
    """JSON Schema of an object whose properties are strings, numbers, booleans or choices."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A question to the calling program's own model."""

    prompt: str
    """What the model reads as the message of a user."""
    max_tokens: int = 100
    """Tokens that the reply may have, at least 1."""
    system_prompt: str | None = None
    """Instructions for the model."""


@dataclass(frozen=True, slots=True)
class ListRoots:
    """A question for the folders that the calling program works on."""


@dataclass(frozen=True, slots=True)
class Elicited:
    """A person's answer to a form."""

    action: Literal["accept", "decline", "cancel"]
    """What the person did: accept, decline, or dismiss the form."""
    content: JSONObject = field(default_factory=dict[str, Any])
    """The form's values; empty unless accepted."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """The answer of the calling program's model."""

    text: str
    """The model's reply."""
    model: str
    """The model's name, as the client states it."""
    stop_reason: str | None = None
    """Why the reply ended, as the client states it."""


@dataclass(frozen=True, slots=True)
class Root:
    """One folder or file that the calling program works on."""

    uri: str
    """Where it is, such as `file:///home/me/project`."""
    name: str | None = None
    """A name for people."""


@dataclass(frozen=True, slots=True)
class RootList:
    """The calling program's folders, in its order."""

    roots: tuple[Root, ...]
    """The client's folders and files, in its order."""


Question: TypeAlias = Elicit | Sample | ListRoots
Answer: TypeAlias = Elicited | Sampled | RootList

NEEDS: Mapping[type[Question], Ability] = {
    Elicit: Ability.ELICITATION,
    Sample: Ability.SAMPLING,
    ListRoots: Ability.ROOTS,
}
"""Which ability each kind of question needs."""


class CallingClient(Protocol):
    """The program that made a call, as a tool sees it."""

    def can(self, ability: Ability) -> bool:
        """Return whether the program offers an ability."""
        ...

    async def log(self, level: LogLevel, data: object, logger: str | None) -> None:
        """Send the program a log line; nothing happens if it accepts none."""
        ...

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answer]:
        """Send questions to the program and return all the answers, by the same keys.

        A key is unique within the call, and the same whenever the call is repeated.

        Raises:
            AbilityError: If the program does not offer what a question needs.
            AskError: If the program refuses, leaves, or does not answer in time.
        """
        ...


class NoClient:
    """A caller that answers no questions, such as an ORS client."""

    def can(self, ability: Ability) -> bool:
        """Return False."""
        del ability
        return False

    async def log(self, level: LogLevel, data: object, logger: str | None) -> None:
        """Do nothing."""

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answer]:
        """Raise an `AbilityError`."""
        raise AbilityError(frozenset(NEEDS[type(question)] for question in questions.values()))
