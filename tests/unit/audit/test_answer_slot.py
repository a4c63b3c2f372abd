"""Where the answer stands in gold actions, in generated forms of them."""

import json
import random

import pytest

from ors_server.audit.answer_slot import AnswerSlot, find_slot, leaves, slot_of_schema, value_at, with_value

WORDS = ("Vienna", "Brussels", "Sofia", "Santiago", "Zagreb", "Havana")
NUMBERS = ("134", "-7", "2.5", "1000", "88", "3")
SUBMIT = {"submit": {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}}


def golds_of(write, answers):
    return [[("submit", {"answer": write(answer)})] for answer in answers]


@pytest.mark.parametrize("answers", [WORDS, NUMBERS])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("<answer>", "</answer>"),
        ("The answer is ", "."),
        ('{"value": "', '"}'),
        ("\\boxed{", "}"),
        ("", " indeed indeed"),
        ("#### ", ""),
    ],
)
def test_what_stands_around_the_answers_is_told_from_them(answers, before, after):
    golds = golds_of(lambda answer: f"{before}{answer}{after}", answers)
    slot = find_slot(golds, SUBMIT, frozenset())
    assert slot is not None
    assert [slot.core(gold) for gold in golds] == list(answers)
    assert slot.replaced(golds[0], slot.wrapped("other")) == (
        ("submit", {"answer": f"{before}other{after}"}),
    )


def test_answers_that_begin_or_end_alike_stay_whole():
    golds = golds_of(str, ["140", "145", "1400"])
    slot = find_slot(golds, SUBMIT, frozenset())
    assert slot is not None
    assert (slot.before, slot.after) == ("", "")


@pytest.mark.parametrize("seed", range(30))
def test_the_varying_argument_is_found_among_others_at_any_depth(seed):
    rng = random.Random(seed)  # noqa: S311  (a test)
    key, rest = rng.choice(["answer", "city", "x"]), {"why": "because", "sure": True, "parts": [{"n": 1}]}
    nested = rng.random() < 0.5
    golds = [
        [
            ("look", {"at": "map"}),
            ("submit", {**rest, "inner": {key: word}} if nested else {**rest, key: word}),
        ]
        for word in rng.sample(WORDS, 4)
    ]
    slot = find_slot(golds, {}, frozenset())
    assert slot is not None
    assert (slot.tool, slot.path) == ("submit", ("inner", key) if nested else (key,))


def test_the_last_varying_call_has_the_answer():
    golds = [[("look_up", {"country": word[::-1]}), ("submit", {"answer": word})] for word in WORDS]
    slot = find_slot(golds, SUBMIT, frozenset())
    assert slot is not None
    assert slot.tool == "submit"


def test_the_arguments_of_a_workshop_are_no_answer():
    golds = [[("bash", {"command": f"echo {word}"}), ("submit", {})] for word in WORDS]
    assert find_slot(golds, {}, frozenset({"bash"})) is None


def test_one_answer_to_every_task_is_an_answer_but_a_repeated_move_is_none():
    assert find_slot(golds_of(str, ["yes"] * 5), SUBMIT, frozenset()) is not None
    assert find_slot([[("walk", {"direction": "left"})] * 3] * 5, {}, frozenset()) is None


def test_a_schema_names_the_choices():
    schema = {"properties": {"answer": {"enum": ["A", "B"]}}, "required": ["answer"]}
    slot = find_slot(golds_of(str, "ABAB"), {"submit": schema}, frozenset())
    assert slot is not None
    assert slot.choices == ("A", "B")
    assert slot.as_value("C") is None
    assert slot.replaced([("submit", {"answer": "A"})], "B") == (("submit", {"answer": "B"}),)


def test_a_number_stays_a_number_and_what_is_none_does_not_fit():
    golds = [[("answer", {"number": number})] for number in (3, 5, 8)]
    slot = find_slot(golds, {}, frozenset())
    assert slot is not None
    assert slot.replaced(golds[0], "12") == (("answer", {"number": 12}),)
    assert [slot.as_value(text) for text in ("nan", "inf", "1e999", "word", "")] == [None] * 5


def test_without_gold_the_first_required_text_is_the_slot():
    schema = {"properties": {"n": {"type": "integer"}, "text": {"type": "string"}}, "required": ["n", "text"]}
    assert slot_of_schema("say", schema) == AnswerSlot("say", ("text",), "", "", is_text=True)
    assert slot_of_schema("go", {"properties": {}}) is None
    assert slot_of_schema("go", None) is None


@pytest.mark.parametrize("seed", range(20))
def test_a_changed_leaf_is_the_only_change(seed):
    rng = random.Random(seed)  # noqa: S311  (a test)

    def some(depth):
        kind = rng.randrange(4 if depth else 2)
        if kind == 2:
            return [some(depth - 1) for _ in range(rng.randint(1, 3))]
        if kind == 3:
            return {f"k{n}": some(depth - 1) for n in range(rng.randint(1, 3))}
        return rng.choice(["a", "b", 1, 2.5])

    value = {"root": some(3)}
    before = json.dumps(value)
    for path, old in leaves(value):
        changed = with_value(value, path, "new")
        assert value_at(changed, path) == "new"
        assert with_value(changed, path, old) == value
    assert json.dumps(value) == before
