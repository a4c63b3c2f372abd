"""JSON answers: strict reading, schemas without a network, values field by field."""

import json
import math
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from ors_server.json_schemas import SchemaChecker
from ors_server.model.json_values import (
    NotJSONError,
    canonical_hash,
    canonical_text,
    same_values,
)
from ors_server.rewards.catalogue import find_reward
from ors_server.rewards.reading.json_text import JSONTextError, parse_json
from ors_server.rewards.scoring import score
from ors_server.rewards.structures import json_schema
from ors_server.rewards.structures.json_match import compare_values
from ors_server.rewards.structures.structured import json_match_reward, json_schema_reward, json_valid_reward
from tests.fixtures.case_tables import tables

TABLES = tables("structured")

VALID = [
    "{}",
    " null\n",
    '"text"',
    "[1, -0.5, 1e3, true]",
    '{"a": {"a": 1}}',
    '"\\ud83d\\ude00"',
    "[" * 100 + "]" * 100,
    "1" * 308,
    '"[[[[{{{{"',
]
INVALID = {
    "": "Expecting value",
    "NaN": "NaN",
    "[Infinity]": "Infinity",
    "-Infinity": "-Infinity",
    '{"a": 1, "a": 1}': "twice",
    '{"b": {"a": 1, "a": 2}}': "twice",
    "[" * 100_000: "nested",
    '{"a":' * 100_000 + "1" + "}" * 100_000: "nested",
    "1" * 100_000: "characters",
    "1" * 310: "range of a double",
    "1e400": "range of a double",
    "[1] [2]": "Extra data",
    "{'a': 1}": "not JSON",
    "[1,]": "not JSON",
    "01": "Extra data",
    "// no\n1": "not JSON",
    '"\\ud800"': "surrogate",
    '{"\\udfff": 1}': "surrogate",
    '"\ud800"': "surrogate",
    "\ufeff1": "BOM",
    '"' + '\\"' * 100_000: "Unterminated",
    "yes": "Expecting value",
    "```json\n1\n```": "Expecting value",
    " " * 1_000_001: "at most 1000000",
}


@pytest.mark.parametrize("text", VALID, ids=lambda text: text[:12])
def test_json_is_paid(text):
    assert score(json_valid_reward, final_response=text).reward == 1.0


@pytest.mark.parametrize("text", INVALID, ids=lambda text: f"{text[:12]!a} {len(text)}")
def test_what_is_not_strict_json_is_read_by_nobody(text):
    result = score(json_valid_reward, final_response=text)
    assert (result.status, result.reward) == ("unparsed_answer", 0.0)
    assert INVALID[text] in str(result.reason)


@pytest.mark.parametrize(("response", "count"), TABLES["fenced"])
def test_a_fenced_answer_is_the_only_block(response, count):
    result = score(json_match_reward, final_response=response, answer=[1], extract="fenced")
    assert result.reward == float(count == 1)
    if count != 1:
        assert result.status == "unparsed_answer"
        assert f"found {count}" in str(result.reason)


OBJECT = {
    "type": "object",
    "properties": {"a": {"type": "integer", "multipleOf": 3}, "b": {"pattern": "^x+$"}},
    "required": ["a"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("schema", "text", "violations"),
    [
        (OBJECT, '{"a": 3}', []),
        (OBJECT, '{"a": 6.0, "b": "xx"}', []),
        (OBJECT, '{"a": "3", "c": 1}', ["$.a: type", "$: additionalProperties"]),
        (OBJECT, '{"a": 4, "b": "y"}', ["$.a: multipleOf", "$.b: pattern"]),
        (OBJECT, "{}", ["$: required"]),
        (OBJECT, "[]", ["$: type"]),
        ({"multipleOf": 0.1}, "0.3", []),
        ({"multipleOf": 0.01}, "1e308", []),
        ({"type": "integer"}, "true", ["$: type"]),
        ({"uniqueItems": True}, "[1, 1.0]", ["$: uniqueItems"]),
        ({"uniqueItems": True}, "[1, true, null, 0, false, {}]", []),
        ({"patternProperties": {"^n_": {"type": "null"}}}, '{"n_a": 1, "m": 1}', ["$.n_a: type"]),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "type": "null"}, "null", []),
        (
            {"$ref": "#/$defs/q", "$defs": {"q": {"$id": "http://in.side/q", "type": "null"}}},
            "1",
            ["$: type"],
        ),
        ('{"type": "null"}', "null", []),
        ({"type": "null"}, "nul", None),
    ],
)
def test_a_schema_accepts_or_names_the_places(schema, text, violations):
    result = score(json_schema_reward, final_response=text, schema=schema)
    if violations is None:
        assert (result.status, result.reward) == ("unparsed_answer", 0.0)
        return
    assert result.reward == float(not violations)
    assert sorted(result.extras["violations"]) == violations


