"""The checker of JSON Schema: agrees with the package jsonschema on random schemas, and is the only one."""

import json
import random
import re
from pathlib import Path

import jsonschema
import pytest
from jsonschema.validators import validator_for

import ors_server
from ors_server.json_schemas import BadSchemaError, SchemaChecker, TooMuchWorkError, check_schema
from ors_server.json_schemas.check_run import MAX_VIOLATIONS
from ors_server.json_schemas.linear_patterns import LinearPatterns

DRAFTS = {
    4: "http://json-schema.org/draft-04/schema#",
    6: "http://json-schema.org/draft-06/schema#",
    7: "http://json-schema.org/draft-07/schema#",
    2019: "https://json-schema.org/draft/2019-09/schema",
    2020: "https://json-schema.org/draft/2020-12/schema",
}
PATTERNS = ("^a", "b$", "[0-9]")
NAMES = ["a", "b", "ab", "c1"]
SCALARS = [None, True, False, 0, 1, 1.0, 2, -3, 0.5, 1e300, "", "a", "ab", "1"]


class Generator:
    """Random schemas of one draft, and values that often fit them."""

    def __init__(self, draft, seed):
        self.draft = draft
        self.random = random.Random(seed)  # noqa: S311
        makers = {
            **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), self.count),
            **dict.fromkeys(("minProperties", "maxProperties"), self.count),
            **dict.fromkeys(("minimum", "maximum"), self.number),
            **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum"), self.exclusive),
            **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), self.schemas),
            **dict.fromkeys(("additionalProperties", "propertyNames", "contains", "not", "if"), self.schema),
            **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties", "additionalItems"), self.schema),
            **dict.fromkeys(("properties", "dependentSchemas"), self.named),
            "items": self.items,
            "type": self.type,
            "enum": lambda _depth: self.distinct(),
            "const": lambda _depth: self.value(1),
            "multipleOf": lambda _depth: self.random.choice([1, 2, 0.5]),
            "pattern": lambda _depth: self.random.choice(PATTERNS),
            "patternProperties": lambda depth: self.named(depth, PATTERNS),
            "uniqueItems": lambda _depth: True,
            "required": lambda _depth: self.names(),
            "dependentRequired": lambda _depth: {name: self.names() for name in self.names()},
            "dependencies": self.dependencies,
            "$ref": lambda _depth: f"#/definitions/{self.random.choice('xy')}",
        }
        words = set(validator_for({"$schema": DRAFTS[draft]}).VALIDATORS)
        if draft == 2019:
            words -= {"unevaluatedItems"}  # jsonschema counts contains, which only 2020-12 does
        self.makers = {word: make for word, make in makers.items() if word in words}

    def value(self, depth=3):
        kind = self.random.random()
        if not depth or kind < 0.4:
            return self.random.choice(SCALARS)
        if kind < 0.7:
            return [self.value(depth - 1) for _ in range(self.random.randrange(4))]
        names = self.random.sample(NAMES, self.random.randrange(4))
        return {name: self.value(depth - 1) for name in names}

    def schema(self, depth=3):
        if self.draft > 4 and self.random.random() < 0.1:
            return self.random.random() < 0.7
        return self.object(depth)

    def object(self, depth=3):
        words = self.random.sample(sorted(self.makers), self.random.randrange(4))
        return {word: self.makers[word](depth - 1) for word in words if depth or word not in NESTED}

    def document(self):
        schema = {
            "type": ["object", "array", "string", "number"],
            **self.object(),
            "$schema": DRAFTS[self.draft],
        }
        schema["definitions"] = {"x": self.schema(1), "y": self.schema(1)}
        return schema

    def schemas(self, depth):
        return [self.schema(depth) for _ in range(self.random.randrange(1, 4))]

    def named(self, depth, names=tuple(NAMES)):
        return {name: self.schema(depth) for name in self.random.sample(names, self.random.randrange(1, 3))}

    def names(self):
        return self.random.sample(NAMES, self.random.randrange(1, 3))

    def number(self, _depth):
        return self.random.choice([0, 1, 2, 0.5])

    def count(self, _depth):
        return self.random.randrange(3)

    def exclusive(self, depth):
        return self.random.random() < 0.5 if self.draft == 4 else self.number(depth)

    def items(self, depth):
        return self.schemas(depth) if self.draft < 2020 and self.random.random() < 0.5 else self.schema(depth)

    def type(self, _depth):
        kinds = ["array", "boolean", "integer", "null", "number", "object", "string"]
        return self.random.choice([self.random.choice(kinds), self.random.sample(kinds, 2)])

    def distinct(self):
        values = [self.value(1) for _ in range(3)]
        return [value for index, value in enumerate(values) if value not in values[:index]]

    def dependencies(self, depth):
        return {name: self.random.choice([self.names(), self.schema(depth)]) for name in self.names()}


