"""A language model behind an OpenAI-compatible endpoint, which plays by calling tools."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ors_server.client.call_result import CallResult, refused
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
    for_reading,
    read_reply,
)
from ors_server.evaluation.targets import Target
from ors_server.export.offered_tools import as_functions
from ors_server.model.clock import Clock
from ors_server.model.errors import InvalidRequestError
from ors_server.model.json_bounds import MAX_VALUES, count_values
from ors_server.model.model_turn import MAX_MESSAGES, ModelTurn, check_model_turn
from ors_server.model.wire import JSONObject, TerminalToolSpec

NUDGE = "The task is not over. Continue by calling one of the tools."
TOKEN_LISTS = frozenset({"prompt_token_ids", "completion_token_ids", "logprobs"})
MAX_TURN_VALUES = MAX_VALUES // 2
"""Maximum number of values that are attached to a call: half of a request's; its arguments need the other."""
TOKENS_PER_PRICE = 1_000_000
"""Tokens that a price is for."""


class ChatOptions(BaseModel):
    """Options of a language model; options that are not set are not sent."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base_url: str | None = None
    """URL without `/chat/completions`; `OPENAI_BASE_URL`, or OpenAI's own, by default."""
    api_key_env: str = API_KEY
    """Environment variable that has the key."""
    system: str | None = None
    """A system prompt before the task."""
    temperature: float | None = Field(default=None, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1)
    """Maximum number of tokens of one reply, reasoning included; sent as `max_completion_tokens`."""
    reasoning_effort: str | None = None
    keep_reasoning: bool = False
    """Whether requests repeat the model's reasoning, if the endpoint sends it."""
    parallel_tool_calls: bool | None = None
    send_seed: bool = False
    """Whether requests have the attempt's seed, modulo 2**31."""
    images: bool = True
    """Whether the model sees images."""
    extra: dict[str, Any] = Field(default_factory=dict)
    """Further fields of every request."""
    nudges: int = Field(default=2, ge=0)
    """Reminders in a row after replies without a usable tool call, before the attempt ends."""
    tries: int = Field(default=6, ge=1)
    """Maximum number of times that one request is sent."""
    time_limit: float = Field(default=600.0, gt=0)
    """Seconds for one try."""
    price_in: float | None = Field(default=None, ge=0)
    """Price of a million tokens that are read; without both prices no cost is reported."""
    price_out: float | None = Field(default=None, ge=0)
    """Price of a million tokens that are written."""

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "ChatOptions":
        """Read options by name; raises `AgentSettingsError` if one is unknown or wrong."""
        try:
            return cls.model_validate(dict(options))
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
                for problem in error.errors(include_url=False)
            )
            raise AgentSettingsError(f"the options of a language model are wrong: {problems}") from error

    def cost(self, reply: Reply) -> float | None:
        """Return the cost of a reply; `None` without prices or token counts."""
        prices, tokens = (self.price_in, self.price_out), (reply.tokens_in, reply.tokens_out)
        if prices[0] is None or prices[1] is None or tokens[0] is None or tokens[1] is None:
            return None
        return (tokens[0] * prices[0] + tokens[1] * prices[1]) / TOKENS_PER_PRICE

    def body(self, model: str, seed: int) -> ChatMessage:
        """Return the fields that all requests of an attempt have."""
        fields: dict[str, Any] = {
            "model": model,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "max_completion_tokens": self.max_tokens,
            "reasoning_effort": self.reasoning_effort,
            "parallel_tool_calls": self.parallel_tool_calls,
            "seed": seed % 2**31 if self.send_seed else None,
        }
        return {name: value for name, value in fields.items() if value is not None} | self.extra


