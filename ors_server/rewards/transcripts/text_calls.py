"""Calls that a model wrote as text: read where the form says all of a call, else refused.

Sources: the chat templates and parsers of Qwen 2.5 and 3 and of Hermes (`<tool_call>`), of Mistral
(`[TOOL_CALLS]`, with a list or with names and `[ARGS]`), of Llama 3 (`<function=`, `<|python_tag|>` with
JSON) and of DeepSeek V3 and V3.1. A form whose arguments have no types (Qwen3-Coder's `<parameter=`, GLM's
`<arg_key>`) cannot be read without the tool's schema and is refused; so are the marks of other models, marks
without a call, and calls within reasoning, of which nothing says whether they were made.

Every scan goes forward only, so the time is linear in the text.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from ors_server.rewards.reading.json_text import MAX_CHARACTERS, parse_json
from ors_server.rewards.transcripts.turns import TranscriptError, WrittenCall, as_name, key_table, show

_MARK = re.compile(
    r"<\s{0,3}/?\s{0,3}(?:minimax:)?tool_?calls?\b|\[/?TOOL_CALLS\]|\[TOOL_RESULTS\]|<\|python_tag\|>"
    r"|<\s{0,3}/?function\s{0,3}=|<\s{0,3}/?function_calls?\b|<\s{0,3}invoke\s{1,3}name\b"
    r"|<\s{0,3}parameter\s{0,3}=|<\s{0,3}arg_key\b|<\s{0,3}/?\s{0,3}tool_(?:response|result|output)s?\b"
    r"|<[|｜]{1,2}/?(?:tool|DSML|START_ACTION|action_start|recipient)"
    r"|\bto=functions\.|```tool_(?:code|call)|^[ \t]*action[ \t]+input[ \t]*:",
    re.IGNORECASE | re.MULTILINE,
)
"""Marks of a call, or of its result, that a model or a chat template writes into a text."""
_END_OF_REASONING = "</think>"
_RESPONSE = re.compile(r"<tool_response>(.*?)</tool_response>", re.DOTALL)

_CALL = key_table("a call that is written as text", "name arguments parameters", "id type")
_MAX_NAME = 200


@dataclass(frozen=True, slots=True)
class TextCalls:
    """A text, and the calls that it held."""

    text: str
    """The text without the calls."""
    calls: tuple[WrittenCall, ...]


def read_text_calls(text: str, where: str) -> TextCalls:
    """Take the calls out of an assistant's text.

    A text that is nothing but the JSON of calls (`name` with `arguments` or `parameters`) holds these and
    stays whole: it may be an answer as well.

    Raises:
        TranscriptError: The text has a mark of a call that cannot be read.
    """
    mark = _MARK.search(text)
    if mark is None:
        return TextCalls(text, _bare_calls(text))
    # Calls in the reasoning may be drafts.
    if text.rfind(_END_OF_REASONING) > mark.start():
        raise _refusal(where, mark[0], "it is in the reasoning, so nothing says whether the call was made")
    if len(text) > MAX_CHARACTERS:
        raise _refusal(where, mark[0], f"the text has more than {MAX_CHARACTERS} characters")
    calls: list[WrittenCall] = []
    for form in _FORMS:
        if form.begins not in text:
            continue
        try:
            text, read = form.read(text)
        except (ValueError, TranscriptError, RecursionError) as error:
            raise _refusal(where, form.begins, str(error)) from None
        calls += read
    # A mark that is left belongs to a form that is not read: skipping it would lose a call.
    if (mark := _MARK.search(text)) is not None:
        raise _refusal(where, mark[0], "it does not begin a call in a form that is read")
    return TextCalls(text.strip(), tuple(calls))


def read_text_answers(text: str, where: str) -> tuple[str, ...]:
    """Return the results that Qwen's template writes into the user's text; empty if the text has no results.

    Raises:
        TranscriptError: The text has a result next to other text, or in another form.
    """
    # Other models' marks of results are refused below, rather than read as text of the user.
    if "<tool_response" not in text and "[TOOL_RESULTS]" not in text and "<｜tool▁output" not in text:
        return ()
    answers = tuple(answer.strip("\n") for answer in _RESPONSE.findall(text))
    if not answers or _RESPONSE.sub("", text).strip():
        raise TranscriptError(
            f"{where}: expected nothing but results between <tool_response> and </tool_response>, "
            f"got {show(text)}"
        )
    return answers


def _refusal(where: str, mark: str, reason: str) -> TranscriptError:
    return TranscriptError(
        f"{where}: a call is written as text, which cannot be read after {mark!r}: {reason}"
    )


def _bare_calls(text: str) -> tuple[WrittenCall, ...]:
    bare = text.strip()
    if len(bare) > MAX_CHARACTERS or bare[:1] not in {"{", "["} or bare[-1:] not in {"}", "]"}:
        return ()
    # Cheap checks first: most texts are not JSON of calls.
    if '"name"' not in bare or not ('"arguments"' in bare or '"parameters"' in bare):
        return ()
    try:
        value = parse_json(bare)
        return tuple(map(_call, cast("list[object]", value) if isinstance(value, list) else [value]))
    except (ValueError, TranscriptError):  # an answer in JSON that is not a call
        return ()


def _call(value: object) -> WrittenCall:
    """Read the JSON of one call; raises a `ValueError` for anything else."""
    if not isinstance(value, Mapping):
        raise TranscriptError(f"expected a call as an object, got {show(value)}")
    body = cast("Mapping[str, Any]", value)
    _CALL.check(body, "the call")
    name = as_name(body.get("name"), "the call's name")
    arguments = body.get("arguments", body.get("parameters", {}))
    # Some models write the arguments as JSON text in the JSON.
    if isinstance(arguments, str):
        arguments = parse_json(arguments)
    if not isinstance(arguments, Mapping):
        raise TranscriptError(f"expected arguments as an object, got {show(arguments)}")
    return WrittenCall(name, dict(cast("Mapping[str, Any]", arguments)))


def _named(name: str, arguments: str) -> WrittenCall:
    if not name or len(name) > _MAX_NAME or any(mark in name for mark in "<>[]{}\n"):
        raise TranscriptError(f"expected a tool's name, got {show(name)}")
    return _call({"name": name, "arguments": parse_json(arguments)})


def _json_at(text: str, start: int) -> tuple[str, int]:
    """Return the JSON value that begins at a place, as text, and the place after it."""
    start += len(text[start:]) - len(text[start:].lstrip())
    _, end = json.JSONDecoder().raw_decode(text, start)
    return text[start:end], end


def _hermes(text: str) -> tuple[str, list[WrittenCall]]:
    """Read `<tool_call>JSON</tool_call>`; the last call of a text may lack its end."""
    before, *blocks = text.split("<tool_call>")
    calls: list[WrittenCall] = []
    rest = [before]
    for number, block in enumerate(blocks, 1):
        body, end, after = block.partition("</tool_call>")
        # A sampler may stop at the end mark and drop it; only the last call can lack it.
        if not end and number < len(blocks):
            raise TranscriptError("the call has no end")
        calls.append(_call(parse_json(body.strip())))
        rest.append(after)
    return _join(rest), calls


def _llama_function(text: str) -> tuple[str, list[WrittenCall]]:
    """Read `<function=NAME>JSON</function>`."""
    before, *blocks = text.split("<function=")
    calls: list[WrittenCall] = []
    rest = [before]
    for block in blocks:
        body, end, after = block.partition("</function>")
        name, bracket, arguments = body.partition(">")
        if not end or not bracket:
            raise TranscriptError("the call has no end")
        calls.append(_named(name.strip(), arguments.strip()))
        rest.append(after)
    return _join(rest), calls


def _llama_json(text: str) -> tuple[str, list[WrittenCall]]:
    """Read the calls in JSON after `<|python_tag|>`, which semicolons divide."""
    before, *blocks = text.split("<|python_tag|>")
    calls: list[WrittenCall] = []
    for block in blocks:
        for mark in ("<|eom_id|>", "<|eot_id|>"):
            block = block.removesuffix(mark)  # noqa: PLW2901  (what is left of it)
        calls += map(_call, _listed(block, ";"))
    return before, calls


def _listed(block: str, divider: str) -> Iterable[object]:
    """Yield the JSON values of a text, with a divider or white space between them."""
    decoder, offset, block = json.JSONDecoder(), 0, block.strip()
    while offset < len(block):
        _, end = decoder.raw_decode(block, offset)
        yield parse_json(block[offset:end])
        offset = end
        while offset < len(block) and (block[offset].isspace() or block[offset] == divider):
            offset += 1


def _mistral(text: str) -> tuple[str, list[WrittenCall]]:
    """Read `[TOOL_CALLS]` with a list in JSON, or with a name, `[ARGS]` and an object."""
    before, *blocks = text.split("[TOOL_CALLS]")
    calls: list[WrittenCall] = []
    rest = [before]
    for block in blocks:
        bare = block.strip().removesuffix("</s>")
        # A list or an object is JSON; anything else is a name with its arguments behind `[ARGS]` or at the
        # first brace.
        if bare.startswith(("[", "{")) and not bare.startswith("[ARGS]"):
            value, end = _json_at(bare, 0)
            listed = parse_json(value)
            calls += map(_call, cast("list[object]", listed) if isinstance(listed, list) else [listed])
        else:
            head, mark, arguments = bare.partition("[ARGS]")
            bare = arguments if mark else bare[len(head.partition("{")[0]) :]
            name = (head if mark else head.partition("{")[0]).partition("[CALL_ID]")[0]
            value, end = _json_at(bare, 0)
            calls.append(_named(name.strip(), value))
        rest.append(bare[end:])
    return _join(rest), calls


def _deepseek(text: str) -> tuple[str, list[WrittenCall]]:
    """Read DeepSeek's marks: V3 writes the type, the name and fenced JSON, V3.1 the name and JSON."""
    rest: list[str] = []
    calls: list[WrittenCall] = []
    for part in text.split("<｜tool▁calls▁end｜>"):
        before, begins, block = part.partition("<｜tool▁calls▁begin｜>")
        rest.append(before)
        first, *bodies = block.split("<｜tool▁call▁begin｜>")
        if begins and (first.strip() or not bodies):
            raise TranscriptError("there is no call")
        for body in bodies:
            written, end, after = body.partition("<｜tool▁call▁end｜>")
            head, divides, arguments = written.partition("<｜tool▁sep｜>")
            if not end or not divides or after.strip():
                raise TranscriptError("the call has no end")
            if head.strip() == "function" and "```json" in arguments:
                head, _, arguments = arguments.partition("```json")
                arguments = arguments.strip().removesuffix("```")
            calls.append(_named(head.strip(), arguments.strip()))
    return _join(rest), calls


def _join(parts: Iterable[str]) -> str:
    return "\n".join(part.strip() for part in parts if part.strip())


@dataclass(frozen=True, slots=True)
class _Form:
    begins: str
    read: Callable[[str], tuple[str, list[WrittenCall]]]


_FORMS = (
    _Form("<tool_call>", _hermes),
    _Form("<function=", _llama_function),
    _Form("<|python_tag|>", _llama_json),
    _Form("[TOOL_CALLS]", _mistral),
    _Form("<｜tool▁calls▁begin｜>", _deepseek),
)
"""The forms that are read; the marks of any other are refused."""