NESTED = {
    "allOf", "anyOf", "oneOf", "prefixItems", "items", "additionalProperties", "propertyNames", "contains",
    "not", "if", "unevaluatedItems", "unevaluatedProperties", "additionalItems", "properties",
    "dependentSchemas", "patternProperties", "dependencies", "$ref",
}  # fmt: skip


def completed(schema):
    """Add the keywords that count only beside another: `then`, `minContains`, a limit that is made strict."""
    if isinstance(schema, list):
        return [completed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {name: completed(part) for name, part in schema.items()}
    if isinstance(schema.get("if"), bool | dict):
        schema |= {"then": {"required": ["a"]}, "else": {"maxProperties": 1}}
    if isinstance(schema.get("items"), bool):
        schema.pop("additionalItems", None)  # jsonschema asks for the length of `true`
    for strict, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(strict), bool):
            schema.setdefault(limit, 1)
    return schema


@pytest.mark.parametrize("draft", DRAFTS)
def test_random_schemas_accept_what_the_package_jsonschema_accepts(draft):
    generator = Generator(draft, seed=draft)
    accepted = refused = 0
    while accepted + refused < 1_500:
        schema = completed(generator.document())
        validator = validator_for(schema)
        try:
            validator.check_schema(schema)
        except jsonschema.SchemaError:
            with pytest.raises(BadSchemaError):
                check_schema(schema)
            continue
        checker = SchemaChecker(schema)
        for _ in range(8):
            value = generator.value()
            try:
                expected = validator(schema).is_valid(value)
                violations = checker.violations(value)
            except (RecursionError, TooMuchWorkError):
                break  # a circle of references
            assert bool(violations) != expected, (json.dumps(schema), json.dumps(value), violations)
            accepted, refused = accepted + expected, refused + (not expected)
    assert min(accepted, refused) > 200


DYNAMIC = {
    "$id": "https://example.org/strict",
    "$dynamicAnchor": "node",
    "$ref": "tree",
    "unevaluatedProperties": False,
    "$defs": {
        "tree": {
            "$id": "tree",
            "$dynamicAnchor": "node",
            "type": "object",
            "properties": {"data": True, "children": {"items": {"$dynamicRef": "#node"}}},
        }
    },
}


def test_a_dynamic_reference_leads_to_the_outermost_anchor():
    checker = SchemaChecker(DYNAMIC)
    assert not checker.violations({"children": [{"data": 1}]})
    (violation,) = checker.violations({"children": [{"daat": 1}]})
    assert (violation.place, violation.keyword) == ("$.children[0]", "unevaluatedProperties")


@pytest.mark.parametrize("schema", [{"$ref": "#"}, {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}], ids=str)
def test_a_circle_ends(schema):
    with pytest.raises(TooMuchWorkError):
        SchemaChecker(schema).violations(1)


def test_a_place_that_only_a_reference_reaches_is_checked_as_a_schema():
    with pytest.raises(BadSchemaError, match="not a valid schema"):
        SchemaChecker({"$ref": "#/words/0", "words": [{"required": "abc"}]})
    assert SchemaChecker({"$ref": "#/words/0", "words": [{"required": ["a"]}]}).violations({})


def test_a_report_is_short_whatever_the_value():
    checker = SchemaChecker({"items": {"type": "integer"}, "properties": {"x": {"maxLength": 1}}})
    violations = checker.violations(["y" * 1_000_000] * 100)
    assert len(violations) == MAX_VIOLATIONS
    assert max(len(violation.message) for violation in violations) < 200
    (long,) = SchemaChecker({"additionalProperties": {"type": "null"}}).violations({"x" * 100_000: 1})
    assert len(long.place) < 200


@pytest.mark.parametrize(
    ("pattern", "length", "is_dear"),
    [
        ("^[a-z]+$", 4_000, False),
        ("^.{1,4000}$", 4_000, False),
        ("^([0-9a-f]{8})-([0-9a-f]{4}-){3}[0-9a-f]{12}$", 36, False),
        ("([ab]{1,100}){1,100}c", 1_000, True),
        ("[ab]{1,1000}c", 10_000, True),
    ],
)
def test_a_pattern_costs_steps_by_the_states_that_it_may_be_in(pattern, length, is_dear):
    patterns = LinearPatterns()
    assert (patterns.cost(patterns.compile(pattern), "a" * length) > 100_000) == is_dear


def test_one_package_checks_json_schema():
    package = Path(ors_server.__file__).parent
    imports = re.compile(r"^\s*(?:import|from) (?:jsonschema|referencing)\b", re.MULTILINE)
    importers = {
        path.relative_to(package).parts[0]
        for path in package.rglob("*.py")
        if imports.search(path.read_text())
    }
    assert importers == {"json_schemas"}
