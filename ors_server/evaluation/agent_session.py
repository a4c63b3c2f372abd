"""An agent's view of one attempt: its prompt, tools and calls, which are counted.

Invariants:

- A call is counted before it is made, and its reward added after its answer. A call whose answer was lost
  leaves `_unanswered` above 0, so that `own_sum` is `None` instead of a wrong sum.
- `is_unjudged` never goes back to false: an attempt with one ungraded call has no return.
- After the end of the episode no call reaches the server.
"""

import inspect
import math
from collections.abc import Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

import anyio.from_thread

from ors_server.client.async_episode import AsyncEpisode
from ors_server.client.call_result import OVER, CallResult, refused
from ors_server.client.session_summary import Summary
from ors_server.evaluation.budgets import Meter
from ors_server.evaluation.runs import AttemptKey
from ors_server.evaluation.targets import Actions, Target, TargetError
from ors_server.model.errors import NotSupportedError
from ors_server.model.model_turn import ModelTurn
from ors_server.model.wire import JSONObject, Message, TextBlock, ToolListing


class AgentSession:
    """One attempt as its agent sees it: its key, its `seed`, and its prompt, tools and calls.

    `log` takes lines for the readers of the run.
    """

    def __init__(
        self, target: Target, key: AttemptKey, seed: int, episode: AsyncEpisode, meter: Meter
    ) -> None:
        self.split = key.split
        self.index = key.index
        self.attempt = key.attempt
        self.seed = seed
        self.environment = target.environment
        self.target_name = target.name
        self.log: list[str] = []
        self.episode_id = episode.place.episode_id
        self.session_id = episode.session_id
        self.task_hash = episode.place.task_hash
        self._target = target
        self._episode = episode
        self._meter = meter
        self._rewards: list[float] = []
        self._unanswered = 0
        self._is_over = False
        self._is_unjudged = False
        self._hides_rewards = False
        self._messages: Sequence[Message] | None = None
        self._has_given_url = False

    @property
    def rng(self) -> Random:
        """A new random generator at each use, seeded with the attempt's seed."""
        return Random(self.seed)  # noqa: S311  (randomness of a game, no secrets)

    @property
    def is_over(self) -> bool:
        """Whether a received result ended the episode."""
        return self._is_over

    @property
    def own_sum(self) -> float | None:
        """The sum of the received rewards; `None` if there may be others."""
        may_lack = self._has_given_url or self._unanswered or self._hides_rewards
        return None if may_lack else math.fsum(self._rewards)

    @property
    def last_reward(self) -> float | None:
        """The last received reward."""
        return self._rewards[-1] if self._rewards else None

    @property
    def calls(self) -> int:
        """The number of calls made through this session."""
        return self._meter.calls

    @property
    def is_unjudged(self) -> bool:
        """Whether a call could not be graded, or ended the episode without a reward."""
        return self._is_unjudged and not self._hides_rewards

    async def messages(self) -> Sequence[Message]:
        """Return the task as a conversation; it is requested once."""
        if self._messages is None:
            self._messages = await self._episode.messages()
        return self._messages

    async def prompt(self) -> str:
        """Return the task's text, without images."""
        blocks = [block for message in await self.messages() for block in message.blocks]
        return "\n\n".join(block.text for block in blocks if isinstance(block, TextBlock))

    async def tools(self) -> ToolListing:
        """Return everything that may be called."""
        return await self._episode.tools()

    async def call(
        self,
        tool: str,
        arguments: JSONObject | None = None,
        *,
        model_turn: ModelTurn | Mapping[str, Any] | None = None,
    ) -> CallResult:
        """Call a tool; after the episode's end nothing is called, and the result is a refusal.

        `model_turn` is what the model wrote before the call, which the record keeps with the step.

        Raises:
            BudgetSpentError: If the attempt has no call left.
            OrsServerError: If the call failed through no fault of the agent's.
        """
        # Refused before it is counted: no call after the end reaches the server.
        if self._is_over:
            return refused("", tool, "the episode is over; no further call is made", OVER)
        self._meter.begin_call()
        self._unanswered += 1
        result = await self._episode.call(
            tool, arguments or {}, call_id=f"call-{self._meter.calls}", model_turn=model_turn
        )
        self._unanswered -= 1
        # Over MCP a server may hide rewards and step numbers; sums of received rewards would then be wrong.
        if self._target.uses_mcp and result.step is None and result.refusal != OVER:
            self._hides_rewards = True
        if result.reward is not None:
            self._rewards.append(result.reward)
        if result.finished:
            self._is_over = True
        if result.is_unjudged or (result.finished and result.reward is None and not result.is_error):
            self._is_unjudged = True  # for good: calls that run at the same time end later, as refusals
        return result

    def spend(
        self, tokens_in: int | None = None, tokens_out: int | None = None, cost: float | None = None
    ) -> None:
        """Add what a model read, wrote and cost; raises `BudgetSpentError` beyond the budget."""
        self._meter.spend(tokens_in, tokens_out, cost)

    def count_retry(self, seconds: float) -> None:
        """Count that a request to a model is sent again, after a pause of so many seconds."""
        self._meter.count_retry(seconds)

    @property
    def counts_tokens(self) -> bool:
        """Whether there is a budget of tokens or cost, so that the agent must report them."""
        return self._meter.counts_tokens

    @property
    def counts_cost(self) -> bool:
        """Whether there is a budget of cost."""
        return self._meter.budget.cost is not None

    async def agent_url(self) -> str:
        """Return an MCP endpoint for a program that plays this episode; its calls are not counted here.

        Raises:
            TargetError: If the target gives no URL.
        """
        if not self._target.gives_urls:
            raise TargetError(
                "this environment is not served, so no program can play it; use `ors-server eval`"
            )
        url = self._episode.access.get("agent_url")
        if url is None:
            raise TargetError("this server gives no URL to agents, so no program can play on it")
        self._has_given_url = True
        return url

    async def summary(self) -> Summary | None:
        """Return the server's figures so far, or the final ones; `None` from a server that keeps none."""
        try:
            summary = await self._episode.summary()
        except NotSupportedError:
            return None
        self.episode_id = summary.episode_id
        self.task_hash = summary.task_hash or self.task_hash
        return summary

    async def has_ended(self) -> bool:
        """Ask the server whether the episode is over."""
        summary = await self.summary()
        return summary is not None and summary.stop_reason is not None

    async def known_actions(self, name: str) -> Actions | None:
        """Return the actions that `gold_actions` or `blank_actions` of the environment has for this task."""
        return await self._target.known_actions(name, self.split, self.index)


class BlockingAgentSession:
    """An `AgentSession` for code that is not async: the same attributes and methods, which wait.

    `rng` is one generator for the whole attempt.
    """

    def __init__(self, session: AgentSession) -> None:
        self._session = session
        self.rng = session.rng

    def __getattr__(self, name: str) -> Any:
        # Called in the agent's worker thread: async methods run on the event loop of the run.
        attribute = getattr(self._session, name)
        if not inspect.iscoroutinefunction(attribute):
            return attribute

        def wait(*values: Any, **named: Any) -> Any:
            return anyio.from_thread.run(partial(attribute, *values, **named))

        return wait
