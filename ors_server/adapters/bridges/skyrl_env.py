"""An environment of a server as skyrl-gym's `BaseTextEnv`: text in, text and rewards out.

It is imported where skyrl-gym is installed. The sum of the rewards of the steps is the server's return.
"""

# pyright: basic, reportMissingImports=false
# The package is in another virtual environment.

from contextlib import ExitStack
from typing import Any

from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

from ors_server.adapters.bridges import ServedEnvironment
from ors_server.adapters.bridges.clients import shared_client
from ors_server.adapters.bridges.text_calls import RESULT, TextCallError, describe_tools, read_moves
from ors_server.client.blocking import Episode
from ors_server.client.call_result import text_of
from ors_server.model.errors import InvalidRequestError
from ors_server.model.wire import ToolListing

MAX_TURNS = 20
"""Texts of the model in one episode, unless the extras set another number."""


class SkyRlEpisode(BaseTextEnv):  # type: ignore[misc]  # a class of a package that is not here
    """One episode on a server, from `init` to `close`."""

    def __init__(
        self, env_config: Any = None, extras: dict[str, Any] | None = None, *, served: ServedEnvironment
    ) -> None:
        """Open nothing yet; `extras` has the task's `index`, `split`, `seed`, and `max_turns`."""
        super().__init__()
        del env_config
        self._served = served
        self._extras = extras or {}
        self.max_turns = int(self._extras.get("max_turns", MAX_TURNS))
        self._open = ExitStack()
        self._episode: Episode | None = None
        self._listing = ToolListing(tools=[])

    @property
    def episode(self) -> Episode:
        """The open episode; `InvalidRequestError` before `init`."""
        if self._episode is None:
            raise InvalidRequestError("the episode is not open: call init() first")
        return self._episode

    def init(self, prompt: list[dict[str, str]]) -> tuple[list[dict[str, str]], dict[str, Any]]:
        """Open an episode; its prompt replaces the given one, and a system message announces the tools."""
        del prompt
        self.close()
        self.turns = 0
        request = self._served.request(int(self._extras.get("index", 0)), self._extras.get("seed"))
        request["split"] = self._extras.get("split", self._served.split)
        client = shared_client(self._served)
        self._episode = self._open.enter_context(client.episode(self._served.environment, **request))
        self._listing = self._episode.tools()
        said = [
            {"role": message.role, "content": text_of(message.blocks)} for message in self._episode.messages()
        ]
        tools = {"role": "system", "content": describe_tools(self._listing.tools)}
        return [tools, *said], {"session_id": self._episode.session_id}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Make the calls of a text; the reward is their sum.

        Raises:
            UnjudgedError: If a judgement failed, or the episode ended without a reward: skyrl-gym has no
                reward that says so.
        """
        self.turns += 1
        # The ledger's total before and after: it holds penalties and rewards of calls that were answered
        # late.
        before = self.episode.ledger.total
        texts = self._play(action)
        done = self.episode.finished or self.turns >= self.max_turns
        # Beyond `max_turns` the episode may still be open: its figures are compared all the same.
        if done:
            self.episode.check().check_valid()
        return BaseTextEnvStepOutput(
            observations=[] if done else [{"role": "user", "content": "\n".join(texts)}],
            reward=self.episode.ledger.total - before,
            done=done,
            metadata={"session_id": self.episode.session_id, "texts": texts},
        )

    def get_metrics(self) -> dict[str, Any]:
        """Return the return of the server's record, and the number of steps; raises as `step` does."""
        summary = self.episode.summary()
        summary.check_valid()
        return {"ors_return": summary.episode_return, "ors_steps": summary.steps}

    def close(self) -> None:
        """Delete the session; its figures stay readable."""
        self._open.close()

    def _play(self, action: str) -> list[str]:
        """Make the calls up to the episode's end and return what the model is to read."""
        try:
            moves = read_moves(action, self._listing)
        except TextCallError as error:
            return [str(error)]
        texts: list[str] = []
        for move in moves:
            if self.episode.finished:
                break
            result = self.episode.call(move.tool, move.arguments)
            if result.is_unjudged:
                self.episode.summary().check_judged()
            texts.append(RESULT.format(text=result.text))
        return texts


def make_class(served: ServedEnvironment) -> type[SkyRlEpisode]:
    """Return the class of environments that play one served environment."""
    return type("OrsSkyRlEnv", (SkyRlEpisode,), {"__init__": _bound(served)})


def _bound(served: ServedEnvironment) -> Any:
    def init(self: SkyRlEpisode, env_config: Any = None, extras: dict[str, Any] | None = None) -> None:
        SkyRlEpisode.__init__(self, env_config, extras, served=served)

    return init
