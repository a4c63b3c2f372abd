"""An environment whose agent talks to a user, and a server that plays models."""

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from ors_server import (
    EpisodePolicy,
    ScriptedReply,
    ScriptedUser,
    SimulatedUser,
    ToolOutput,
    UserBudget,
    UserError,
    UserMessageError,
    UserReply,
    UserScript,
    tool,
)
from tests.fixtures.chat_server import ChatServer
from tests.fixtures.single_task import SingleTask

SCRIPT = UserScript(
    goal="You want a room with a view.",
    facts=(
        ScriptedReply(("your name", "who are you"), "I am Ada."),
        ScriptedReply(("how many nights", "nights"), "Two nights."),
    ),
    refusals=(ScriptedReply(("cellar", "basement"), "No, not in the cellar."),),
    answers=("I want a room with a view.", "The price does not matter."),
    otherwise="I have told you everything.",
)


class Broken:
    """A user whose model fails with each message of some numbers, from 1."""

    name = "broken"

    def __init__(self, failing: set[int]) -> None:
        self.failing = failing
        self.asked = 0

    async def reply(self, message: str, before: Any, seed: int) -> UserReply:
        self.asked += 1
        if self.asked in self.failing:
            raise UserError("the endpoint is away")
        return UserReply(f"{len(before)}: {message}", tokens=10)


class Hotel(SingleTask):
    """A guest who answers, through the toolset and through a tool of the class."""

    name = "hotel"
    toolsets = ("user",)
    policy = EpisodePolicy(tool_error_penalty=0.25)
    user_budget = UserBudget(turns=4, characters=100)
    guest: ClassVar[SimulatedUser] = ScriptedUser(SCRIPT)

    def make_user(self) -> SimulatedUser:
        return self.guest

    def save_state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        pass

    @tool
    async def offer(self, room: str) -> ToolOutput:
        """Offers a room in the hotel's own words."""
        reply = await self.user.send(f"Would the {room} suit you?")
        return ToolOutput.final("Done.", reward=float("No" not in reply))

    @tool
    async def ask_twice(self) -> str:
        """Asks two questions, then has a bug."""
        await self.user.send("your name")
        await self.user.send("how many nights")
        raise KeyError("bug")

    @tool
    async def ask_kindly(self, text: str) -> str:
        """Lets no refusal of a message pass."""
        try:
            return await self.user.send(text)
        except UserMessageError:
            return "not sent"


@pytest.fixture
def hotel() -> type[Hotel]:
    return Hotel


def with_guest(user: Any, **more: Any) -> type[Hotel]:
    """The hotel with another guest."""
    return type("OtherHotel", (Hotel,), {"guest": user, **more})


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer().serving() as serving:
        yield serving
