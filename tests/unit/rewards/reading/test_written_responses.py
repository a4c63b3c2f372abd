"""The rewards read responses that were written without knowledge of them, in about 2,500 wordings.

Each line of `written.jsonl` is a response with its gold answer and its label: of each wording one that must
be paid and one that must not, or two. It guards what has been read; for an estimate of new wordings, score
a held-out set (`scripts/score_responses.py`).
"""

from pathlib import Path

import pytest

from tests.script_modules import load_script

scoring = load_script("score_responses")
WRITTEN = Path(__file__).parents[3] / "data" / "responses" / "written.jsonl"
MISREAD = {
    "Thanks for waiting. After some thought I settled on (B). What did you choose?",
    "Thanks for waiting. After some thought I settled on (D). What did you choose?",
    "Answer: D\n\nUpdate: that was a typo, the letter is A.",
    "We want Leeds; Dakar doesn't fit the description.",
    "For this plant, it's a yes from me.",
    '"D", says Ruth. Nonsense: C.',
    "Answer: C\nCorrection: B",
    "Either Olaf or Mia.",
    "No, Ines, it is not.",
    "No, yes would be wrong.",
    "No, Oskar, it is not.",
    "\\boxed{0.375}\n\nOops, there is a sign error in that box. It should read -129.",
}
"""What is misread still, in some mode: the list may only become shorter."""
UNWRITTEN = {
    "qa_em_reward",
    "qa_f1_reward",
    "find_answer",
    "sql_match_reward",
    "json_match_reward",
    "code_completion_reward",
}
"""Rewards that only the generated responses try."""
MIN_CASES = 4_900


@pytest.fixture(scope="module")
def written():
    return scoring.read_sample(WRITTEN)


def _parameter_of(mode):
    # Two modes of the mathematical reward read nearly every response as another one does.
    is_dear = mode.name in ("boxes=agree", "evaluated")
    return pytest.param(mode, id=f"{mode.reward}-{mode.name}", marks=[pytest.mark.stress] if is_dear else [])


@pytest.mark.parametrize("mode", [_parameter_of(mode) for mode in scoring.MODES])
def test_written_responses_are_read(written, mode):
    cases = [case for case in written if case.reward == mode.reward]
    if not cases:
        assert mode.reward in UNWRITTEN
    _, _, failing = scoring.tally(cases, mode)
    assert {case.response for case in failing} <= MISREAD


def test_the_responses_are_many_and_have_both_labels(written):
    labels = [case.label for case in written]
    assert len(written) > MIN_CASES
    assert set(labels) == {"pay", "not"}
    assert min(map(labels.count, ("pay", "not"))) > MIN_CASES / 3
