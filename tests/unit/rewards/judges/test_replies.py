"""Reading replies: verdicts and scores in every form that says one thing; what may say two is refused."""

import itertools
import json
import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ors_server.rewards.judged import llm_as_judge_reward
from ors_server.rewards.judges import Criterion, Rubric, ScriptedJudge, UnusableReplyError
from ors_server.rewards.judges.replies import MAX_CHARACTERS, MAX_READ, read_score, read_verdicts
from ors_server.rewards.scoring import score
from tests.fixtures.case_tables import tables
from tests.fixtures.ordinary_cases import every
from tests.fixtures.processor_time import processor_seconds

TABLES = tables("replies")
RUBRIC = Rubric(
    (
        Criterion("correct", "Is it right?"),
        Criterion("style", "Is it clear?", choices=("bad", "fair", "good")),
    )
)
ONE = Rubric((Criterion("correct", "Is it right?"),))


def said(correct="yes", style="good"):
    verdicts = {"correct": correct, "style": style}
    return json.dumps({name: {"reason": "r", "verdict": verdict} for name, verdict in verdicts.items()})


def choices(text, rubric=RUBRIC):
    return {name: verdict.choice for name, verdict in read_verdicts(text, rubric).items()}


@pytest.mark.parametrize(
    "text",
    [
        said(),
        f"```json\n{said()}\n```",
        f"Let me think about it.\n\n{said()}",
        f"<think>{said('no')}</think>{said()}",
        f"{said('no', 'bad')}\nNo, rather:\n{said()}",
        f"The answer says {said('no')} and {{ and {{}}. I say:\n{said()}",
        said("YES", " Good "),
        said().replace('"reason": "r", "verdict": "yes"', '"verdict": "yes", "reason": "r"'),
        said().replace('"reason": "r", "verdict": "yes"', '"verdict": "yes"'),
        '{"correct": "yes", "style": "good"}',
        "It is right.\nVERDICT correct: yes\nIt reads well.\nVERDICT style: good",
        "VERDICT correct: no\nOn second thought:\n**Verdict correct:** yes.\n- verdict style = `good`",
        f"I quote: {said('no', 'bad')}\nVERDICT correct: yes\nVERDICT style: good",
    ],
)
def test_the_last_complete_verdict_binds(text):
    assert choices(text) == {"correct": "yes", "style": "good"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "It is right.",
        said("maybe"),
        said("yes and no"),
        '{"correct": {"reason": "r", "verdict": "yes"}}',
        said()[:-1],
        said() + " VERDICT correct: no",
        said() + " which I do not believe",
        said().replace('"r"', "1", 1),
        said().replace('"correct": {', '"correct": {"verdict": "no", ', 1),
        said()[:-1] + ', "correct": {"reason": "r", "verdict": "no"}}',
        said()[:-1] + ', "bonus": {"reason": "r", "verdict": "yes"}}',
        '{"correct": NaN}',
        "VERDICT correct: yes",
        "VERDICT correct: yes\nVERDICT style: good\nVERDICT bonus: yes",
        "VERDICT correct: yes\nVERDICT style: good\nor so the answer says",
        "VERDICT correct: yes\nVERDICT style: good\nVERDICT correct: dunno",
        "<think>" + said(),
        '{"a": ' * 50_000,
        "9" * 5_000 + "{" + "9" * 5_000,
        '{"correct": ' + "9" * 5_000 + "}",
        "x" * (MAX_CHARACTERS + 1),
    ],
)
def test_what_is_not_plainly_a_verdict_is_none(text):
    with pytest.raises(UnusableReplyError):
        read_verdicts(text, RUBRIC)


def test_a_rubric_of_one_needs_no_name_in_its_line():
    for text in ("It fits.\nVERDICT: yes", "**Yes**.", '{"verdict": "yes", "reason": "it fits"}'):
        assert choices(text, ONE) == {"correct": "yes"}


