"""Compiles a schema with all its references, then checks values.

Invariants: a schema is compiled with a list of work, not by recursion, so its depth is not a danger; a
reference is resolved when the schema is compiled, within the schema alone, so that its validity does not
depend on a value and nothing is ever retrieved; the same schema at the same base and dynamic scope is
compiled once, so a circle ends.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, TypeAlias
from urllib.parse import unquote, urldefrag, urljoin

from jsonschema.validators import validator_for

from ors_server.json_schemas.check_run import (
    MAX_SCHEMA_CHECKS,
    NAMES_PER_CHECK,
    CheckRun,
    EnoughViolationsError,
    Marks,
    Path,
    PatternSearch,
    SchemaViolation,
    TooMuchWorkError,
)
from ors_server.json_schemas.keywords import MAKERS, UNEVALUATED, Check
from ors_server.json_schemas.linear_patterns import LinearPatterns
from ors_server.model.json_values import MAX_DEPTH, is_array, is_object

MAX_SCHEMA_CHARACTERS = 1_000_000
MAX_SCHEMA_VALUES = 10_000
"""Values within a schema: compiling it takes about 15 microseconds for each."""
MAX_COMPILED = 20_000
"""Schemas within a schema; dynamic references multiply them."""
DRAFT_WITH_SIBLINGS_OF_REF = 2019
"""The first in which keywords besides `$ref` count."""
RECURSIVE = ""
"""The name under which `$recursiveAnchor` is kept next to dynamic anchors."""

_DRAFTS = {
    "http://json-schema.org/draft-04/schema": 4,
    "http://json-schema.org/draft-06/schema": 6,
    "http://json-schema.org/draft-07/schema": 7,
    "https://json-schema.org/draft/2019-09/schema": 2019,
    "https://json-schema.org/draft/2020-12/schema": 2020,
}
_DRAFT = "https://json-schema.org/draft/2020-12/schema"
"""Of a schema without `$schema`."""
_specifications: Any = import_module("jsonschema_specifications")  # comes with jsonschema
_referencing: Any = import_module("referencing.jsonschema")  # typed too loosely to be used as it is

_Scope: TypeAlias = "tuple[tuple[str, str], ...]"
"""For each dynamic anchor, in which resource it was met first; a recursive anchor's name is empty."""


class BadSchemaError(ValueError):
    """A schema is invalid, or has a reference that leads out of it."""


class SchemaChecker:
    """A schema, checked and compiled; for any number of values and threads."""

    def __init__(self, schema: Any, make_search: Callable[[], PatternSearch] = LinearPatterns) -> None:
        """Compile a schema; without `$schema` it is of draft 2020-12.

        Args:
            make_search: Makes what searches patterns, once for each value.

        Raises:
            BadSchemaError: It is of an unknown draft, invalid in its draft, has an invalid pattern, or a
                reference that leads out of it.
        """
        draft = check_schema(schema)
        self._make_search = make_search
        self._root = _Compiler(schema, draft, make_search()).compile()

    def violations(self, value: Any) -> list[SchemaViolation]:
        """Return up to 20 places at which a value violates the schema; empty if it is valid.

        Raises:
            TooMuchWorkError: The value takes more than 100,000 steps, or leads too deep.
        """
        run = CheckRun(self._make_search())
        try:
            self._root.accepts(run, value, None, None)
        except EnoughViolationsError:
            pass
        except RecursionError:
            raise TooMuchWorkError("leads too deep") from None
        return run.violations


def check_schema(schema: Any) -> "Draft":
    """Check a schema against the meta-schema of its draft, which is returned; no reference is followed.

    Raises:
        BadSchemaError: It is not an object or a truth value, too large, of an unknown draft, or invalid.
    """
    _refuse_if_not_json(schema)
    uri = schema.get("$schema", _DRAFT) if is_object(schema) else _DRAFT
    draft = _draft(uri.removesuffix("#")) if isinstance(uri, str) else None
    if draft is None:
        raise BadSchemaError(f"the draft {uri!r:.80} is not known: expected one of {', '.join(_DRAFTS)}")
    draft.refuse_invalid(schema)
    return draft


def _refuse_if_not_json(schema: Any) -> None:
    """Refuse what JSON cannot have, or what is too large or deep."""
    level, count, characters = [schema], 0, 0
    for _ in range(MAX_DEPTH):
        parts: list[Any] = []
        for value in level:
            if is_object(value):
                parts.extend(value.values())
                for name in value:
                    if not isinstance(name, str):
                        raise BadSchemaError(
                            f"the schema is not JSON: a name must be a text, got {name!r:.80}"
                        )
                characters += sum(map(len, value))
            elif is_array(value):
                parts.extend(value)
            elif isinstance(value, str):
                characters += len(value)
            elif not (
                value is None
                or isinstance(value, int)
                or (isinstance(value, float | Decimal) and math.isfinite(value))
            ):
                raise BadSchemaError(f"the schema is not JSON: {value!r:.80} ({type(value).__name__})")
        count += len(parts)
        if count > MAX_SCHEMA_VALUES or characters > MAX_SCHEMA_CHARACTERS:
            raise BadSchemaError(
                f"the schema is too large: at most {MAX_SCHEMA_VALUES} values and {MAX_SCHEMA_CHARACTERS} "
                "characters in them"
            )
        if not parts:
            return
        level = parts
    raise BadSchemaError(f"the schema is not JSON: more than {MAX_DEPTH} nested arrays and objects")


