"""The keywords of JSON Schema, drafts 4 to 2020-12, each as a maker of a check.

A maker gets the keyword's value, which the meta-schema has accepted, and the schema around it. It returns a
check of an instance, or `None` if nothing is to be checked. A check tells whether the instance is valid,
notes violations in the run, and adds to `marks` what it evaluated. Invariants: it counts its steps before
it takes them; what it does for one step does not grow with the value; a message shows a few characters of
the value.
"""

from collections.abc import Callable, Iterable, Mapping
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Any, Protocol, TypeAlias

from ors_server.json_schemas.check_run import (
    MAX_SCHEMA_CHECKS,
    NAMES_PER_CHECK,
    CheckRun,
    Marks,
    Path,
    Shown,
    ShownNames,
)
from ors_server.json_schemas.linear_patterns import LinearPatterns
from ors_server.model.json_values import is_array, is_object

Check: TypeAlias = Callable[[CheckRun, Any, Path, Marks], bool]
Schema: TypeAlias = Mapping[str, Any]


class SubschemaChecker(Protocol):
    """A compiled schema within a schema."""

    @property
    def is_false(self) -> bool:
        """Whether it is the schema `false`."""
        ...

    def accepts(self, run: CheckRun, instance: Any, path: Path, marks: Marks, /) -> bool:
        """Check an instance."""
        ...


class KeywordContext(Protocol):
    """What a maker may ask the compiler for."""

    @property
    def draft(self) -> int:
        """Return the draft: 4, 6, 7, 2019 or 2020."""
        ...

    def subschema(self, schema: Any, /) -> SubschemaChecker:
        """Compile a schema within the one at hand."""
        ...

    def referenced(self, reference: str, /) -> SubschemaChecker:
        """Compile the schema that `$ref` names."""
        ...

    def dynamic(self, reference: str, /) -> SubschemaChecker:
        """Compile the schema that `$dynamicRef` or `$recursiveRef` names."""
        ...

    def pattern(self, pattern: str, /) -> Any:
        """Compile a pattern."""
        ...


