"""Serves environments with OpenEnv's own server: `serve_openenv.py PORT NAME`."""

import random
import sys

import uvicorn
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_types import (
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    Tool,
)
from openenv.core.env_server.types import Action, Observation, State
from pydantic import Field

MAX_GUESSES = 4


class Guess(Action):
    """Guess the number."""

    number: int = Field(ge=0, le=9, description="Your guess, from 0 to 9.")


class Hint(Observation):
    text: str


class GuessNumber(Environment):
    """A number from 0 to 9; a hint after each guess."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed=None, episode_id=None, **_):
        self.number = random.Random(seed).randint(0, 9)  # noqa: S311  (a game)
        self.guesses = 0
        return Hint(text="Guess a number from 0 to 9.")

    def step(self, action, timeout_s=None, **_):
        self.guesses += 1
        if action.number == 9 and self.number != 9:
            raise RuntimeError("the nine is broken")
        if action.number == self.number:
            return Hint(text="Right.", reward=1.0, done=True)
        text = "Higher." if action.number < self.number else "Lower."
        return Hint(text=text, reward=0.0, done=self.guesses == MAX_GUESSES)

    @property
    def state(self):
        return State(step_count=self.guesses)


class Counter(Environment):
    """Two tools, as an environment of OpenEnv's MCP kind has them."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed=None, episode_id=None, start=0, **_):
        self.count = start
        return Hint(text=f"The counter is {self.count}. Bring it to 3.")

    def step(self, action, timeout_s=None, **_):
        if isinstance(action, ListToolsAction):
            amount = {"by": {"type": "integer"}}
            schema = {"type": "object", "properties": amount, "required": ["by"]}
            return ListToolsObservation(
                tools=[
                    Tool(name="add", description="Adds to the counter.", input_schema=schema),
                    Tool(name="look", description="Shows the counter.", input_schema={"type": "object"}),
                ]
            )
        self.count += action.arguments.get("by", 0)
        content = [{"type": "text", "text": str(self.count)}]
        done = self.count >= 3
        reward = (1.0 if self.count == 3 else 0.0) if done else None
        return CallToolObservation(
            tool_name=action.tool_name, result={"content": content}, reward=reward, done=done
        )

    @property
    def state(self):
        return State(step_count=0)


class Word(Action):
    word: str
    loud: bool = False


class Said(Observation):
    heard: str
    times: int


class Echo(Environment):
    """Says a word back; three words are an episode."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed=None, episode_id=None, **_):
        self.times = 0
        return Said(heard="", times=0)

    def step(self, action, timeout_s=None, **_):
        self.times += 1
        word = action.word.upper() if action.loud else action.word
        return Said(heard=word, times=self.times, reward=len(word) / 100, done=self.times == 3)

    @property
    def state(self):
        return State(step_count=self.times)


KINDS = {
    "guess": (GuessNumber, Guess, Hint),
    "counter": (Counter, CallToolAction, Observation),
    "echo": (Echo, Word, Said),
}


def main():
    port, name = int(sys.argv[1]), sys.argv[2]
    app = create_fastapi_app(*KINDS[name], max_concurrent_envs=8)
    uvicorn.run(app, port=port, log_level="warning")


if __name__ == "__main__":
    main()