@pytest.mark.parametrize(
    "schema",
    [
        {},
        True,
        False,
        "{",
        1,
        "1.5",
        ["type"],
        {"type": "strin"},
        {"pattern": "("},
        {"pattern": "[["},  # of which `re` warns, and warnings are errors here
        {"patternProperties": {"(": {}}},
        {"$schema": "http://example.invalid/mine"},
        {"$ref": "#/nowhere"},
        {"properties": {"never_asked_for": {"$ref": "other.json"}}},
        {"properties": {"a": {"items": {"$dynamicRef": "https://example.invalid/x"}}}},
        {"enum": {math.nan}},
        {"const": math.nan},
    ],
    ids=str,
)
@pytest.mark.parametrize("response", ["{}", "nonsense"])
def test_a_bad_schema_is_a_bad_gold_whatever_the_answer(schema, response):
    result = score(json_schema_reward, final_response=response, schema=schema)
    assert (result.status, result.reward) == ("bad_gold", None)


def test_no_reference_is_fetched():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        port = server.getsockname()[1]
        for place in (f"http://127.0.0.1:{port}/s.json", f"http://127.0.0.1:{port}/s.json#/a"):
            for schema in ({"$ref": place}, {"$id": place, "properties": {"a": {"$ref": f"{place}x"}}}):
                assert (
                    score(json_schema_reward, final_response='{"a": 1}', schema=schema).status == "bad_gold"
                )
        with pytest.raises(BlockingIOError):
            server.accept()


def doubled(levels):
    steps = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/a0", "$defs": {**steps, f"a{levels}": {"type": "null"}}}


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"pattern": "^(a|aa)+$"}, '"' + "a" * 300 + '!"'),
        ({"items": {"type": "integer"}}, json.dumps([1] * 490_000, separators=(",", ":"))),
        ({"items": {"$ref": "#"}, "minItems": 0}, "[" * 99 + "]" * 99),
    ],
    ids=["pattern", "many", "deep"],
)
def test_an_answer_that_takes_too_much_work_is_wrong_or_judged(schema, text):
    result = score(json_schema_reward, final_response=text, schema=schema)
    assert result.status == "graded"
    assert (result.reward, bool(result.reason)) in {(0.0, True), (1.0, False)}


@pytest.mark.parametrize("schema", [{"$ref": "#"}, doubled(40)], ids=["circle", "doubling"])
def test_a_schema_that_takes_too_much_work_for_a_small_value_is_a_bad_gold(schema):
    result = score(json_schema_reward, final_response="null", schema=schema)
    assert (result.status, result.reward) == ("bad_gold", None)


def test_a_schema_is_compiled_once_for_many_answers_and_threads(monkeypatch):
    made = []
    compiled = SchemaChecker

    def counted(schema, *options):
        made.append(schema)
        return compiled(schema, *options)

    monkeypatch.setattr(json_schema, "SchemaChecker", counted)
    schema = {"type": "object", "required": ["kept once"], "properties": {"kept once": {"pattern": "^a+$"}}}
    texts = ['{"kept once": "aaa"}', "{}", '{"kept once": "b"}', "[]"] * 50
    with ThreadPoolExecutor(4) as threads:
        paid = list(
            threads.map(
                lambda text: score(json_schema_reward, final_response=text, schema=schema).reward, texts
            )
        )
    assert paid == [1.0, 0.0, 0.0, 0.0] * 50
    assert 1 <= len(made) <= 4  # one for each thread that asked at the same time