def test_a_judge_s_own_score_is_read_from_sentences():
    refused = []
    for text, expected in TABLES["prose_scores"]:
        with suppress(UnusableReplyError):
            assert read_score(text).score == pytest.approx(expected, abs=1e-9), text
            continue
        refused.append(text)
    assert refused == []


def test_a_number_that_is_not_the_judge_s_score_is_refused():
    read = []
    for text in TABLES["prose_without_a_score"]:
        with suppress(UnusableReplyError):
            read.append((text, read_score(text).score))
    assert read == []


@pytest.mark.parametrize(("text", "score"), TABLES["scores"])
def test_a_score_is_read_at_the_end(text, score):
    assert read_score(text).score == pytest.approx(score, abs=1e-12)


@pytest.mark.parametrize("text", TABLES["no_scores"])  # fmt: skip
def test_what_is_no_score_on_the_scale_is_none(text):
    with pytest.raises(UnusableReplyError):
        read_score(text)


def test_eight_of_ten_is_a_score_on_a_scale_of_ten_only():
    assert read_score("8/10", 0, 10).score == 8
    with pytest.raises(UnusableReplyError, match="scale must end at 10"):
        read_score("8/100", 0, 10)


@given(st.text(max_size=300) | st.text(alphabet='{}"reasoncv:,0123456789.eE+-/ \n[]', max_size=300))
def test_any_text_is_a_score_on_the_scale_or_unusable(text):
    try:
        score = read_score(text).score
    except UnusableReplyError:
        return
    assert 0 <= score <= 1


@given(st.text(max_size=300) | st.text(alphabet='{}"correct:vdiyso,= \n[]', max_size=300))
def test_any_text_is_a_choice_or_unusable(text):
    try:
        found = choices(text, ONE)
    except UnusableReplyError:
        return
    assert found["correct"] in {"yes", "no"}


SCORES = tables("stated_scores")
SPELLINGS = {
    0.8: ["0.8", ".8", "0.80", "8/10", "8 / 10", "4/5", "80%", "80 %", "80 percent", "0.8/1", "0.8 out of 1"],
    1.0: ["1.0", "1.", "10/10", "100%", "5 out of 5"],
    0.0: ["0.0", "0%", "0/10"],
    0.35: ["0.35", "35%", "7/20", "3.5/10"],
}
FORMS = SCORES["forms"]
AMBIGUOUS = SCORES["ambiguous"]
TAKEN_BACK = SCORES["taken_back"]
UNPLACED = ["1.5", "-0.5", "-1", "8", "80", "11/10", "120%", "-5%", "1e5", "0.9/0"]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_one_score_is_read(form):
    for value, spellings in SPELLINGS.items():
        for spelling in spellings:
            assert read_score(form.format(spelling)).score == pytest.approx(value, abs=1e-9), spelling


@pytest.mark.parametrize("form", AMBIGUOUS)
def test_two_different_scores_are_refused(form):
    for pair in itertools.permutations(("0.3", "0.7", "0.9", "1.0"), 2):
        with pytest.raises(UnusableReplyError):
            read_score(form.format(*pair))


@pytest.mark.parametrize("form", TAKEN_BACK)
def test_a_score_that_is_taken_back_is_refused(form):
    for value in ("0.3", "0.9", "1", "1.0"):
        with pytest.raises(UnusableReplyError):
            read_score(form.format(value))


@pytest.mark.parametrize("form", FORMS)
def test_a_score_outside_the_scale_is_refused_in_every_form(form):
    for value in UNPLACED:
        with pytest.raises(UnusableReplyError):
            read_score(form.format(value))


@pytest.mark.parametrize("text", SCORES["counts_and_measures"])
def test_a_number_that_counts_or_measures_is_no_score(text):
    with pytest.raises(UnusableReplyError):
        read_score(text)


def test_the_last_of_several_labelled_scores_of_the_whole_counts():
    assert read_score("The answer says Score: 1.0\nScore: 0.2").score == 0.2
    assert read_score("Clarity score: 0.3\nAccuracy score: 0.9\nFinal score: 0.5").score == 0.5


