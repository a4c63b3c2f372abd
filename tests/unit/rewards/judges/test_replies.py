"""Reading verdicts: what says one thing, and the last one binds."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ors_server.rewards.judges import Criterion, Rubric, UnusableReplyError
from ors_server.rewards.judges.replies import MOST_CHARACTERS, read_score, read_verdicts
from tests.fixtures.case_tables import tables

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
        "x" * (MOST_CHARACTERS + 1),
    ],
)
def test_what_is_not_plainly_a_verdict_is_none(text):
    with pytest.raises(UnusableReplyError):
        read_verdicts(text, RUBRIC)


def test_a_rubric_of_one_needs_no_name_in_its_line():
    for text in ("It fits.\nVERDICT: yes", "**Yes**.", '{"verdict": "yes", "reason": "it fits"}'):
        assert choices(text, ONE) == {"correct": "yes"}


@pytest.mark.parametrize(("text", "score"), TABLES["scores"])
def test_a_score_is_read_at_the_end(text, score):
    assert read_score(text).score == pytest.approx(score, abs=1e-12)


@pytest.mark.parametrize("text", TABLES["no_scores"])  # fmt: skip
def test_what_is_no_score_on_the_scale_is_none(text):
    with pytest.raises(UnusableReplyError):
        read_score(text)


def test_eight_of_ten_is_a_score_on_a_scale_of_ten_only():
    assert read_score("8/10", 0, 10).score == 8
    with pytest.raises(UnusableReplyError, match="scale ends at 10"):
        read_score("8/100", 0, 10)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(max_size=300) | st.text(alphabet='{}"reasoncv:,0123456789.eE+-/ \n[]', max_size=300))
def test_any_text_is_a_score_on_the_scale_or_unusable(text):
    try:
        score = read_score(text).score
    except UnusableReplyError:
        return
    assert 0 <= score <= 1


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(max_size=300) | st.text(alphabet='{}"correct:vdiyso,= \n[]', max_size=300))
def test_any_text_is_a_choice_or_unusable(text):
    try:
        found = choices(text, ONE)
    except UnusableReplyError:
        return
    assert found["correct"] in {"yes", "no"}
