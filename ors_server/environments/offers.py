"""Prompts and resources that an environment offers besides its tools, to MCP clients.

Agents read them, like the task's prompt, so they must hold no reward or answer. Reading one is not a step.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar, cast, overload

from ors_server.environments.boundary import call_author
from ors_server.environments.call_context import CallContext
from ors_server.environments.docstrings import read_docstring
from ors_server.environments.marked_members import Member, marked_members
from ors_server.environments.schema import Signature, read_signature
from ors_server.model.errors import EnvironmentDefinitionError, EnvironmentFailedError, InvalidRequestError
from ors_server.model.wire import ImageBlock, JSONObject, Message, TextBlock, as_blocks

MARK = "__ors_offer__"
"""Attribute of a method that has its mark."""

_Function = TypeVar("_Function", bound=Callable[..., Any])
_PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class _PromptMark:
    name: str | None


@dataclass(frozen=True, slots=True)
class _ResourceMark:
    uri: str
    mime_type: str


@overload
def prompt(function: _Function) -> _Function: ...
@overload
def prompt(*, name: str | None = None) -> Callable[[_Function], _Function]: ...
def prompt(
    function: _Function | None = None, *, name: str | None = None
) -> _Function | Callable[[_Function], _Function]:
    """Make a method of an environment a prompt that users may pick in their program.

    Its parameters are strings, and optionally one `CallContext`. It returns text, blocks, or messages.

    Args:
        name: The prompt's name, by default the method's; not `task`, the name of the task's own prompt.
    """

    def mark(target: _Function) -> _Function:
        setattr(target, MARK, _PromptMark(name))
        return target

    return mark if function is None else mark(function)


def resource(uri: str, *, mime_type: str = "text/plain") -> Callable[[_Function], _Function]:
    """Make a method of an environment a resource that an agent's program may read.

    Its parameters are those in braces in the URI, strings, and optionally one `CallContext`. It returns text
    or bytes.

    Args:
        uri: The resource's name, for instance `notes://today` or, for many resources, `notes://{day}`.
    """

    def mark(target: _Function) -> _Function:
        setattr(target, MARK, _ResourceMark(uri, mime_type))
        return target

    return mark


@dataclass(frozen=True, slots=True)
class PromptOffer:
    """A prompt as the server uses it."""

    name: str
    description: str
    schema: JSONObject
    """JSON Schema of the arguments; its properties are strings."""
    call: Callable[[Any, Mapping[str, str], CallContext], Awaitable[list[Message]]] = field(repr=False)
    """Given an instance, arguments and context; raises `InvalidRequestError` if arguments are missing."""


@dataclass(frozen=True, slots=True)
class ResourceOffer:
    """A resource, or a family of them, as the server uses it."""

    uri: str
    """With names in braces for a family."""
    name: str
    description: str
    mime_type: str
    pattern: re.Pattern[str]
    """Matches its URIs; the groups are the method's arguments."""
    read: Callable[[Any, Mapping[str, str], CallContext], Awaitable[str | bytes]] = field(repr=False)

    @property
    def is_family(self) -> bool:
        """Whether it has many URIs."""
        return bool(self.pattern.groupindex)


@dataclass(frozen=True, slots=True)
class Offers:
    """The prompts and resources that an environment offers besides its tools."""

    prompts: Mapping[str, PromptOffer] = field(default_factory=dict[str, PromptOffer])
    """By name, in order of definition."""
    resources: tuple[ResourceOffer, ...] = ()
    """In order of definition."""

    def find_resource(self, uri: str) -> tuple[ResourceOffer, Mapping[str, str]] | None:
        """Return the resource at a URI and its method's arguments, or `None`."""
        for offer in self.resources:
            match = offer.pattern.fullmatch(uri)
            if match is not None:
                return offer, match.groupdict()
        return None


