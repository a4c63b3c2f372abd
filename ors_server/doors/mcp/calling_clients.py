"""The MCP client that made a call, as the tool sees it: what it offers, its log, and its answers.

In the handshake era (until 2025-11-25) the server sends the client a request and waits. The later era forbids
that; `input_requests` is how it asks.
"""

from collections.abc import Callable, Mapping
from typing import cast

import anyio
import mcp_types as types
from pydantic import ValidationError
from typing_extensions import override

from ors_server.doors.mcp.log_levels import requested_levels
from ors_server.doors.mcp.sdk import Context, MCPError, Result, ServerMessageMetadata, is_modern
from ors_server.environments.calling_client import (
    NEEDS,
    Ability,
    AbilityError,
    Answer,
    AskError,
    Elicit,
    Elicited,
    ListRoots,
    LogLevel,
    Question,
    Root,
    RootList,
    Sample,
    Sampled,
)

ASK_LIMIT = 300.0
"""Seconds that a tool waits for answers; its own time limit may be shorter."""


def may_be_asked(context: Context) -> bool:
    """Whether the client declared any ability that a tool may use."""
    declared = context.session.client_capabilities
    return declared is not None and not (
        declared.elicitation is None and declared.sampling is None and declared.roots is None
    )


def abilities_of(context: Context) -> frozenset[Ability]:
    """Return what the client can do for a tool."""
    declared = context.session.client_capabilities
    if declared is None or not (is_modern(context) or context.session.can_send_request):
        return frozenset()
    form = declared.elicitation
    offered = {
        Ability.ELICITATION: form is not None and (form.form is not None or form.url is None),
        Ability.SAMPLING: declared.sampling is not None,
        Ability.ROOTS: declared.roots is not None,
    }
    return frozenset(ability for ability, present in offered.items() if present)


def missing_abilities_error(missing: frozenset[Ability]) -> MCPError:
    """Make the protocol's error for a client that lacks what its request needs."""
    names = sorted(missing)
    return MCPError(
        types.MISSING_REQUIRED_CLIENT_CAPABILITY,
        f"this call needs a client that offers {', '.join(names)}",
        {"requiredCapabilities": {name: {} for name in names}},
    )


def _request_of(
    question: Question,
) -> types.ElicitRequest | types.CreateMessageRequest | types.ListRootsRequest:
    if isinstance(question, Elicit):
        form = types.ElicitRequestFormParams(message=question.message, requested_schema=question.schema)
        return types.ElicitRequest(params=form)
    if isinstance(question, Sample):
        message = types.SamplingMessage(role="user", content=types.TextContent(text=question.prompt))
        sampling = types.CreateMessageRequestParams(
            messages=[message], max_tokens=question.max_tokens, system_prompt=question.system_prompt
        )
        return types.CreateMessageRequest(params=sampling)
    return types.ListRootsRequest()


def wire_request_of(question: Question) -> Result:
    """Return a question in its wire form, a request without an id."""
    wire = _request_of(question).model_dump(by_alias=True, mode="json", exclude_none=True)
    wire.setdefault("params", {})
    return wire


def answer_of(question: Question, response: object) -> Answer | None:
    """Read a client's response, as the SDK parsed it; `None` if it does not fit the question."""
    if isinstance(question, Elicit) and isinstance(response, types.ElicitResult):
        return Elicited(response.action, dict(response.content or {}))
    if isinstance(question, Sample) and isinstance(
        response, types.CreateMessageResult | types.CreateMessageResultWithTools
    ):
        content = response.content if isinstance(response.content, list) else [response.content]
        text = "".join(part.text for part in content if isinstance(part, types.TextContent))
        return Sampled(text, response.model, response.stop_reason)
    if isinstance(question, ListRoots) and isinstance(response, types.ListRootsResult):
        return RootList(tuple(Root(str(root.uri), root.name) for root in response.roots))
    return None


class McpCallingClient:
    """The client that made a call: what both eras share."""

    __slots__ = ("_log_threshold", "context", "is_deferred", "is_withdrawn", "missing")

    def __init__(
        self, context: Context, log_threshold: Callable[[], frozenset[LogLevel]] | None = None
    ) -> None:
        """Keep the request.

        Args:
            log_threshold: Returns the log levels that the client wants, in the era that sets them per
                connection.
        """
        self.context = context
        self.missing: frozenset[Ability] = frozenset()
        self.is_deferred = False
        """Whether the client polls for the call: no request is open to which anything could be sent."""
        self.is_withdrawn = False
        """Whether the client cancelled the call, and did not only leave."""
        self._log_threshold = log_threshold

    def can(self, ability: Ability) -> bool:
        """Whether the client declared an ability."""
        return ability in abilities_of(self.context)

    async def log(self, level: LogLevel, data: object, logger: str | None) -> None:
        """Send a log line of any JSON value, if the client asked for lines of that level."""
        allowed = requested_levels(self.context)
        if self._log_threshold is not None:
            allowed &= self._log_threshold()
        if level not in allowed or self.is_deferred:
            return
        params = types.LoggingMessageNotificationParams(level=level, data=data, logger=logger)
        await self.context.session.send_notification(
            types.LoggingMessageNotification(params=params), related_request_id=self.context.request_id
        )

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answer]:
        """Refuse all questions: this client declared no abilities; `AbilityError` if there is a question."""
        self.require(questions)
        return {}

    def require(self, questions: Mapping[str, Question]) -> None:
        """Check that the client can answer; `AbilityError` if it cannot."""
        missing = frozenset(NEEDS[type(question)] for question in questions.values()) - abilities_of(
            self.context
        )
        if missing:
            self.missing = missing
            raise AbilityError(missing)


class HandshakeClient(McpCallingClient):
    """A client of the handshake era, which answers the server's requests."""

    __slots__ = ()

    @override
    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answer]:
        """Send the questions one after the other; return the answers by the questions' names.

        Raises:
            AbilityError: If the client does not offer what a question needs.
            AskError: If it refuses, leaves, or answers something else.
        """
        self.require(questions)
        return {key: await self._ask_one(question) for key, question in questions.items()}

    async def _ask_one(self, question: Question) -> Answer:
        request = _request_of(question)
        kind: type[types.Result] = types.ListRootsResult
        if isinstance(question, Elicit):
            kind = types.ElicitResult
        elif isinstance(question, Sample):
            kind = types.CreateMessageResult
        try:
            with anyio.fail_after(ASK_LIMIT):
                response = await self.context.session.send_request(
                    request, kind, metadata=ServerMessageMetadata(related_request_id=self.context.request_id)
                )
        except (MCPError, ValidationError, TimeoutError) as error:
            raise AskError(f"the client did not answer {request.method}: {error}") from error
        return cast("Answer", answer_of(question, response))  # `kind` is what fits the question