class ChatAgent:
    """A model that receives requests until the episode is over or it stops calling tools."""

    plays_outside = False

    def __init__(self, model: str, options: ChatOptions | None = None, clock: Clock | None = None) -> None:
        """Name the model; raises `AgentSettingsError` for an empty name."""
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
        """Raise `AgentSettingsError` if the package or a key is missing."""
        del target
        self._endpoint.open()

    async def play(self, session: AgentSession) -> AgentReport:
        """Play one attempt.

        It ends with what was paid when the conversation no longer fits into the context, unless not even the
        task fits; at a refusal; and when the model does not call tools after all reminders.

        Raises:
            AgentError: If the endpoint fails, or does not report what a budget needs.
        # Without prices the cost would stay 0, and the budget would never end the attempt.
        """
        if session.counts_cost and not self.tells_cost:
            raise AgentSettingsError("a budget of cost needs the options price_in and price_out")
        return await _ChatAttempt(session, self._model, self._options, self._endpoint).play()

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
        self._unattached: list[ChatMessage] = []
        """What was written and read since the last call that has its messages, for the record."""
        self._terminal: TerminalToolSpec | None = None
        self._idle = 0
        """Replies in a row without a usable call."""

    async def play(self) -> AgentReport:
        await self._open()
        while True:
            try:
                reply = await self._ask()
            except ContextOverflowError:
                # If not even the task fits, nothing was played, and the attempt has no return.
                if self._session.calls == 0:
                    raise
                return AgentReport("context_overflow")
            self._add(reply.message)
            self._unattached.append(reply.recorded)
            stop = await (self._call(reply) if reply.calls else self._listen(reply))
            if self._session.is_over:
                return AgentReport("completed")
            if stop is not None:
                return AgentReport(stop)

    async def _open(self) -> None:
        listing = await self._session.tools()
        self._terminal = listing.terminal_tool
        tools = as_functions(listing.tools)
        if tools:
            self._body["tools"] = tools
        else:
            # Endpoints refuse the field in a request without tools.
            self._body.pop("parallel_tool_calls", None)
        if self._options.system is not None:
            system: ChatMessage = {"role": "system", "content": self._options.system}
            self._add(system)
            self._unattached.append(system)
        for message in as_chat(await self._session.messages(), images=self._options.images):
            self._add(message)

    def _add(self, message: ChatMessage) -> None:
        self._messages.append(message)
        self._session.log.append(for_reading(message))

    async def _ask(self) -> Reply:
        request = {**self._body, "messages": self._messages}
        body = await self._endpoint.complete(request, self._session.count_retry)
        reply = read_reply(body, keeps_reasoning=self._options.keep_reasoning)
        if self._session.counts_tokens and (reply.tokens_in is None or reply.tokens_out is None):
            raise AgentError("the endpoint does not tell how many tokens it used, so no budget can be kept")
        self._session.spend(reply.tokens_in, reply.tokens_out, self._options.cost(reply))
        return reply

    async def _call(self, reply: Reply) -> str | None:
        results: list[CallResult] = []
        for call in reply.calls:
            results.append(await self._result(call))
            # The model asked for more calls than the episode needed; the rest would be refused.
            if self._session.is_over:
                break
        is_attached = not self._unattached
        for message in as_results(results, images=self._options.images):
            self._add(message)
            if not is_attached:  # no call of the reply could be made, so that no step has this answer
                self._unattached.append(message)
        # Reminders are for a row of unusable replies; one usable call starts the count again.
        if any(call.arguments is not None for call in reply.calls):
            self._idle = 0
            return None
        return self._remind("malformed_calls")

    async def _result(self, call: ChatCall) -> CallResult:
        if call.arguments is None:
            return refused(call.id, call.tool, f"{call.problem} Nothing was run.", "input_validation")
        turn = self._take_turn(call.id)
        return replace(await self._session.call(call.tool, call.arguments, model_turn=turn), call_id=call.id)

    async def _listen(self, reply: Reply) -> str | None:
        """Handle a reply without a tool call: a terminal tool receives its text."""
        if reply.is_refusal:
            return "refused"
        # A reply cut off by the token limit is not a final message.
        if self._terminal is not None and reply.finish_reason != "length":
            message = final_message(self._terminal, reply.text)
            result = await self._session.call(self._terminal.name, message, model_turn=self._take_turn())
            nudge = result.text or NUDGE
        else:
            nudge = NUDGE
        stop = self._remind("length" if reply.finish_reason == "length" else "no_tool_call")
        if stop is None and not self._session.is_over:
            reminder: ChatMessage = {"role": "user", "content": nudge}
            self._add(reminder)
            if self._unattached:
                self._unattached.append(reminder)
        return stop

    def _take_turn(self, tool_call_id: str | None = None) -> ModelTurn:
        """Return what the record is to keep with the next call.

        Lists of token ids and probabilities are left out where the request would have too many values.
        """
        messages, self._unattached = self._unattached[-MAX_MESSAGES:], []
        if count_values(json.dumps(messages).encode()) > MAX_TURN_VALUES:
            self._session.log.append("token ids and probabilities are too many values for the record")
            messages = [
                {name: value for name, value in message.items() if name not in TOKEN_LISTS}
                for message in messages
            ]
        turn = {"messages": messages, "tool_call_id": tool_call_id}
        try:
            return ModelTurn.model_validate(check_model_turn(turn) or {})
        except InvalidRequestError as error:  # the record lacks a message; the attempt is not worth losing
            self._session.log.append(f"the model's message is not recorded: {error}")
            return ModelTurn(tool_call_id=tool_call_id)

    def _remind(self, reason: str) -> str | None:
        self._idle += 1
        return reason if self._idle > self._options.nudges else None