def test_a_judge_that_says_it_in_its_own_words_is_asked_once():
    model = ScriptedJudge("I would give this a 0.8.")
    result = score(llm_as_judge_reward, prediction="Paris", golden_answer="Paris", model=model)
    assert (result.reward, len(model.asked)) == (0.8, 1)


def quoted(value):
    """A JSON object that nothing ends, over and over."""
    return lambda size: value * (size // len(value))


HOSTILE = {
    "letters after verdict": lambda size: "verdict " + "a" * (size - 8),
    "lines of verdict": quoted("verdict\n"),
    "marks": quoted("*"),
    "marks and verdict": lambda size: "*" * (size // 2) + "verdict" + "*" * (size // 2 - 7),
    "newlines": quoted("\n"),
    "empty lines before a verdict": lambda size: "x" + "\n" * (size - 24) + "x\nVERDICT correct: yes",
    "spaces after a verdict": lambda size: "verdict: a" + " " * (size - 12) + "b\n",
    "colons": lambda size: "verdict" + ":" * (size - 7),
    "open braces": quoted("{"),
    "broken objects": quoted('{"a":x'),
    "spaced braces": quoted("{" + " " * 199),
    "open objects": quoted('{"a": '),
    "objects that never end": quoted('{"a":[{"b":1},'),
    "open strings": quoted('{"'),
    "escaped strings": quoted('{"\\"'),
    "digits": quoted("9"),
    "digits in an object": lambda size: '{"score": ' + "9" * (size - 10),
    "fractions": quoted("1/"),
    "labels": quoted("score "),
    "labels with numbers": quoted("score: 0.1 "),
    "numbers": quoted("0.5 "),
    "lines of numbers": quoted("0.5\n"),
    "brackets": quoted("("),
    "tags": quoted("<"),
    "signs": quoted("+-."),
    "white space": lambda size: "0.5" + " " * (size - 9) + "out of",
    "one long word": quoted("ab1"),
}
TWO_CRITERIA = Rubric((Criterion("correct", "Is it right?"), Criterion("clear", "Is it clear?")))


def cost(text, enough=0.0):
    """Processor seconds that reading a reply takes: the least of three, or the first of at most `enough`."""

    def read_all() -> None:
        for read in (read_score, lambda reply: read_verdicts(reply, TWO_CRITERIA)):
            with suppress(UnusableReplyError):
                read(text)

    return processor_seconds(read_all, times=3, enough=enough)


@pytest.mark.parametrize("shape", every(3, HOSTILE))
def test_reading_a_hostile_reply_costs_in_proportion_to_its_length(shape):
    make = HOSTILE[shape]
    short, long = make(MAX_READ // 4), make(MAX_READ)
    assert len(long) <= MAX_READ
    most = 9 * cost(short) + 0.01
    assert cost(long, most) <= most  # four times as long: a quadratic reader takes sixteen times as long


def test_long_reasoning_before_a_verdict_is_no_reason_to_refuse_it():
    assert read_score(f"<think>{'hm ' * MAX_READ}</think>\nScore: 0.5").score == 0.5
    with pytest.raises(UnusableReplyError, match="more than 30,000 characters"):
        read_score("hm " * MAX_READ + "\nScore: 0.5")


def test_any_mixture_of_pieces_is_a_score_on_the_scale_or_refused():
    pieces = [
        "0.8",
        "1",
        "{",
        "}",
        '"score"',
        ":",
        "score",
        " ",
        "\n",
        "-",
        "not",
        "%",
        "/",
        "out of",
        "verdict",
    ]
    draw = random.Random(20261122)  # noqa: S311  (repeatable, not secret)
    for _ in range(3_000):
        text = " ".join(draw.choices(pieces, k=draw.randrange(12)))
        try:
            found = read_score(text).score
        except UnusableReplyError:
            continue
        assert 0 <= found <= 1
