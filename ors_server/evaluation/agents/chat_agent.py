"""A language model behind an OpenAI-compatible endpoint, which plays by calling tools."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ors_server.clock import Clock
from ors_server.evaluation.agent_session import AgentSession
from ors_server.evaluation.agents.base import AgentError, AgentReport, AgentSettingsError
from ors_server.evaluation.agents.baselines import final_message
from ors_server.evaluation.agents.chat_endpoint import API_KEY, ChatEndpoint, ContextOverflowError
from ors_server.evaluation.agents.chat_messages import (
    ChatCall,
    ChatMessage,
    Reply,
    as_chat,
    as_results,
    as_tools,
    for_reading,
    read_reply,
)
from ors_server.evaluation.targets import Answer, Target
from ors_server.wire import JSONObject, TerminalToolSpec, TextBlock

NUDGE = "The task is not over. Go on by calling one of the tools."
PER = 1_000_000
"""Tokens that a price is for."""


class ChatOptions(BaseModel):
    """What a language model can be told; what is not set is not sent."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base_url: str | None = None
    """Where the endpoint is, without `/chat/completions`; `OPENAI_BASE_URL`, or OpenAI's own, by default."""
    api_key_env: str = API_KEY
    """Name of the environment variable that has the key."""
    system: str | None = None
    """A system prompt before the task."""
    temperature: float | None = Field(default=None, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1)
    """Most tokens of one reply, reasoning included; sent as `max_completion_tokens`."""
    reasoning_effort: str | None = None
    keep_reasoning: bool = False
    """Whether the model is shown its own reasoning again, where the endpoint tells it."""
    parallel_tool_calls: bool | None = None
    send_seed: bool = False
    """Whether the endpoint is given the attempt's seed, modulo 2**31."""
    images: bool = True
    """Whether the model sees pictures."""
    extra: dict[str, Any] = Field(default_factory=dict)
    """Further fields of every request."""
    nudges: int = Field(default=2, ge=0)
    """Times in a row that a reply without a usable tool call is answered by a reminder, before the attempt
    ends with what was paid."""
    tries: int = Field(default=6, ge=1)
    """Times that one request is sent at most."""
    time_limit: float = Field(default=600.0, gt=0)
    """Seconds that one try may take."""
    price_in: float | None = Field(default=None, ge=0)
    """Price of a million tokens that are read; without both prices no cost is told."""
    price_out: float | None = Field(default=None, ge=0)
    """Price of a million tokens that are written."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "ChatOptions":
        """Read options.

        Args:
            given: Values by name.

        Raises:
            AgentSettingsError: If a name is unknown or a value wrong.
        """
        try:
            return cls.model_validate(dict(given))
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors(include_url=False)
            )
            raise AgentSettingsError(f"the options of a language model are wrong: {problems}") from error

    def cost(self, reply: Reply) -> float | None:
        """Return what a reply cost, or `None` where nobody can know.

        Args:
            reply: The reply.
        """
        prices, tokens = (self.price_in, self.price_out), (reply.tokens_in, reply.tokens_out)
        if prices[0] is None or prices[1] is None or tokens[0] is None or tokens[1] is None:
            return None
        return (tokens[0] * prices[0] + tokens[1] * prices[1]) / PER

    def body(self, model: str, seed: int) -> ChatMessage:
        """Return what every request of an attempt says.

        Args:
            model: The model's name.
            seed: The attempt's.
        """
        wanted: dict[str, Any] = {
            "model": model,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "max_completion_tokens": self.max_tokens,
            "reasoning_effort": self.reasoning_effort,
            "parallel_tool_calls": self.parallel_tool_calls,
            "seed": seed % 2**31 if self.send_seed else None,
        }
        return {name: value for name, value in wanted.items() if value is not None} | self.extra


class ChatAgent:
    """A model that is asked again and again until the episode is over or it gives up."""

    plays_outside = False

    def __init__(self, model: str, options: ChatOptions | None = None, clock: Clock | None = None) -> None:
        """Name a model.

        Args:
            model: As the endpoint calls it.
            options: How it is asked.
            clock: What waits between two tries.

        Raises:
            AgentSettingsError: If no model is named.
        """
        if not model:
            raise AgentSettingsError("name the model: --agent openai:MODEL")
        self._model = model
        self._options = options or ChatOptions()
        self._endpoint = ChatEndpoint(
            self._options.base_url,
            api_key_env=self._options.api_key_env,
            tries=self._options.tries,
            time_limit=self._options.time_limit,
            clock=clock,
        )

    @property
    def tells_cost(self) -> bool:
        """Whether there are prices."""
        return self._options.price_in is not None and self._options.price_out is not None

    def describe(self) -> JSONObject:
        """Return model, endpoint and options."""
        options = self._options.model_dump(mode="json", exclude_defaults=True)
        endpoint = {"base_url": self._endpoint.base_url}
        return {"kind": "openai", "name": self._model, "options": {**options, **endpoint}}

    async def check(self, target: Target) -> None:
        """Refuse to begin without the package or a key.

        Args:
            target: Where the run is to be played.

        Raises:
            AgentSettingsError: If one of them is missing.
        """
        del target
        self._endpoint.open()

    async def play(self, session: AgentSession) -> AgentReport:
        """Play one attempt.

        A conversation that no longer fits into the context ends the attempt with what was paid, unless not
        even the task fits; so does a refusal, and a model that does not call tools after all reminders.


        Raises:
            AgentError: If the endpoint fails, or tells too little to keep a budget.
        """
        if session.counts_cost and not self.tells_cost:
            raise AgentSettingsError("a budget of cost needs the options price_in and price_out")
        game = _ChatAttempt(session, self._model, self._options, self._endpoint)
        return await game.play()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._endpoint.aclose()


class _ChatAttempt:
    """One attempt of a model."""

    def __init__(
        self, session: AgentSession, model: str, options: ChatOptions, endpoint: ChatEndpoint
    ) -> None:
        self._session = session
        self._options = options
        self._endpoint = endpoint
        self._body = options.body(model, session.seed)
        self._messages: list[ChatMessage] = []
        self._terminal: TerminalToolSpec | None = None
        self._idle = 0
        """Replies in a row without a usable call."""

    async def play(self) -> AgentReport:
        await self._open()
        while True:
            try:
                reply = await self._ask()
            except ContextOverflowError:
                if self._session.calls == 0:
                    raise
                return AgentReport("context_overflow")
            self._say(reply.message)
            stop = await (self._call(reply) if reply.calls else self._listen(reply))
            if self._session.is_over:
                return AgentReport("completed")
            if stop is not None:
                return AgentReport(stop)

    async def _open(self) -> None:
        listing = await self._session.tools()
        self._terminal = listing.terminal_tool
        tools = as_tools(listing)
        if tools:
            self._body["tools"] = tools
        else:
            self._body.pop("parallel_tool_calls", None)
        if self._options.system is not None:
            self._say({"role": "system", "content": self._options.system})
        for message in as_chat(await self._session.messages(), images=self._options.images):
            self._say(message)

    def _say(self, message: ChatMessage) -> None:
        self._messages.append(message)
        self._session.log.append(for_reading(message))

    async def _ask(self) -> Reply:
        body = await self._endpoint.complete({**self._body, "messages": self._messages})
        reply = read_reply(body, keeps_reasoning=self._options.keep_reasoning)
        if self._session.counts_tokens and (reply.tokens_in is None or reply.tokens_out is None):
            raise AgentError("the endpoint does not tell how many tokens it used, so no budget can be kept")
        self._session.spend(reply.tokens_in, reply.tokens_out, self._options.cost(reply))
        return reply

    async def _call(self, reply: Reply) -> str | None:
        """Make the calls of a reply in order, up to the one that ends the episode."""
        answers: list[tuple[str, Answer]] = []
        for call in reply.calls:
            answers.append((call.id, await self._answer(call)))
            if self._session.is_over:
                break
        for message in as_results(answers, images=self._options.images):
            self._say(message)
        if any(call.arguments is not None for call in reply.calls):
            self._idle = 0
            return None
        return self._wait("malformed_calls")

    async def _answer(self, call: ChatCall) -> Answer:
        if call.arguments is None:
            return Answer((TextBlock(text=f"{call.problem} Nothing was run."),), is_error=True)
        return await self._session.call(call.tool, call.arguments)

    async def _listen(self, reply: Reply) -> str | None:
        """Take a reply that calls no tool: its text may be what a terminal tool waits for."""
        if reply.is_refusal:
            return "refused"
        if self._terminal is not None and reply.finish_reason != "length":
            answer = await self._session.call(self._terminal.name, final_message(self._terminal, reply.text))
            nudge = answer.text or NUDGE
        else:
            nudge = NUDGE
        stop = self._wait("length" if reply.finish_reason == "length" else "no_tool_call")
        if stop is None and not self._session.is_over:
            self._say({"role": "user", "content": nudge})
        return stop

    def _wait(self, reason: str) -> str | None:
        self._idle += 1
        return reason if self._idle > self._options.nudges else None