def read_offers(cls: type) -> Offers:
    """Return the prompts and resources of a class."""
    prompts: dict[str, PromptOffer] = {}
    for member in marked_members(cls, MARK, _PromptMark):
        offer = _define_prompt(member)
        prompts[offer.name] = offer
    resources = [_define_resource(member) for member in marked_members(cls, MARK, _ResourceMark)]
    return Offers(prompts, tuple(resources))


def _define_prompt(member: Member[_PromptMark]) -> PromptOffer:
    name, where = member.mark.name or member.name, member.where
    if name == "task":
        msg = f"{where}: the prompt name 'task' is the task's own prompt; choose another"
        raise EnvironmentDefinitionError(msg)
    signature = _strings_only(member)

    async def call(instance: Any, arguments: Mapping[str, str], context: CallContext) -> list[Message]:
        return _as_messages(await _call(member, signature, instance, arguments, context), where)

    schema = signature.input_schema() or {"type": "object", "properties": {}}
    return PromptOffer(name, read_docstring(member.function).description, schema, call)


def _define_resource(member: Member[_ResourceMark]) -> ResourceOffer:
    mark, where = member.mark, member.where
    signature = _strings_only(member)
    fields: set[str] = set() if signature.model is None else set(signature.model.model_fields)
    if set(_PLACE.findall(mark.uri)) != fields:
        msg = f"{where}: its parameters must be the names in braces in {mark.uri!r}, got {sorted(fields)}"
        raise EnvironmentDefinitionError(msg)
    parts = _PLACE.split(mark.uri)
    # A name stands for one segment of the path (RFC 6570, simple expansion).
    pattern = "".join(f"(?P<{part}>[^/]+)" if i % 2 else re.escape(part) for i, part in enumerate(parts))

    async def read(instance: Any, arguments: Mapping[str, str], context: CallContext) -> str | bytes:
        content = await _call(member, signature, instance, arguments, context)
        if not isinstance(content, str | bytes):
            raise EnvironmentFailedError(f"{where} must return text or bytes, got {type(content).__name__}")
        return content

    about = read_docstring(member.function).description
    return ResourceOffer(mark.uri, member.name, about, mark.mime_type, re.compile(pattern), read)


def _strings_only(member: Member[Any]) -> Signature:
    signature = read_signature(member.function, member.where, takes_self=member.takes_self)
    schema = signature.input_schema() or {}
    parts: dict[str, JSONObject] = schema.get("properties", {})
    wrong = [name for name, part in parts.items() if part.get("type") != "string"]
    # MCP passes arguments of prompts and resources as strings.
    if wrong or signature.takes_model:
        listed = ", ".join(wrong) or "the model"
        msg = f"{member.where}: the parameters of prompts and resources are strings; change {listed}"
        raise EnvironmentDefinitionError(msg)
    return signature


async def _call(
    member: Member[Any],
    signature: Signature,
    instance: Any,
    arguments: Mapping[str, str],
    context: CallContext,
) -> Any:
    fields = {} if signature.model is None else signature.model.model_fields
    missing = [name for name, part in fields.items() if part.is_required() and name not in arguments]
    if missing:
        raise InvalidRequestError(f"missing arguments: {', '.join(missing)}")
    named_arguments: dict[str, Any] = {name: value for name, value in arguments.items() if name in fields}
    if signature.context_parameter is not None:
        named_arguments[signature.context_parameter] = context
    return await call_author(
        partial(member.function, *((instance,) if member.takes_self else ()), **named_arguments)
    )


def _as_messages(result: Any, where: str) -> list[Message]:
    if isinstance(result, str):
        return [Message(role="user", blocks=[TextBlock(text=result)])]
    items = list(cast("Sequence[object]", result)) if isinstance(result, Sequence) else []
    messages = [item for item in items if isinstance(item, Message)]
    blocks = [item for item in items if isinstance(item, str | TextBlock | ImageBlock)]
    if items and len(messages) == len(items):
        return messages
    if items and len(blocks) == len(items):
        return [Message(role="user", blocks=list(as_blocks(blocks)))]
    raise EnvironmentFailedError(f"{where} must return text, blocks or messages")