_EXACT = Context(prec=4_000, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
"""Has digits for any quotient: of a double, whose exponent is at most 324, or an integer of 1,233 digits."""
_CHECKS_OF_DIVISION = 4

Maker: TypeAlias = Callable[[KeywordContext, Any, Schema], Check | None]


def _is_number(value: Any) -> bool:
    # What JSON has besides numbers, for a number may be an int, a float or a Decimal.
    return not (value is None or isinstance(value, bool | str) or is_array(value) or is_object(value))


def _is_integer(value: Any) -> bool:
    if isinstance(value, int):
        return not isinstance(value, bool)
    return _is_number(value) and bool(value == value // 1)


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "array": is_array,
    "boolean": lambda value: isinstance(value, bool),
    "integer": _is_integer,
    "null": lambda value: value is None,
    "number": _is_number,
    "object": is_object,
    "string": lambda value: isinstance(value, str),
}


def _is_valid(subschema: SubschemaChecker, run: CheckRun, instance: Any, marks: Marks = None) -> bool:
    """Whether an instance is valid, without a note; marks what was evaluated only if it is."""
    branch: Marks = None if marks is None else set()
    run.quiet += 1
    is_valid = subschema.accepts(run, instance, None, branch)
    run.quiet -= 1
    if is_valid and marks is not None and branch:
        run.spend(len(branch) // NAMES_PER_CHECK)
        marks |= branch
    return is_valid


def _type(context: KeywordContext, types: Any, _schema: Schema) -> Check:
    names: list[str] = [types] if isinstance(types, str) else list(types)
    known = dict(_TYPES)
    if context.draft == 4:  # noqa: PLR2004  (1.0 is an integer since draft 6)
        known["integer"] = lambda value: isinstance(value, int) and not isinstance(value, bool)
    tests = [known[name] for name in names if name in known]
    expected = ", ".join(map(repr, names))

    def check(run: CheckRun, instance: Any, path: Path, _marks: Marks) -> bool:
        for test in tests:
            if test(instance):
                return True
        return run.fail(path, "type", Shown(instance), " is not of type ", expected)

    return check


def _equals(keyword: str, values: Iterable[Any], explain: str) -> Check:
    """Compare with keys: the values' are computed once, so that their number costs nothing."""
    key_of = CheckRun(LinearPatterns(), MAX_SCHEMA_CHECKS).key_of
    keys = {key_of(value) for value in values}
    has_containers = any(isinstance(key, tuple) for key in keys)

    def check(run: CheckRun, instance: Any, path: Path, _marks: Marks) -> bool:
        is_comparable = has_containers or not (is_array(instance) or is_object(instance))
        if is_comparable and run.key_of(instance) in keys:
            return True
        return run.fail(path, keyword, Shown(instance), explain)

    return check


def _limit(
    keyword: str, is_met: Callable[[Any, Any], bool], words: str, *, measured: str = "number"
) -> Maker:
    """A limit of a number, or of the length of a text, an array or an object."""
    is_type = _TYPES[measured]

    def make(_context: KeywordContext, limit: Any, _schema: Schema) -> Check:
        def check(run: CheckRun, instance: Any, path: Path, _marks: Marks) -> bool:
            if not is_type(instance):
                return True
            value = instance if measured == "number" else len(instance)
            return is_met(value, limit) or run.fail(path, keyword, Shown(instance), words, limit)

        return check

    return make


def _at_least(value: Any, limit: Any) -> bool:
    return bool(value >= limit)


def _at_most(value: Any, limit: Any) -> bool:
    return bool(value <= limit)


def _above(value: Any, limit: Any) -> bool:
    return bool(value > limit)


def _below(value: Any, limit: Any) -> bool:
    return bool(value < limit)


_LESS, _GREATER = " is less than the minimum of ", " is greater than the maximum of "
_NOT_ABOVE, _NOT_BELOW = (
    " is less than or equal to the minimum of ",
    " is greater than or equal to the maximum of ",
)


def _draft_4_limit(keyword: str, exclusive: str, plain: Maker, strict: Maker) -> Maker:
    """In draft 4, `exclusiveMinimum: true` makes `minimum` strict."""

    def make(context: KeywordContext, limit: Any, schema: Schema) -> Check | None:
        is_strict = context.draft == 4 and schema.get(exclusive) is True  # noqa: PLR2004  (a draft)
        return (strict if is_strict else plain)(context, limit, schema)

    make.__name__ = keyword
    return make


def _multiple_of(_context: KeywordContext, factor: Any, _schema: Schema) -> Check:
    """Divide exactly, by the decimal digits that a number is written with: 0.3 is a multiple of 0.1."""

    def check(run: CheckRun, instance: Any, path: Path, _marks: Marks) -> bool:
        if not _is_number(instance):
            return True
        if isinstance(instance, int) and isinstance(factor, int):
            rest: Any = instance % factor
        else:
            run.spend(_CHECKS_OF_DIVISION)
            rest = _EXACT.remainder(_decimal(instance), _decimal(factor))
        return not rest or run.fail(path, "multipleOf", Shown(instance), " is not a multiple of ", factor)

    return check


def _decimal(number: Any) -> Decimal:
    return Decimal(number) if isinstance(number, int) else Decimal(str(number))


def _pattern(context: KeywordContext, pattern: Any, _schema: Schema) -> Check:
    compiled = context.pattern(pattern)

    def check(run: CheckRun, instance: Any, path: Path, _marks: Marks) -> bool:
        if not isinstance(instance, str) or run.is_found(compiled, instance):
            return True
        return run.fail(path, "pattern", Shown(instance), " does not match ", Shown(pattern))

    return check


def _unique_items(_context: KeywordContext, is_unique: Any, _schema: Schema) -> Check | None:
    if not is_unique:
        return None

    def check(run: CheckRun, instance: Any, path: Path, _marks: Marks) -> bool:
        if not is_array(instance):
            return True
        if len({run.key_of(item) for item in instance}) == len(instance):
            return True
        return run.fail(path, "uniqueItems", Shown(instance), " has non-unique elements")

    return check


def _accept_items(
    run: CheckRun, subschema: SubschemaChecker, instance: Any, start: int, path: Path, marks: Marks
) -> bool:
    is_valid = True
    for index in range(start, len(instance)):
        if not subschema.accepts(run, instance[index], (path, index), None):
            is_valid = False
            if run.quiet:
                break
    if marks is not None:
        marks.update(range(start, len(instance)))
    return is_valid


def _rest_of_items(keyword: str, subschema: SubschemaChecker, start: int) -> Check:
    def check(run: CheckRun, instance: Any, path: Path, marks: Marks) -> bool:
        if not is_array(instance) or len(instance) <= start:
            return True
        if subschema.is_false:
            return run.fail(path, keyword, "expected at most ", start, " items, got ", len(instance))
        return _accept_items(run, subschema, instance, start, path, marks)

    return check


def _first_items(context: KeywordContext, schemas: Any, _schema: Schema) -> Check:
    subschemas = [context.subschema(schema) for schema in schemas]

    def check(run: CheckRun, instance: Any, path: Path, marks: Marks) -> bool:
        if not is_array(instance):
            return True
        is_valid = True
        for index, (item, subschema) in enumerate(zip(instance, subschemas, strict=False)):
            is_valid &= subschema.accepts(run, item, (path, index), None)
        if marks is not None:
            marks.update(range(min(len(instance), len(subschemas))))
        return is_valid

    return check


def _items(context: KeywordContext, items: Any, schema: Schema) -> Check:
    if is_array(items):  # up to draft 2019-09: a schema for each of the first items
        return _first_items(context, items, schema)
    start = len(schema.get("prefixItems", ())) if context.draft == 2020 else 0  # noqa: PLR2004  (a draft)
    return _rest_of_items("items", context.subschema(items), start)


def _additional_items(context: KeywordContext, additional: Any, schema: Schema) -> Check | None:
    items = schema.get("items")
    if not is_array(items):
        return None
    return _rest_of_items("additionalItems", context.subschema(additional), len(items or ()))


def _contains(context: KeywordContext, contained: Any, schema: Schema) -> Check:
    subschema = context.subschema(contained)
    counts = context.draft >= 2019  # noqa: PLR2004  (a draft)
    at_least = schema.get("minContains", 1) if counts else 1
    at_most = schema.get("maxContains") if counts else None
    evaluates = context.draft == 2020  # noqa: PLR2004  (a draft)

    def check(run: CheckRun, instance: Any, path: Path, marks: Marks) -> bool:
        if not is_array(instance):
            return True
        count = 0
        for index, item in enumerate(instance):
            if _is_valid(subschema, run, item):
                count += 1
                if evaluates and marks is not None:
                    marks.add(index)
        if count < at_least:
            words = f" has {count} items that the schema of contains accepts, expected at least {at_least}"
            return run.fail(path, "contains", Shown(instance), words)
        if at_most is not None and count > at_most:
            words = f" has {count} items that the schema of contains accepts, expected at most {at_most}"
            return run.fail(path, "contains", Shown(instance), words)
        return True

    return check


def _unevaluated_items(context: KeywordContext, unevaluated: Any, _schema: Schema) -> Check:
    subschema = context.subschema(unevaluated)

    def check(run: CheckRun, instance: Any, path: Path, marks: Marks) -> bool:
        if not is_array(instance) or marks is None:
            return True
        rest = [index for index in range(len(instance)) if index not in marks]
        run.spend(len(instance) // NAMES_PER_CHECK)
        marks.update(rest)
        for index in rest:
            if not _is_valid(subschema, run, instance[index]):
                return run.fail(path, "unevaluatedItems", "the item ", index, " is not expected")
        return True

    return check


def _properties(context: KeywordContext, properties: Any, _schema: Schema) -> Check:
    subschemas = {name: context.subschema(schema) for name, schema in properties.items()}

    def check(run: CheckRun, instance: Any, path: Path, marks: Marks) -> bool:
        if not is_object(instance):
            return True
        names = subschemas if len(subschemas) <= len(instance) else instance
        run.spend(len(names) // NAMES_PER_CHECK)
        is_valid = True
        for name in names:
            if name in instance and name in subschemas:
                is_valid &= subschemas[name].accepts(run, instance[name], (path, name), None)
                if marks is not None:
                    marks.add(name)
        return is_valid

    return check


def _pattern_properties(context: KeywordContext, patterns: Any, _schema: Schema) -> Check:
    subschemas = [
        (context.pattern(pattern), context.subschema(schema)) for pattern, schema in patterns.items()
    ]

    def check(run: CheckRun, instance: Any, path: Path, marks: Marks) -> bool:
        if not is_object(instance):
            return True
        is_valid = True
        for compiled, subschema in subschemas:
            for name, value in instance.items():
                if run.is_found(compiled, name):
                    is_valid &= subschema.accepts(run, value, (path, name), None)
                    if marks is not None:
                        marks.add(name)
        return is_valid

    return check


def _additional_properties(context: KeywordContext, additional: Any, schema: Schema) -> Check:
    subschema = context.subschema(additional)
    names = frozenset(schema.get("properties", ()))
    patterns = [context.pattern(pattern) for pattern in schema.get("patternProperties", ())]

    def is_additional(run: CheckRun, name: str) -> bool:
        return name not in names and not any(run.is_found(pattern, name) for pattern in patterns)

    def check(run: CheckRun, instance: Any, path: Path, marks: Marks) -> bool:
        if not is_object(instance):
            return True
        run.spend(len(instance) // NAMES_PER_CHECK)
        extras = [name for name in instance if is_additional(run, name)]
        if extras and subschema.is_false:
            words = " was unexpected" if len(extras) == 1 else " were unexpected"
            return run.fail(
                path, "additionalProperties", "additional properties: ", ShownNames(extras), words
            )
        is_valid = True
        for name in extras:
            is_valid &= subschema.accepts(run, instance[name], (path, name), None)
        if marks is not None:
            marks.update(extras)
        return is_valid

    return check


def _property_names(context: KeywordContext, names: Any, _schema: Schema) -> Check:
    subschema = context.subschema(names)

    def check(run: CheckRun, instance: Any, path: Path, _marks: Marks) -> bool:
        if not is_object(instance):
            return True
        is_valid = True
        for name in instance:
            if not _is_valid(subschema, run, name):
                is_valid = run.fail(path, "propertyNames", "the name ", Shown(name), " is not allowed")
        return is_valid

    return check


def _unevaluated_properties(context: KeywordContext, unevaluated: Any, _schema: Schema) -> Check:
    subschema = context.subschema(unevaluated)

    def check(run: CheckRun, instance: Any, path: Path, marks: Marks) -> bool:
        if not is_object(instance) or marks is None:
            return True
        rest = [name for name in instance if name not in marks]
        run.spend(len(instance) // NAMES_PER_CHECK)
        marks.update(rest)
        extras = [name for name in rest if not _is_valid(subschema, run, instance[name])]
        if not extras:
            return True
        words = " was unexpected" if len(extras) == 1 else " were unexpected"
        return run.fail(path, "unevaluatedProperties", "unevaluated properties: ", ShownNames(extras), words)

    return check


def _required(_context: KeywordContext, names: Any, _schema: Schema) -> Check:
    required = list(names)

    def check(run: CheckRun, instance: Any, path: Path, _marks: Marks) -> bool:
        if not is_object(instance):
            return True
        run.spend(len(required) // NAMES_PER_CHECK)
        is_valid = True
        for name in required:
            if name not in instance:
                is_valid = run.fail(path, "required", Shown(name), " is a required property")
        return is_valid

    return check


def _dependent_required(keyword: str) -> Maker:
    def make(_context: KeywordContext, dependencies: Any, _schema: Schema) -> Check:
        def check(run: CheckRun, instance: Any, path: Path, _marks: Marks) -> bool:
            if not is_object(instance):
                return True
            run.spend(len(dependencies) // NAMES_PER_CHECK)
            is_valid = True
            for name, required in dependencies.items():
                if name in instance:
                    run.spend(1 + len(required) // NAMES_PER_CHECK)
                    missing = [other for other in required if other not in instance]
                    if missing:
                        words = " is a dependency of "
                        is_valid = run.fail(path, keyword, ShownNames(missing), words, Shown(name))
            return is_valid

        return check

    return make


def _dependent_schemas(context: KeywordContext, dependencies: Any, _schema: Schema) -> Check:
    subschemas = {name: context.subschema(schema) for name, schema in dependencies.items()}

    def check(run: CheckRun, instance: Any, path: Path, marks: Marks) -> bool:
        if not is_object(instance):
            return True
        run.spend(len(subschemas) // NAMES_PER_CHECK)
        is_valid = True
        for name, subschema in subschemas.items():
            if name in instance:
                is_valid &= subschema.accepts(run, instance, path, marks)
        return is_valid

    return check


def _dependencies(context: KeywordContext, dependencies: Any, schema: Schema) -> Check:
    """Up to draft 7: names that are required, or a schema, in one keyword."""
    required = {name: names for name, names in dependencies.items() if is_array(names)}
    schemas = {name: part for name, part in dependencies.items() if name not in required}
    check_required = _dependent_required("dependencies")(context, required, schema)
    check_schemas = _dependent_schemas(context, schemas, schema)

    def check(run: CheckRun, instance: Any, path: Path, marks: Marks) -> bool:
        is_valid = check_required is None or check_required(run, instance, path, marks)
        return check_schemas(run, instance, path, marks) and is_valid

    return check


def _all_of(context: KeywordContext, schemas: Any, _schema: Schema) -> Check:
    subschemas = [context.subschema(schema) for schema in schemas]

    def check(run: CheckRun, instance: Any, path: Path, marks: Marks) -> bool:
        is_valid = True
        for subschema in subschemas:
            is_valid &= subschema.accepts(run, instance, path, marks)
            if run.quiet and not is_valid:
                break
        return is_valid

    return check


def _any_of(context: KeywordContext, schemas: Any, _schema: Schema) -> Check:
    subschemas = [context.subschema(schema) for schema in schemas]

    def check(run: CheckRun, instance: Any, path: Path, marks: Marks) -> bool:
        is_valid = False
        for subschema in subschemas:
            if _is_valid(subschema, run, instance, marks):
                is_valid = True
                if marks is None:
                    break
        return is_valid or run.fail(
            path, "anyOf", Shown(instance), " is not valid under any of the given schemas"
        )

    return check


def _one_of(context: KeywordContext, schemas: Any, _schema: Schema) -> Check:
    subschemas = [context.subschema(schema) for schema in schemas]

    def check(run: CheckRun, instance: Any, path: Path, marks: Marks) -> bool:
        count = 0
        for subschema in subschemas:
            if _is_valid(subschema, run, instance, marks):
                count += 1
                if count > 1:
                    words = " is valid under more than one of the given schemas"
                    return run.fail(path, "oneOf", Shown(instance), words)
        return count == 1 or run.fail(
            path, "oneOf", Shown(instance), " is not valid under any of the given schemas"
        )

    return check


def _not(context: KeywordContext, schema: Any, _schema: Schema) -> Check:
    subschema = context.subschema(schema)

    def check(run: CheckRun, instance: Any, path: Path, _marks: Marks) -> bool:
        if not _is_valid(subschema, run, instance):
            return True
        return run.fail(path, "not", Shown(instance), " should not be valid under the schema of not")

    return check


def _if(context: KeywordContext, condition: Any, schema: Schema) -> Check:
    subschema = context.subschema(condition)
    then = context.subschema(schema["then"]) if "then" in schema else None
    otherwise = context.subschema(schema["else"]) if "else" in schema else None

    def check(run: CheckRun, instance: Any, path: Path, marks: Marks) -> bool:
        branch = then if _is_valid(subschema, run, instance, marks) else otherwise
        return branch is None or branch.accepts(run, instance, path, marks)

    return check


def _dynamic_ref(context: KeywordContext, reference: Any, _schema: Schema) -> Check:
    return context.dynamic(reference).accepts


MAKERS: Mapping[str, Maker] = {
    "$ref": lambda context, reference, _schema: context.referenced(reference).accepts,
    "$dynamicRef": _dynamic_ref,
    "$recursiveRef": _dynamic_ref,
    "type": _type,
    "enum": lambda _context, values, _schema: _equals(
        "enum", values, f" is not one of {Shown(list(values))}"
    ),
    "const": lambda _context, value, _schema: _equals(
        "const", [value], f" is not {Shown(value)}, which was expected"
    ),
    "minimum": _draft_4_limit(
        "minimum",
        "exclusiveMinimum",
        _limit("minimum", _at_least, _LESS),
        _limit("minimum", _above, _NOT_ABOVE),
    ),
    "maximum": _draft_4_limit(
        "maximum",
        "exclusiveMaximum",
        _limit("maximum", _at_most, _GREATER),
        _limit("maximum", _below, _NOT_BELOW),
    ),
    "exclusiveMinimum": _limit("exclusiveMinimum", _above, _NOT_ABOVE),
    "exclusiveMaximum": _limit("exclusiveMaximum", _below, _NOT_BELOW),
    "multipleOf": _multiple_of,
    "minLength": _limit("minLength", _at_least, " is shorter than ", measured="string"),
    "maxLength": _limit("maxLength", _at_most, " is longer than ", measured="string"),
    "pattern": _pattern,
    "minItems": _limit("minItems", _at_least, " has fewer items than ", measured="array"),
    "maxItems": _limit("maxItems", _at_most, " has more items than ", measured="array"),
    "uniqueItems": _unique_items,
    "prefixItems": _first_items,
    "items": _items,
    "additionalItems": _additional_items,
    "contains": _contains,
    "minProperties": _limit("minProperties", _at_least, " has fewer properties than ", measured="object"),
    "maxProperties": _limit("maxProperties", _at_most, " has more properties than ", measured="object"),
    "required": _required,
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "propertyNames": _property_names,
    "dependentRequired": _dependent_required("dependentRequired"),
    "dependentSchemas": _dependent_schemas,
    "dependencies": _dependencies,
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "if": _if,
    "unevaluatedItems": _unevaluated_items,
    "unevaluatedProperties": _unevaluated_properties,
}
"""In the order in which a schema's keywords are applied: what is unevaluated is known at the end."""
UNEVALUATED = ("unevaluatedItems", "unevaluatedProperties")
