"""Forms from JSON Schema, and the arguments that a filled form stands for."""

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ors_server.model.trajectory import Step
from ors_server.model.wire import ToolSpec, compact_json

LONG_TEXT = frozenset(
    {"command", "cmd", "code", "content", "text", "query", "script", "source", "old", "new", "patch"}
)
"""Names, or parts of names, of texts that need several lines."""
MAX_ERROR = 200
MAX_CURL = 4_000
"""Characters of arguments in a command; longer ones are a file, which shells take in any length."""
CALL_FILE = "call.json"


@dataclass(frozen=True, slots=True)
class FieldView:
    """One argument of a tool."""

    name: str
    kind: str
    """text, long, number, choice or json."""
    hint: str
    """What the schema says about it."""
    is_required: bool
    choices: tuple[str, ...] = ()
    value: str = ""
    error: str | None = None

    @property
    def input_name(self) -> str:
        """Its name in the form, apart from the form's own fields."""
        return f"arg:{self.name}"


@dataclass(frozen=True, slots=True)
class ToolForm:
    """The form of one tool."""

    name: str
    description: str
    fields: tuple[FieldView, ...]
    raw: str
    """The arguments as JSON, where they are typed so."""
    error: str | None = None
    is_open: bool = False


def make_forms(
    tools: Sequence[ToolSpec], wrong: str | None, form: Mapping[str, str], errors: Mapping[str, str]
) -> list[ToolForm]:
    """Return the form of each tool; that of the tool `wrong` has what was sent, and its errors."""
    forms: list[ToolForm] = []
    nothing: Mapping[str, str] = {}
    for tool in tools:
        sent, mistakes = (form, errors) if tool.name == wrong else (nothing, nothing)
        fields = make_fields(tool.input_schema, sent, mistakes)
        forms.append(
            ToolForm(
                tool.name,
                tool.description or "",
                fields,
                sent.get("raw", ""),
                mistakes.get(""),
                is_open=tool.name == wrong,
            )
        )
    return forms


def make_fields(
    schema: Mapping[str, Any] | None, sent: Mapping[str, str], errors: Mapping[str, str]
) -> tuple[FieldView, ...]:
    """Return the fields of a tool's form, with what was sent, and with what is wrong by field."""
    fields: list[FieldView] = []
    for name, value in _mapping((schema or {}).get("properties")).items():
        field = _resolve(_mapping(value), schema or {})
        choices, kinds = _choices(field), _types(field)
        kind = "number" if kinds and kinds <= {"integer", "number"} else "json"
        if choices:
            kind = "choice"
        elif kinds == {"string"}:
            kind = "long" if any(word in name.lower() for word in LONG_TEXT) else "text"
        hint = str(field.get("description", ""))
        if field.get("default") is not None:
            hint = f"{hint} Default: {compact_json(field['default'])}".strip()
        is_required = name in cast("list[str]", (schema or {}).get("required") or [])
        sent_value = sent.get(f"arg:{name}", "")
        fields.append(FieldView(name, kind, hint, is_required, choices, sent_value, errors.get(name)))
    return tuple(fields)


def read_form(
    schema: Mapping[str, Any] | None, form: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the arguments that a form stands for, and what is wrong by field; "" is the whole form."""
    if form.get("raw", "").strip():
        try:
            value = _DECODER.decode(form["raw"])
        except (ValueError, RecursionError) as error:
            return {}, {"": f"not JSON: {error}"[:MAX_ERROR]}
        if isinstance(value, dict):
            return cast("dict[str, Any]", value), {}
        return {}, {"": "expected a JSON object of arguments"}
    arguments: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for field in make_fields(schema, form, {}):
        # A browser sends line breaks as CR LF.
        text = form.get(field.input_name, "").replace("\r\n", "\n")
        if text == "" and not (field.is_required and field.kind in {"text", "long"}):
            if field.is_required:
                errors[field.name] = "a value is needed"
            continue
        try:
            arguments[field.name] = text if field.kind in {"text", "long"} else _DECODER.decode(text)
        except (ValueError, RecursionError):
            errors[field.name] = "expected a number" if field.kind == "number" else "expected JSON"
    return arguments, errors


def _read_number(digits: str) -> float:
    """Return a finite number: the control API takes no other, either."""
    if not math.isfinite(number := float(digits)):
        raise ValueError(f"expected a finite number, got {digits}")
    return number


_DECODER = json.JSONDecoder(parse_constant=_read_number, parse_float=_read_number)


def curl_line(base_url: str, session_id: str, step: Step, *, has_keys: bool) -> str:
    """Return the call of a step as a command for a shell; a long one reads `call.json`."""
    body = call_body(step.tool, step.arguments)
    body = body if len(body) <= MAX_CURL else f"@{CALL_FILE}"
    key = ' -H "X-API-Key: $ORS_API_KEY"' if has_keys else ""
    return (
        f"curl {shlex.quote(f'{base_url}/_ors/sessions/{session_id}/calls')}{key} --json {shlex.quote(body)}"
    )


def call_body(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return the request's body of a call."""
    return compact_json({"name": tool, "arguments": dict(arguments)})


def _choices(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the values that are allowed, as JSON; none if there are any number."""
    if isinstance(schema.get("enum"), list):
        return tuple(compact_json(value) for value in schema["enum"])
    return ("true", "false") if _types(schema) == {"boolean"} else ()


def _types(schema: Mapping[str, Any]) -> set[str]:
    """Return the types a value may have, null apart: a field that is left empty is not sent."""
    kinds = schema.get("type")
    found: set[str] = {kinds} if isinstance(kinds, str) else set(cast("list[str]", kinds or []))
    for option in cast("Sequence[Any]", schema.get("anyOf") or schema.get("oneOf") or ()):
        found |= _types(_mapping(option))
    return found - {"null"}


def _resolve(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow one reference into the schema's own definitions."""
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/$defs/"):
        return schema
    return {**_mapping(_mapping(root.get("$defs")).get(reference.rpartition("/")[2])), **schema}


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