def test_an_empty_array_of_the_gold_asks_for_no_element_where_order_does_not_count():
    asked = {"answer": {"a": []}, "mode": "subset", "ordered": False}
    assert score(json_match_reward, final_response='{"a": [1], "b": 2}', **asked).reward == 1.0
    assert score(json_match_reward, final_response='{"a": {}}', **asked).reward == 0.0
    in_order = {**asked, "ordered": True}
    assert score(json_match_reward, final_response='{"a": [1]}', **in_order).reward == 0.0


GOLD = {"a": 1, "b": [1, {"c": None}], "d": {"e": "x", "f": []}}


@pytest.mark.parametrize(("text", "options", "fraction", "fields"), TABLES["compared"])
def test_values_are_compared_field_by_field(text, options, fraction, fields):
    result = score(json_match_reward, final_response=text, answer=GOLD, **options)
    assert result.reward == float(fraction == 1.0)
    assert result.extras["fraction"] == pytest.approx(fraction)
    assert result.extras["fields"] == fields
    paid = score(json_match_reward, final_response=text, answer=GOLD, pays="fraction", **options)
    assert paid.reward == pytest.approx(fraction)


@pytest.mark.parametrize(
    ("answer", "text", "is_same"),
    [
        (0.1, "0.1", True),
        ("0.1", "0.10000000000000001", False),
        (0.1, "1e-1", True),
        (100, "1E2", True),
        (0, "-0.0", True),
        (2**70, str(2**70 + 1), False),
        (1, '"1"', False),
        (1, "true", False),
        (None, "false", False),
        ('"yes"', '"yes"', True),
        ('"yes"', '"Yes"', False),
        ([], "{}", False),
        ({}, "{}", True),
        ({"": ["", "1", 0]}, "1", False),
        (10**308, "1e308", True),
    ],
)
def test_numbers_are_exact_and_types_are_kept(answer, text, is_same):
    assert score(json_match_reward, final_response=text, answer=answer).reward == float(is_same)


@pytest.mark.parametrize(
    ("answer", "options"),
    [
        ("{", {}),
        ("", {}),
        ("Paris", {}),
        (math.nan, {}),
        ({1: 2}, {}),
        ({"a": {1}}, {}),
        (b"{}", {}),
        ({}, {"mode": "subset"}),
        ("[]", {"mode": "subset"}),
        ([1 << 5_000], {}),
    ],
    ids=repr,
)
def test_a_gold_that_is_no_json_or_asks_for_nothing_is_a_bad_gold(answer, options):
    result = score(json_match_reward, final_response="{}", answer=answer, **options)
    assert (result.status, result.reward) == ("bad_gold", None)


@pytest.mark.parametrize("option", [{"mode": "superset"}, {"pays": "some"}, {"extract": "anywhere"}])
def test_an_option_that_is_not_known_is_an_error(option):
    result = score(json_match_reward, final_response="{}", answer={}, **option)
    assert (result.status, result.reward) == ("error", None)


def test_a_report_names_a_hundred_fields_and_no_expected_value():
    gold = {str(number): f"secret {number}" for number in range(500)}
    result = score(json_match_reward, final_response="{}", answer=gold)
    assert (result.extras["missing"], len(result.extras["fields"])) == (500, 100)
    assert "secret" not in str(result.as_json())


def test_equal_values_have_one_hash_and_others_another():
    assert canonical_hash({"a": 1, "b": 2.50}) == canonical_hash({"b": 2.5, "a": 1.0})
    assert canonical_hash([1]) != canonical_hash(["1"])
    assert same_values({"a": (1, 2)}, {"a": [1, 2]})
    deep: list = []
    for _ in range(200):
        deep = [deep]
    with pytest.raises(NotJSONError, match="nested"):
        canonical_text(deep)
    assert compare_values(deep[0], 1).fraction == 0.0


def test_digits_are_kept_where_they_are_asked_for():
    assert str(parse_json("0.10000000000000001", exact=True)) == "0.10000000000000001"
    assert parse_json("0e-999999999999999999", exact=True) == 0
    with pytest.raises(JSONTextError, match="zero"):
        parse_json("1e-999", exact=True)


@pytest.mark.parametrize("name", ["json_valid_reward", "json_schema_reward", "json_match_reward"])
def test_they_are_found_by_name(name):
    assert find_reward(name).range == (0.0, 1.0)