class Draft:
    """A draft of JSON Schema: its words, and its meta-schema, compiled."""

    def __init__(self, uri: str) -> None:
        self.number = _DRAFTS[uri]
        self.specification: Any = _referencing.specification_with(uri)
        drafted: Any = validator_for({"$schema": uri})
        self.keywords = [word for word in MAKERS if word in drafted.VALIDATORS]
        known = {
            name: resource.contents
            for name, resource in _specifications.REGISTRY.items()
            if str(resource.contents.get("$schema")).removesuffix("#") == uri
        }
        self._meta = _Compiler(drafted.META_SCHEMA, self, LinearPatterns(), known).compile()

    def refuse_invalid(self, schema: Any) -> None:
        """Raise `BadSchemaError` if a schema is invalid in this draft."""
        run = CheckRun(LinearPatterns(), max_checks=MAX_SCHEMA_CHECKS)
        try:
            self._meta.accepts(run, schema, None, None)
        except EnoughViolationsError:
            pass
        except (TooMuchWorkError, RecursionError) as error:
            raise BadSchemaError(f"the schema is too large: checking it {error}") from None
        if run.violations:
            violation = run.violations[0]
            raise BadSchemaError(f"not a valid schema: {violation.place}: {violation.message}")


@cache
def _draft_of(uri: str) -> Draft:
    return Draft(uri)


def _draft(uri: str) -> Draft | None:
    return _draft_of(uri) if uri in _DRAFTS else None


