"""JSON Schema with bounded work and no network: checks a schema once, then values against it.

Validation is the package jsonschema's. Four keywords are our own: `pattern` and `patternProperties` search
with a time limit, `uniqueItems` takes linear time, `multipleOf` is exact. `format` is not checked.
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from importlib import import_module
from itertools import chain, islice
from typing import Any, TypeAlias, cast

from jsonschema import FormatChecker
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import Draft202012Validator, validator_for
from referencing.exceptions import Unresolvable

from ors_server.rewards.reading.bounded_pattern import PatternBudget, PatternError, compile_pattern
from ors_server.rewards.reading.json_values import NotJSONError, canonical_text, is_array, is_object

MAX_CHECKS = 100_000
"""Keywords that are applied to a value, all together."""
MAX_ERRORS = 20
"""Places that a report names."""
MAX_SCHEMA_CHARACTERS = 1_000_000
MAX_KEPT = 64
"""Schemas whose checkers are kept for the next value."""
MAX_KEPT_CHARACTERS = 100_000
"""Of a schema that is kept."""
SMALL_COUNT, SMALL_DEPTH = 1_000, 10
"""Values within a value, and levels, up to which too much work is the schema's fault, not the value's."""
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

_NO_FORMATS = FormatChecker(formats=())
"""Patterns are compiled by `compile_pattern`, and not also by the package with `re`, which warns of some."""
_validators: Any = import_module("jsonschema.validators")  # both are typed too loosely to be used as they are
_referencing: Any = import_module("referencing.jsonschema")

Schema: TypeAlias = Mapping[str, Any] | bool
_Keyword: TypeAlias = Callable[[Any, Any, Any, Any], Iterable[ValidationError] | None]


class BadSchemaError(ValueError):
    """A schema is invalid, has a reference that leads out of it, or takes too much work for a small value."""


class TooMuchWorkError(Exception):
    """A value would take more checks than are allowed."""


class SchemaChecker:
    """A schema, checked with all its references; nothing is ever fetched. For one thread at a time."""

    def __init__(self, schema: object) -> None:
        """Check a schema; without `$schema` it is of draft 2020-12.

        Raises:
            BadSchemaError: It is of an unknown draft, invalid in its draft, has an invalid pattern or a
                reference that leads out of it, or accepts every value, or none.
        """
        rules = _require_object(schema)
        drafted = _draft_of(rules)
        try:
            drafted.check_schema(rules, format_checker=_NO_FORMATS)
        except SchemaError as error:
            raise BadSchemaError(f"not a valid schema: {error.message:.200}") from None
        _check_references(rules, str(drafted.META_SCHEMA["$schema"]))
        self._work = _Work()
        self._patterns = _Patterns()
        self._validator: Any = _validators.extend(drafted, validators=self._keywords(drafted))(
            rules, registry=_referencing.EMPTY_REGISTRY
        )

    def violations(self, value: Any) -> list[str]:
        """Return up to 20 `place: keyword` at which a value violates the schema; empty if it is valid.

        Raises:
            TooMuchWorkError: A large value takes more than 100,000 checks, or leads too deep.
            BadSchemaError: A small one does.
            PatternTimeoutError: The search for a pattern took too long.
        """
        self._work.begin()
        self._patterns.begin()
        try:
            errors: list[ValidationError] = list(islice(self._validator.iter_errors(value), MAX_ERRORS))
        except (RecursionError, TooMuchWorkError) as error:
            what = (
                "leads too deep" if isinstance(error, RecursionError) else f"takes over {MAX_CHECKS} checks"
            )
            if is_small(value):
                raise BadSchemaError(f"the schema {what} for a small value") from None
            raise TooMuchWorkError(f"checking the value {what}") from None
        return [f"{error.json_path}: {error.validator}" for error in errors]

    def _keywords(self, drafted: Any) -> dict[str, _Keyword]:
        rules = {**drafted.VALIDATORS, "uniqueItems": _unique_items, "multipleOf": _multiple_of}
        rules |= {"pattern": self._patterns.pattern, "patternProperties": self._patterns.pattern_properties}
        return {name: self._work.counted(rule) for name, rule in rules.items() if name in drafted.VALIDATORS}


class _Checkers:
    """The last used checkers by their schema's text; each is lent to one thread at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: OrderedDict[str, list[SchemaChecker]] = OrderedDict()

    @contextmanager
    def lend(self, schema: object) -> Generator[SchemaChecker]:
        text = _text_of(schema)
        with self._lock:
            idle = self._idle.get(text) if text is not None else None
            checker = idle.pop() if idle else None
        checker = checker or SchemaChecker(schema)
        yield checker
        if text is not None:
            with self._lock:
                self._idle.setdefault(text, []).append(checker)
                self._idle.move_to_end(text)
                while len(self._idle) > MAX_KEPT:
                    self._idle.popitem(last=False)


