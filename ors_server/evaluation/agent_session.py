"""An agent's view of one episode: its prompt, tools and calls, which are counted."""

import math
from collections.abc import Sequence
from random import Random

from ors_server.evaluation.budgets import Meter
from ors_server.evaluation.targets import Actions, Answer, Target, TargetEpisode, TaskOrder
from ors_server.wire import JSONObject, Message, TextBlock, ToolListing

OVER = "the episode is over; no further call is made"


class AgentSession:
    """One attempt as its agent sees it.

    Attributes:
        split: The task's split.
        index: The task's place in it.
        environment: Name of the environment.
        target_name: What whoever started the run calls the target.
        attempt: The attempt's number, from 1.
        seed: The attempt's seed: whoever draws chances from it draws the same ones again.
        log: What the agent wants to leave for whoever reads the run later, in lines.
    """

    def __init__(self, target: Target, order: TaskOrder, episode: TargetEpisode, meter: Meter) -> None:
        """Begin the attempt.

        Args:
            target: Where the episode is played.
            order: What it was made for.
            episode: The episode.
            meter: Counts what is used up.
        """
        self.split = order.split
        self.index = order.index
        self.environment = target.environment
        self.target_name = target.name
        self.attempt = order.attempt
        self.seed = order.seed
        self.log: list[str] = []
        self._target = target
        self._episode = episode
        self._meter = meter
        self._rewards: list[float] = []
        self._unanswered = 0
        self._is_over = False
        self._is_unjudged = False
        self._messages: Sequence[Message] | None = None
        self._has_given_url = False

    @property
    def rng(self) -> Random:
        """A source of chance that begins with the seed; another one at each use."""
        return Random(self.seed)  # noqa: S311  (chances of a game, no secrets)

    @property
    def is_over(self) -> bool:
        """Whether the environment has ended the episode, as far as the calls made here tell."""
        return self._is_over

    @property
    def own_sum(self) -> float | None:
        """The sum of the rewards that came here; `None` if there may be others."""
        may_lack = self._has_given_url or self._unanswered or self._episode.hides_rewards
        return None if may_lack else math.fsum(self._rewards)

    @property
    def last_reward(self) -> float | None:
        """The last reward that came here."""
        return self._rewards[-1] if self._rewards else None

    @property
    def calls(self) -> int:
        """Calls that were made here."""
        return self._meter.calls

    @property
    def is_unjudged(self) -> bool:
        """Whether the call that ended the episode said that it could not be graded."""
        return self._is_unjudged and not self._episode.hides_rewards

    async def messages(self) -> Sequence[Message]:
        """Return the task as a conversation; it is asked for once."""
        if self._messages is None:
            self._messages = await self._episode.messages()
        return self._messages

    async def prompt(self) -> str:
        """Return the task's text; pictures are left out."""
        blocks = [block for message in await self.messages() for block in message.blocks]
        return "\n\n".join(block.text for block in blocks if isinstance(block, TextBlock))

    async def tools(self) -> ToolListing:
        """Return everything that may be called."""
        return await self._episode.tools()

    async def call(self, tool: str, arguments: JSONObject | None = None) -> Answer:
        """Call a tool; after the episode's end nothing is called, and the answer says so.

        Args:
            tool: Its name.
            arguments: Its arguments.

        Raises:
            BudgetSpentError: If the attempt has no call left.
            OrsServerError: If the call failed through no fault of the agent's.
        """
        if self._is_over:
            return Answer((TextBlock(text=OVER),), finished=True, is_error=True)
        self._meter.begin_call()
        self._unanswered += 1
        answer = await self._episode.call(tool, arguments or {}, f"call-{self._meter.calls}")
        self._unanswered -= 1
        if answer.reward is not None:
            self._rewards.append(answer.reward)
        self._is_over = answer.finished
        self._is_unjudged = answer.finished and answer.reward is None and not answer.is_error
        return answer

    def spend(
        self, tokens_in: int | None = None, tokens_out: int | None = None, cost: float | None = None
    ) -> None:
        """Count what a model used.

        Args:
            tokens_in: Tokens that it read.
            tokens_out: Tokens that it wrote.
            cost: What they cost.

        Raises:
            BudgetSpentError: If the attempt has used up more than it was given.
        """
        self._meter.spend(tokens_in, tokens_out, cost)

    @property
    def counts_tokens(self) -> bool:
        """Whether a budget of tokens or cost has to be kept."""
        return self._meter.counts_tokens

    @property
    def counts_cost(self) -> bool:
        """Whether a budget of cost has to be kept."""
        return self._meter.budget.cost is not None

    async def agent_url(self) -> str:
        """Return an MCP endpoint for a program that plays; its calls are not counted here.

        Raises:
            TargetError: If the target has none.
        """
        url = await self._episode.agent_url()
        self._has_given_url = True
        return url

    async def has_ended(self) -> bool:
        """Ask the target whether the episode is over."""
        figures = await self._episode.figures()
        return figures.stop_reason is not None

    async def known_actions(self, name: str) -> Actions | None:
        """Return calls that the environment's author knows for this task; `None` if nobody knows any.

        Args:
            name: `gold_actions` or `blank_actions`.
        """
        return await self._target.known_actions(name, self.split, self.index)
