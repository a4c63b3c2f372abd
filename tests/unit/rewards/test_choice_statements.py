"""The final statement of a response is its choice: forms that must pay, near misses that must not."""

import random
from itertools import product

import pytest

from ors_server.rewards.scoring import score
from ors_server.rewards.text.multiple_choice import multiple_choice_reward

CHOICES = ["one side", "two sides", "three sides", "none of these"]
LABELS = "ABCD"

FORMS = [
    *(
        "{L}",
        "{l}",
        "({L})",
        "{L}.",
        "{L})",
        "**{L}**",
        "__{L}__".replace("__", "_"),
        "{L}. {T}",
        "({L}) {T}",
        "{T}",
        "{T}.",
    ),
    *(
        r"\boxed{{{L}}}",
        r"$\boxed{{\text{{{L}}}}}$",
        r"So we have \boxed{{({L})}}.",
        r"The answer is \boxed{{{L}}}.",
    ),
    *(
        "<answer>{L}</answer>",
        "<answer>\n({L}) {T}\n</answer>",
        "<answer>The answer is {L}.</answer>",
        "<answer>{L}",
    ),
    *(
        "Answer: {L}",
        "answer: ({l})",
        "**Answer:** {L}",
        "**Answer: {L}**",
        "Answer:\n{L}",
        "Answer:\n\n**{L}**",
    ),
    *("### Answer\n{L}", "Final Answer: {L}", "Final answer\n\n{L}. {T}", "Answer = {L}", "Answer: {L}. {T}"),
    *(
        "The answer is {L}.",
        "The answer is: {L}",
        "The answer is ({L}).",
        "The answer is **{L}**.",
        "The answer is {L}",
    ),
    *(
        "The correct answer is option {L}.",
        "The correct answer is {L}.",
        "The correct option is {L}.",
        "The answer is option ({L}).",
    ),
    *(
        "The best choice is {L}.",
        "Therefore, the answer is {L}.",
        "So the correct choice would be {L}.",
        "The answer must be {L}.",
    ),
    *(
        "The answer should be {L}, because the others fail.",
        "The answer is {L}, since the others are the wrong shape.",
        "The answer is {T}.",
    ),
    *(
        "I choose {L}.",
        "I would go with option {L}.",
        "I'll pick {L}",
        "Option {L} is correct.",
        "{L} is the correct answer.",
    ),
    *(
        "({L}) is right.",
        "Choice {L} must be the right answer.",
        "Let me see.\n\n{L}",
        "It has sides.\nSo, {L}.",
        "Hm.\nOption {L}",
    ),
    *(
        "A square is tempting.\nAnswer: {L}",
        "A is wrong.\nThe answer is {L}.",
        "It is not B, nor D.\n{L}. {T}",
    ),
]
MORE = [
    *(
        "The answer is {L}. I hope that it helps!",
        "Answer: {L}\n\nLet me know if the answer is unclear to you.",
    ),
    "Answer: {L}\nA careful analysis shows it.",
]
BEFORE = [
    r"At first \boxed{{{O}}} looked right. ",
    "<think>Answer: {O}</think>\n",
    "Answer: {O}\nNo, wait.\n",
    "The answer is {O}? Let me check.\n",
    "{O} is wrong.\n",
    "A. one side\nB. two sides\nC. three sides\nD. none of these\n\n",
]
NOTHING = [
    *(
        "A rectangle",
        "A careful analysis shows nothing.",
        "A is wrong.",
        "{L} is not correct",
        "{L} is not correct.",
        "({L}) is wrong",
    ),
    *(
        "{L} isn't right.",
        "Option {L} is incorrect.",
        "The answer is not {L}.",
        "The answer is {L} is wrong",
        "Answer: not {L}",
    ),
    *(
        "Answer: {L} is not correct",
        "The correct answer isn't {L}.",
        "It is not true that {L} is correct.",
        "I doubt that {L} is right.",
    ),
    *(
        "{L} or {O}",
        "{L}, {O}",
        "{L} and {O}",
        "{L}/{O}",
        "Answer: {L} or {O}",
        "Answer: {L}, {O}",
        "The answer is {L} or {O}.",
    ),
    *(
        r"\boxed{{{L}}}\boxed{{{O}}}",
        r"\boxed{{{O}}} or \boxed{{{L}}}",
        r"\boxed{{{L}, {O}}}",
        "Answer: {O}. Answer: {L}.",
        "<answer>{O}</answer><answer>{L}</answer>",
    ),
    *(
        "A. one side\nB. two sides\nC. three sides\nD. none of these",
        "A\nB\nC\nD",
        "one side\ntwo sides\nthree sides\nnone of these",
    ),
    *(
        "Answer: {L}. No, {L} is wrong.",
        "The answer is {L}. But {L} is not correct.",
        r"\boxed{{{L}}} is wrong.",
        "Answer: E",
        "Answer:",
    ),
    *(
        "<answer></answer>",
        "<answer>{L} and {O}</answer>",
        "<think>The answer is {L}.",
        "Vitamin {L} is good.",
        "Plan {L} failed",
        "x{L}",
        "{L}{O}",
    ),
    *(
        "Answer: {L}\nAnswer: both",
        "Answer: {L}\nAnswer: {O} or {L}",
        "If {L} is correct, then so is {O}.",
        "Is {L} correct or {O}?",
    ),
    *("A great city", "The answer is A great city", "The answer: A dog house", "I think A", "Answer: {L}{O}"),
]