lend_checker = _Checkers().lend
"""Lends a schema's checker for a `with` block; raises as `SchemaChecker` does."""


def is_small(value: Any) -> bool:
    """Whether a value has at most 1,000 values within it, at most 10 levels deep."""
    level: list[Any] = [value]
    count = 0
    for _ in range(SMALL_DEPTH):
        count += len(level)
        if count > SMALL_COUNT:
            return False
        level = list(chain.from_iterable(map(_values_in, level)))
        if not level:
            return True
    return False


def _values_in(value: Any) -> list[Any]:
    if is_object(value):
        return list(value.values())
    return list(value) if is_array(value) else []


def _text_of(schema: object) -> str | None:
    """Return the key of a schema; `None` for one that is too long to keep, or not JSON."""
    try:
        text = json.dumps(schema, allow_nan=False, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return None
    return text if len(text) <= MAX_KEPT_CHARACTERS else None


def _require_object(schema: object) -> Mapping[str, Any]:
    if isinstance(schema, bool) or (isinstance(schema, Mapping) and not schema):
        raise BadSchemaError("the schema accepts every value, or none: it cannot judge an answer")
    if not isinstance(schema, Mapping):
        raise BadSchemaError(f"a schema is an object or a truth value, not {schema!r:.80}")
    try:
        if len(canonical_text(schema)) > MAX_SCHEMA_CHARACTERS:
            raise BadSchemaError(f"the schema has more than {MAX_SCHEMA_CHARACTERS} characters")
    except NotJSONError as error:
        raise BadSchemaError(f"the schema is not JSON: {error}") from None
    return cast("Mapping[str, Any]", schema)


def _draft_of(schema: Mapping[str, Any]) -> Any:
    if "$schema" not in schema:
        return Draft202012Validator
    drafted: Any = validator_for(schema, default=cast("Any", None))
    if drafted is None:
        raise BadSchemaError(f"the draft {schema['$schema']!r:.80} is not known")
    return drafted


class _Work:
    """Counts the keywords that are applied to one value."""

    def __init__(self) -> None:
        self._left = MAX_CHECKS

    def begin(self) -> None:
        self._left = MAX_CHECKS

    def counted(self, rule: _Keyword) -> _Keyword:
        def apply(validator: Any, value: Any, instance: Any, schema: Any) -> Iterable[ValidationError] | None:
            self._left -= 1
            if self._left < 0:
                raise TooMuchWorkError
            return rule(validator, value, instance, schema)

        return apply


class _Patterns:
    """The keywords that search, with the time for all of them."""

    def __init__(self) -> None:
        self._budget = PatternBudget()

    def begin(self) -> None:
        self._budget = PatternBudget()

    def pattern(
        self, validator: Any, expression: str, instance: Any, _schema: Any
    ) -> Iterator[ValidationError]:
        if not validator.is_type(instance, "string"):
            return
        if not self._budget.is_found(compile_pattern(expression), instance):
            yield ValidationError("the pattern is not found")

    def pattern_properties(
        self, validator: Any, patterns: Mapping[str, Any], instance: Any, _schema: Any
    ) -> Iterator[ValidationError]:
        if not validator.is_type(instance, "object"):
            return
        for pattern, subschema in patterns.items():
            compiled = compile_pattern(pattern)
            for name, value in instance.items():
                if self._budget.is_found(compiled, name):
                    yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _unique_items(validator: Any, is_unique: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if is_unique and validator.is_type(instance, "array"):
        texts = {canonical_text(item) for item in instance}
        if len(texts) < len(instance):
            yield ValidationError("an item is repeated")


def _multiple_of(validator: Any, factor: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if validator.is_type(instance, "number") and Fraction(repr(instance)) % Fraction(repr(factor)):
        yield ValidationError("no multiple")


def _check_references(schema: Schema, draft: str) -> None:
    """Resolve every reference now, so that the validity of a schema does not depend on the answer."""
    resource: Any = _referencing.specification_with(draft).create_resource(schema)
    try:
        _walk(resource, _referencing.EMPTY_REGISTRY.resolver_with_root(resource))
    except Unresolvable as error:
        raise BadSchemaError(
            f"the reference {error.ref!r:.80} leads out of the schema; none is fetched"
        ) from None
    except PatternError as error:
        raise BadSchemaError(str(error)) from None


def _walk(resource: Any, resolver: Any) -> None:
    contents: Any = resource.contents
    if is_object(contents):
        for name in REFERENCES:
            if isinstance(contents.get(name), str):
                resolver.lookup(contents[name])
        for pattern in (contents.get("pattern"), *contents.get("patternProperties", ())):
            if pattern is not None:
                compile_pattern(pattern)
    for subresource in resource.subresources():
        _walk(subresource, resolver.in_subresource(subresource))
