"""How verdicts become one number."""

import jsonschema
import pytest

from ors_server.rewards.judges import Criterion, JudgeSettingsError, Rubric

SCALE = ("bad", "fair", "good")


@pytest.mark.parametrize(("choice", "value"), [("bad", 0.0), ("fair", 0.5), ("good", 1.0)])
def test_choices_are_worth_even_steps(choice, value):
    assert Criterion("c", "?", choices=SCALE).value(choice) == value


def test_the_mean_is_by_weight():
    rubric = Rubric((Criterion("a", "?", weight=3), Criterion("b", "?")))
    assert rubric.value({"a": "yes", "b": "no"}) == 0.75


def test_the_least_may_count():
    rubric = Rubric((Criterion("a", "?", choices=SCALE), Criterion("b", "?")), aggregate="min")
    assert rubric.value({"a": "fair", "b": "yes"}) == 0.5


@pytest.mark.parametrize(
    ("required", "choice", "value"),
    [
        (True, "fair", 0.0),
        (True, "good", 1.0),
        ("fair", "bad", 0.0),
        ("fair", "fair", 0.75),
        (False, "bad", 0.5),
    ],
)
def test_a_required_criterion_is_a_gate(required, choice, value):
    rubric = Rubric((Criterion("a", "?", choices=SCALE, required=required), Criterion("b", "?")))
    assert rubric.value({"a": choice, "b": "yes"}) == value


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "two words"},
        {"name": "a", "weight": 0},
        {"name": "a", "weight": float("nan")},
        {"name": "a", "choices": ("yes",)},
        {"name": "a", "choices": ("yes", "Yes ")},
        {"name": "a", "choices": ("yes", " ")},
        {"name": "a", "required": "maybe"},
    ],
)
def test_what_cannot_be_asked_is_refused(wrong):
    with pytest.raises(JudgeSettingsError):
        Criterion(**{"text": "?", **wrong})


@pytest.mark.parametrize("criteria", [(), (Criterion("a", "?"), Criterion("a", "!"))])
def test_criteria_have_names_of_their_own(criteria):
    with pytest.raises(JudgeSettingsError):
        Rubric(criteria)


def test_the_schema_takes_the_reply_that_is_asked_for_and_puts_reasons_first():
    schema = Rubric((Criterion("a", "?", choices=SCALE),)).schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate({"a": {"reason": "r", "verdict": "fair"}}, schema)
    assert list(schema["properties"]["a"]["properties"]) == ["reason", "verdict"]
    for wrong in (
        {},
        {"a": {"reason": "r", "verdict": "x"}},
        {"a": {"reason": "", "verdict": "bad"}, "b": 1},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


def test_the_judge_is_told_criteria_and_form():
    told = Rubric((Criterion("a", "Is it so?", choices=SCALE),), instructions="Be strict.").describe()
    assert told.startswith(
        "Be strict.\nCriteria:\n- a: Is it so? Choices, from worst to best: 'bad', 'fair', 'good'."
    )
    assert '{"a": {"reason": "...", "verdict": "..."}}' in told