class _Subschema:
    """A compiled schema; its checks are filled in after it was made, so that circles are possible."""

    def __init__(self) -> None:
        self.checks: tuple[Check, ...] = ()
        self.is_false = False
        self.is_closed = False
        """Whether `unevaluatedItems` or `unevaluatedProperties` count what it evaluated itself."""

    def accepts(self, run: CheckRun, instance: Any, path: Path, marks: Marks) -> bool:
        if self.is_false:
            return run.fail(path, "false", "the schema false allows no value")
        run.enter(1 + len(self.checks))
        own: Marks = set() if self.is_closed else marks
        is_valid = True
        for check in self.checks:
            if not check(run, instance, path, own):
                is_valid = False
                if run.quiet:
                    break
        run.leave()
        if marks is not None and own is not None and own is not marks and is_valid:
            run.spend(len(own) // NAMES_PER_CHECK)
            marks |= own
        return is_valid


@dataclass(frozen=True, slots=True)
class _Place:
    """A schema to compile, and what its references are relative to."""

    schema: Any
    base: str
    scope: _Scope


class _Compiler:
    """Compiles one document; it is the context of the keywords' makers."""

    def __init__(
        self,
        schema: Any,
        draft: Draft,
        patterns: PatternSearch,
        known: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Begin with a document.

        Args:
            known: Other documents by their URI, which references may lead to; they are valid.
        """
        self._draft = draft
        self._patterns = patterns
        self._root: Any = schema
        self._resources: dict[str, Any] = {"": schema, **known}
        self._anchors: dict[tuple[str, str], Any] = {}
        self._checked: set[int] = set()
        """Schemas that were checked with the document: by `id`, as the document lives as long as this."""
        for uri, document in known.items():
            self._note(document, uri)
        self._note(schema, "")
        self._dynamic_names = _dynamic_names(schema)
        self._place = _Place(schema, "", ())
        self._compiled: dict[tuple[int, str, _Scope], _Subschema] = {}
        self._waiting: list[tuple[_Subschema, _Place]] = []

    @property
    def draft(self) -> int:
        return self._draft.number

    def compile(self) -> _Subschema:
        """Compile the document, with what nothing in it refers to."""
        root = self._entered(self._root, "", ())
        while self._waiting:
            subschema, place = self._waiting.pop()
            self._fill(subschema, place)
        return root

    def subschema(self, schema: Any) -> _Subschema:
        return self._entered(schema, self._place.base, self._place.scope)

    def pattern(self, pattern: str) -> Any:
        try:
            return self._patterns.compile(pattern)
        except ValueError as error:
            raise BadSchemaError(str(error)) from None

    def referenced(self, reference: str) -> _Subschema:
        schema, base = self._resolve(reference, self._place.base)
        return self._entered(schema, base, self._place.scope)

    def dynamic(self, reference: str) -> _Subschema:
        schema, base = self._resolve(reference, self._place.base)
        name = _dynamic_name(schema, urldefrag(reference).fragment)
        first = None if name is None else dict(self._place.scope).get(name)
        if first is not None:
            schema, base = self._resolve(f"#{name}", first)
        return self._entered(schema, base, self._place.scope)

    def _entered(self, schema: Any, base: str, scope: _Scope) -> _Subschema:
        base = self._base_within(schema, base)
        if self._dynamic_names:
            scope = self._scope_within(base, scope)
        key = (id(schema), base, scope)
        if key not in self._compiled:
            if len(self._compiled) >= MAX_COMPILED:
                raise BadSchemaError(f"the schema leads to more than {MAX_COMPILED} schemas")
            self._compiled[key] = _Subschema()
            self._waiting.append((self._compiled[key], _Place(schema, base, scope)))
        return self._compiled[key]

    def _fill(self, subschema: _Subschema, place: _Place) -> None:
        schema, self._place = place.schema, place
        if id(schema) not in self._checked and not isinstance(schema, bool):
            self._draft.refuse_invalid(schema)  # a reference led to what is not a schema by its keyword
            self._note(schema, place.base)
        if isinstance(schema, bool):
            subschema.is_false = not schema
            return
        for part in self._parts(schema):
            self.subschema(part)
        words = [word for word in self._draft.keywords if word in schema]
        if "$ref" in schema and self.draft < DRAFT_WITH_SIBLINGS_OF_REF:
            words = ["$ref"]
        checks = (MAKERS[word](self, schema[word], schema) for word in words)
        subschema.checks = tuple(check for check in checks if check is not None)
        subschema.is_closed = not schema.keys().isdisjoint(UNEVALUATED)

    def _parts(self, schema: Any) -> list[Any]:
        """Return the schemas right within a schema, by its keywords."""
        parts: Iterable[Any] = self._draft.specification.subresources_of(schema)
        return [part for part in parts if isinstance(part, bool) or is_object(part)]

    def _note(self, schema: Any, base: str) -> None:
        """Note a schema and all within it, with their identifiers and anchors."""
        waiting = [(schema, base)]
        while waiting:
            part, base = waiting.pop()
            if isinstance(part, bool) or id(part) in self._checked:
                continue
            self._checked.add(id(part))
            within = self._base_within(part, base)
            if within != base:
                self._resources.setdefault(within, part)
            for anchor in self._draft.specification.anchors_in(part):
                self._anchors.setdefault((within, anchor.name), part)
            waiting.extend((inner, within) for inner in self._parts(part))

    def _base_within(self, schema: Any, base: str) -> str:
        identifier = self._draft.specification.id_of(schema) if is_object(schema) else None
        return base if identifier is None else urljoin(base, identifier.rstrip("#"))

    def _scope_within(self, base: str, scope: _Scope) -> _Scope:
        """Return the scope of a resource that is entered: an anchor that was met first stays."""
        entries = dict(scope)
        for name in self._dynamic_names:
            try:
                schema, _ = self._resolve(f"#{name}", base)
                has_anchor = _dynamic_name(schema, name) == name
            except BadSchemaError:
                has_anchor = False
            if has_anchor:
                entries.setdefault(name, base)
            elif name == RECURSIVE:  # `$recursiveRef` leads through resources that all have the anchor
                entries.pop(name, None)
        return tuple(sorted(entries.items()))

    def _resolve(self, reference: str, base: str) -> tuple[Any, str]:
        """Return the schema that a reference leads to, and its base; nothing is retrieved."""
        uri, fragment = urldefrag(urljoin(base, reference))
        if not uri or reference.startswith("#"):
            uri = base
        try:
            if fragment and not fragment.startswith("/"):
                return self._anchors[uri, fragment], uri
            return self._follow(self._resources[uri], unquote(fragment), uri)
        except (LookupError, ValueError, TypeError):
            raise BadSchemaError(
                f"the reference {reference!r:.80} leads out of the schema; none is fetched. "
                "Put the schema that it names under $defs and refer to it as #/$defs/NAME"
            ) from None

    def _follow(self, schema: Any, pointer: str, base: str) -> tuple[Any, str]:
        for segment in pointer.split("/")[1:]:
            name = segment.replace("~1", "/").replace("~0", "~")
            schema = schema[int(name)] if is_array(schema) else schema[name]
            base = self._base_within(schema, base)
        return schema, base


def _dynamic_name(schema: Any, fragment: str) -> str | None:
    """Return the dynamic anchor that a reference named; `None` if it is an ordinary one."""
    if not is_object(schema):
        return None
    if not fragment:
        return RECURSIVE if schema.get("$recursiveAnchor") is True else None
    return fragment if schema.get("$dynamicAnchor") == fragment else None


def _dynamic_names(schema: Any) -> frozenset[str]:
    """Return the dynamic anchors of a document, if anything in it refers to one."""
    names: set[str] = set()
    is_used = False
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if is_object(part):
            is_used |= "$dynamicRef" in part or "$recursiveRef" in part
            if isinstance(part.get("$dynamicAnchor"), str):
                names.add(part["$dynamicAnchor"])
            if part.get("$recursiveAnchor") is True:
                names.add(RECURSIVE)
            waiting.extend(part.values())
        elif is_array(part):
            waiting.extend(part)
    return frozenset(names) if is_used else frozenset()
