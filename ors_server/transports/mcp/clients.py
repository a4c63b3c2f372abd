"""The MCP client behind a call, as a tool may see it: what it offers, its log, and its answers.

In the handshake era (until 2025-11-25) the server sends the client a request of its own and waits. The later
era forbids that; `rounds` is how it asks.
"""

from collections.abc import Callable, Mapping
from typing import cast

import anyio
import mcp_types as types
from pydantic import ValidationError
from typing_extensions import override

from ors_server.authoring.client import (
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
from ors_server.transports.mcp.loglevels import requested_levels
from ors_server.transports.mcp.sdk import Context, MCPError, Result, ServerMessageMetadata, is_modern

ASK_LIMIT = 300.0
"""Seconds that a tool waits for answers; its own time limit may be shorter."""


def may_be_asked(context: Context) -> bool:
    """Say whether the client behind a request declared that it can do anything for a tool.

    Args:
        context: The request.
    """
    declared = context.session.client_capabilities
    return declared is not None and not (
        declared.elicitation is None and declared.sampling is None and declared.roots is None
    )


def abilities_of(context: Context) -> frozenset[Ability]:
    """Return what the client behind a request can do for a tool.

    Args:
        context: The request.
    """
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
    """Make the protocol's error for a client that lacks what its request needs.

    Args:
        missing: What it lacks.
    """
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
        said = types.SamplingMessage(role="user", content=types.TextContent(text=question.prompt))
        sampling = types.CreateMessageRequestParams(
            messages=[said], max_tokens=question.max_tokens, system_prompt=question.system_prompt
        )
        return types.CreateMessageRequest(params=sampling)
    return types.ListRootsRequest()


def wire_request_of(question: Question) -> Result:
    """Return a question in its wire form, a request without an id.

    Args:
        question: What is asked.
    """
    wire = _request_of(question).model_dump(by_alias=True, mode="json", exclude_none=True)
    wire.setdefault("params", {})
    return wire


def answer_of(question: Question, response: object) -> Answer | None:
    """Read a client's response; `None` if it does not fit the question.

    Args:
        question: What was asked.
        response: What came, parsed by the SDK.
    """
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


class McpClient:
    """The MCP client behind one call: what both eras share.

    Attributes:
        missing: Abilities that a question needed and the client lacks.
    """

    __slots__ = ("_log_threshold", "context", "missing")

    def __init__(
        self, context: Context, log_threshold: Callable[[], frozenset[LogLevel]] | None = None
    ) -> None:
        """Keep the request; what the client declared is read when it is needed.

        Args:
            context: The request that made the call.
            log_threshold: Which log levels the client wants, where that is not said by the request.
        """
        self.context = context
        self.missing: frozenset[Ability] = frozenset()
        self._log_threshold = log_threshold

    def can(self, ability: Ability) -> bool:
        """Say whether the client declared an ability.

        Args:
            ability: What is needed.
        """
        return ability in abilities_of(self.context)

    async def log(self, level: LogLevel, data: object, logger: str | None) -> None:
        """Send a log line beside the answer, if the client asked for lines of that level.

        Args:
            level: How severe.
            data: Any JSON value.
            logger: Who speaks.
        """
        allowed = requested_levels(self.context)
        if self._log_threshold is not None:
            allowed &= self._log_threshold()
        if level not in allowed:
            return
        params = types.LoggingMessageNotificationParams(level=level, data=data, logger=logger)
        await self.context.session.send_notification(
            types.LoggingMessageNotification(params=params), related_request_id=self.context.request_id
        )

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answer]:
        """Refuse all questions: this client offers nothing.

        Args:
            questions: By key.

        Returns:
            Nothing, if nothing was asked.

        Raises:
            AbilityError: If anything was asked.
        """
        self.require(questions)
        return {}

    def require(self, questions: Mapping[str, Question]) -> None:
        """Check that the client can answer.

        Args:
            questions: What is to be asked.

        Raises:
            AbilityError: If it cannot.
        """
        missing = frozenset(NEEDS[type(question)] for question in questions.values()) - abilities_of(
            self.context
        )
        if missing:
            self.missing = missing
            raise AbilityError(missing)


class HandshakeClient(McpClient):
    """A client of the handshake era: it answers requests of the server."""

    __slots__ = ()

    @override
    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answer]:
        """Send the questions one after the other.

        Args:
            questions: By key.

        Returns:
            The answers by key.

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
            msg = f"the client did not answer {request.method}: {error}"
            raise AskError(msg) from error
        return cast("Answer", answer_of(question, response))  # `kind` is what fits the question