def earned(response, gold):
    return score(multiple_choice_reward, final_response=response, answer=gold, choices=CHOICES)


def written(form, label, other="B"):
    return form.format(L=label, l=label.lower(), T=CHOICES[LABELS.index(label)], O=other)


@pytest.mark.parametrize("form", [*FORMS, *MORE])
def test_every_form_of_a_statement_is_read(form):
    for label, gold in product(LABELS, LABELS):
        result = earned(written(form, label), gold)
        assert (result.reward, result.status) == (float(label == gold), "graded"), result


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("form", FORMS)
def test_the_final_statement_wins_over_what_was_said_before(form, before):
    if "\n" not in before and form not in FORMS[11:29]:
        return  # nothing in the middle of a sentence is a statement
    for label in LABELS:
        other = LABELS[(LABELS.index(label) + 1) % 4]
        response = written(before, label, other) + written(form, label)
        assert earned(response, label).reward == 1.0, response
        assert earned(response, other).reward == 0.0, response


@pytest.mark.parametrize("form", NOTHING)
def test_an_article_a_denial_a_list_and_a_conflict_state_nothing(form):
    for label, other in product(LABELS, LABELS):
        if label == other:
            continue
        response = written(form, label, other)
        for gold in LABELS:
            assert earned(response, gold).reward == 0.0, response


WORDS = [*"soisAanotor=wrongBCD().,:}I\n", "and", "because", "right", "Answer", "option", "the", "\\boxed{"]


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_written_at_most_one_choice_is_paid(seed):
    draw = random.Random(seed)  # noqa: S311  (the same texts in every run)
    for _ in range(400):
        response = " ".join(draw.choices(WORDS, k=draw.randint(1, 14)))
        assert sum(earned(response, gold).reward for gold in LABELS) <= 1.0, response


ENGLISH = (
    "A {} is no choice.",
    "A {} shows that nothing holds.",
    "I saw a {}.",
    "A {}",
    "a {}",
    "Neither A nor {}",
    "A and B are both a {}",
    "That is a {}",
    "Is it A, {}?",
    "A-{}",
    "{} A",
    "A {}, B {}",
)
NOUNS = ("dog", "plan", "good idea", "rectangle of paper", "Frenchman", "1st try", "a", "B", "C", "D")


@pytest.mark.parametrize("sentence", ENGLISH)
def test_an_article_is_no_choice_in_any_sentence(sentence):
    for noun in NOUNS:
        response = sentence.replace("{}", noun)
        assert earned(response, "A").reward == 0.0, response


@pytest.mark.parametrize(
    "piece",
    [
        "Answer: ",
        "\\boxed{",
        "<answer>",
        "A is not ",
        "the answer is\n",
        "A. ",
        "(",
        "\n",
        "A\n",
        "I choose ",
    ],
)
def test_long_responses_are_read_in_linear_time(piece):
    response = piece * (250_000 // len(piece))
    assert earned(response, "B").reward == 0.0
    assert earned(response + "\nAnswer: B", "B").reward in {0.0, 1.0}
