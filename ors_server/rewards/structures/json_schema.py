"""JSON Schema with bounded work and no network: checks a schema once, then values against it.

Validation is the package jsonschema's. Four keywords are our own: `pattern` and `patternProperties` search
with a time limit, `uniqueItems` takes linear time, `multipleOf` is exact. `format` says nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from importlib import import_module
from typing import Any, TypeAlias, cast

from jsonschema import FormatChecker
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import Draft202012Validator, validator_for
from referencing.exceptions import Unresolvable

from ors_server.rewards.reading.bounded_pattern import PatternBudget, PatternError, compile_pattern
from ors_server.rewards.reading.json_values import NotJSONError, canonical_text, is_object

MAX_CHECKS = 100_000
"""Keywords that are applied to a value, all together."""
MAX_ERRORS = 20
"""Places that a report names."""
MAX_SCHEMA_CHARACTERS = 1_000_000
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

_NO_FORMATS = FormatChecker(formats=())
"""Patterns are compiled by `compile_pattern`, and not also by the package with `re`, which warns of some."""
_validators: Any = import_module("jsonschema.validators")  # both are typed too loosely to be used as they are
_referencing: Any = import_module("referencing.jsonschema")

Schema: TypeAlias = Mapping[str, Any] | bool
_Keyword: TypeAlias = Callable[[Any, Any, Any, Any], Iterable[ValidationError] | None]


class BadSchemaError(ValueError):
    """A schema is none, or refers to what is not in it."""


class TooMuchWorkError(Exception):
    """A value would take more checks than are made."""


def check_schema(schema: Schema) -> None:
    """Check a schema, with all that it refers to; nothing is ever fetched.

    Args:
        schema: The schema. Without `$schema` it is of draft 2020-12.

    Raises:
        BadSchemaError: If it is of an unknown draft, is no schema of its draft, has a pattern that is none or
            a reference that leads out of it, or accepts every value, or none.
        RewardDefinitionError: If it has patterns and the package that searches for them is not there.
    """
    if isinstance(schema, bool) or not schema:
        raise BadSchemaError("the schema accepts every value, or none: it says nothing of an answer")
    _require_object(schema)
    try:
        if len(canonical_text(schema)) > MAX_SCHEMA_CHARACTERS:
            raise BadSchemaError(f"the schema has more than {MAX_SCHEMA_CHARACTERS} characters")
    except NotJSONError as error:
        raise BadSchemaError(f"the schema is no JSON: {error}") from None
    drafted: Any = (
        validator_for(schema, default=cast("Any", None)) if "$schema" in schema else Draft202012Validator
    )
    if drafted is None:
        raise BadSchemaError(f"the draft {schema['$schema']!r:.80} is not known")
    try:
        drafted.check_schema(schema, format_checker=_NO_FORMATS)
    except SchemaError as error:
        raise BadSchemaError(f"no schema: {error.message:.200}") from None
    _check_references(schema, str(drafted.META_SCHEMA["$schema"]))


def _require_object(given: object) -> None:
    if not isinstance(given, Mapping):
        raise BadSchemaError(f"a schema is an object or a truth value, not {given!r:.80}")


def find_violations(schema: Schema, value: Any) -> list[str]:
    """Return where a value is not as a schema wants it: up to 20 of `place: keyword`; empty if it is.

    Args:
        schema: Checked by `check_schema`.
        value: A JSON value whose numbers are ints and floats.

    Raises:
        TooMuchWorkError: If it takes more than 100,000 checks, or leads too deep.
        PatternTimeoutError: If a pattern was searched for too long.
    """
    drafted: Any = validator_for(schema, default=Draft202012Validator)
    rules = {**drafted.VALIDATORS, "uniqueItems": _unique_items, "multipleOf": _multiple_of}
    patterns = _Patterns()
    rules |= {"pattern": patterns.pattern, "patternProperties": patterns.pattern_properties}
    spent = _Spent()
    keywords = {name: spent.counted(rule) for name, rule in rules.items() if name in drafted.VALIDATORS}
    validator: Any = _validators.extend(drafted, validators=keywords)(
        schema, registry=_referencing.EMPTY_REGISTRY
    )
    found: list[str] = []
    try:
        for error in validator.iter_errors(value):
            found.append(f"{error.json_path}: {error.validator}")
            if len(found) == MAX_ERRORS:
                break
    except RecursionError:
        raise TooMuchWorkError("the schema leads deeper into itself than it is followed") from None
    return found


class _Spent:
    """Counts the keywords that are applied."""

    def __init__(self) -> None:
        self._left = MAX_CHECKS

    def counted(self, rule: _Keyword) -> _Keyword:
        def apply(
            validator: Any, wanted: Any, instance: Any, schema: Any
        ) -> Iterable[ValidationError] | None:
            self._left -= 1
            if self._left < 0:
                raise TooMuchWorkError(f"the value takes more than {MAX_CHECKS} checks")
            return rule(validator, wanted, instance, schema)

        return apply


class _Patterns:
    """The keywords that search, with the time for all of them."""

    def __init__(self) -> None:
        self._budget = PatternBudget()

    def pattern(self, validator: Any, wanted: str, instance: Any, _schema: Any) -> Iterator[ValidationError]:
        if not validator.is_type(instance, "string"):
            return
        if not self._budget.is_found(compile_pattern(wanted), instance):
            yield ValidationError("the pattern is not found")

    def pattern_properties(
        self, validator: Any, wanted: Mapping[str, Any], instance: Any, _schema: Any
    ) -> Iterator[ValidationError]:
        if not validator.is_type(instance, "object"):
            return
        for pattern, subschema in wanted.items():
            compiled = compile_pattern(pattern)
            for name, value in instance.items():
                if self._budget.is_found(compiled, name):
                    yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _unique_items(validator: Any, wanted: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if wanted and validator.is_type(instance, "array"):
        texts = {canonical_text(item) for item in instance}
        if len(texts) < len(instance):
            yield ValidationError("an item stands twice")


def _multiple_of(validator: Any, wanted: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if validator.is_type(instance, "number") and Fraction(repr(instance)) % Fraction(repr(wanted)):
        yield ValidationError("no multiple")


def _check_references(schema: Schema, draft: str) -> None:
    """Resolve every reference now, so that whether a schema is good does not depend on the answer."""
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
