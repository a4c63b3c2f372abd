"""Rewards for answers that are JSON: valid, of a form, or with the right content.

`extract="whole"` reads the whole response as JSON, `fenced` its only fenced block (```json or ```). A
response that is not JSON is `unparsed_answer`.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from ors_server.json_schemas import BadSchemaError, SchemaChecker, TooMuchWorkError
from ors_server.model.json_values import NotJSONError, canonical_text
from ors_server.rewards.answering import reads_answer
from ors_server.rewards.define import reward
from ors_server.rewards.reading.bounded_pattern import PatternTimeoutError
from ors_server.rewards.reading.fences import fenced_blocks
from ors_server.rewards.reading.json_text import MAX_CHARACTERS, JSONTextError, parse_json
from ors_server.rewards.reading.option_words import Pays, check_words
from ors_server.rewards.result import RewardResult, RewardStatus
from ors_server.rewards.structures.json_match import MatchMode, compare_values
from ors_server.rewards.structures.json_schema import Schema, find_violations, gold_schemas

Extract: TypeAlias = Literal["whole", "fenced"]
"""Where the JSON text is: it is the whole response, or the only fenced block of it (```json or ```)."""


def find_json(response: str, extract: Extract) -> str:
    """Return the JSON text of a response without reasoning."""
    if extract == "whole":
        return response
    if len(response) > 2 * MAX_CHARACTERS:
        raise JSONTextError(f"the response has {len(response)} characters: too long to look for JSON in it")
    blocks = fenced_blocks(response, ("json", ""))
    if len(blocks) != 1:
        raise JSONTextError(f"expected one fenced block of JSON, found {len(blocks)}")
    return blocks[0]


@reward(range=(0.0, 1.0))
@reads_answer()
def json_valid_reward(final_response: str, extract: Extract = "whole") -> RewardResult:
    """Pays 1 if the response is strict JSON, else 0.

    Hazards: `null`, `{}` and `0` are JSON; the content is not checked, so gate it or use a schema.

    Source: RFC 8259, with I-JSON's (RFC 7493) refusal of NaN, of a name twice in one object, of half a
    surrogate pair and of numbers beyond a double; at most 1,000,000 characters, 100 levels.
    """
    check_words(extract=(extract, Extract))
    try:
        parse_json(find_json(final_response, extract))
    except JSONTextError as error:
        return _unparsed(error)
    return RewardResult(1.0)


@reward(range=(0.0, 1.0))
@reads_answer()
def json_schema_reward(final_response: str, schema: Schema | str, extract: Extract = "whole") -> RewardResult:
    """Pays 1 if the response is JSON that a JSON Schema accepts, else 0.

    Hazards: a schema without `required` accepts `{}`, and one without `additionalProperties: false` any extra
    name; `format` is not checked. A form is not content: gate it by a reward for the content.

    Source: JSON Schema, draft 2020-12 unless `$schema` names draft 4, 6, 7 or 2019-09. No reference is ever
    fetched: one that leads out of the schema makes it a bad gold for every answer.

    `violations` has places and keywords. A response that takes more than 100,000 checks, or a pattern over
    its time, is 0 with a reason. An invalid schema, or one that takes as many for a value of at most 1,000
    values and 10 levels, is `bad_gold`.
    """
    check_words(extract=(extract, Extract))
    try:
        return _pay_valid(gold_schemas.checker(_gold(schema)), final_response, extract)
    except (JSONTextError, BadSchemaError) as error:
        return RewardResult.without(RewardStatus.BAD_GOLD, str(error))


@reward(range=(0.0, 1.0))
@reads_answer()
def json_match_reward(
    final_response: str,
    answer: Any,
    *,
    mode: MatchMode = "equal",
    ordered: bool = True,
    pays: Pays = "all",
    extract: Extract = "whole",
) -> RewardResult:
    """Pays if the response is the JSON value that is right, field by field.

    Hazards: with `pays="fraction"` a guess at fields of few values (true, false, null) earns; with
    `mode="subset"` extra names are free, so a flood of them costs nothing.

    Source: structured outputs as NeMo Gym scores them (a difference field by field); the values of RFC 8259.
    Numbers are compared exactly (1 is 1.0, 0.1 is not 0.10000000000000001, 1 is not "1", true is not 1).

    Args:
        answer: The right value; a `str` is its JSON text, so the text "yes" is written `'"yes"'`.
        mode: `equal`: objects have the gold's names and no others. `subset`: at least those.
        ordered: Whether arrays are compared place by place; else as bags of whole elements.
        pays: `fraction` pays the part of the fields that is right; extra fields count as wrong.

    Returns:
        In [0, 1], with `fraction`, counts, and up to 100 `fields` that are not right: `different`, `missing`
        or `extra`, by JSON pointer. A gold that is not JSON, or that every object would match, is `bad_gold`.
    """
    check_words(mode=(mode, MatchMode), pays=(pays, Pays), extract=(extract, Extract))
    try:
        gold = _gold(answer, exact=True)
        canonical_text(gold)
    except (JSONTextError, NotJSONError) as error:
        return RewardResult.without(RewardStatus.BAD_GOLD, f"the gold is not JSON: {error}")
    if mode == "subset" and isinstance(gold, Mapping | list | tuple) and not gold:
        return RewardResult.without(RewardStatus.BAD_GOLD, "an empty gold is a subset of everything")
    try:
        answer_value = parse_json(find_json(final_response, extract), exact=True)
    except JSONTextError as error:
        return _unparsed(error)
    report = compare_values(gold, answer_value, mode=mode, is_ordered=ordered)
    paid = report.fraction if pays == "fraction" else float(report.is_match)
    return RewardResult(paid, extras=report.as_extras())


def _pay_valid(checker: SchemaChecker, response: str, extract: Extract) -> RewardResult:
    try:
        violations = find_violations(checker, parse_json(find_json(response, extract)))
    except JSONTextError as error:
        return _unparsed(error)
    except (TooMuchWorkError, PatternTimeoutError) as error:
        return RewardResult(0.0, reason=str(error))
    return RewardResult(float(not violations), extras={"violations": violations})


def _gold(value: Any, *, exact: bool = False) -> Any:
    return parse_json(value, exact=exact) if isinstance(value, str) else value


def _unparsed(error: Exception) -> RewardResult:
    return RewardResult(0.0, RewardStatus.UNPARSED_ANSWER, reason=str(error))
