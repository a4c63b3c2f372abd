"""How often the rewards are wrong on generated responses: both halves of the templates, within bounds."""

import re
from collections import Counter
from functools import cache
from itertools import pairwise

import pytest

from tests.fixtures.response_templates import Template, load_templates, make_cases
from tests.script_modules import load_script

SEED = 0
DRAWS = 1
MAX_FALSE_PAID = {
    ("math_equal_reward", "default"): 0.012,
    ("math_equal_reward", "strict"): 0.01,
    ("math_equal_reward", "boxes=agree"): 0.012,
    ("math_equal_reward", "evaluated"): 0.012,
    ("multiple_choice_reward", "any"): 0.002,
    ("multiple_choice_reward", "boxed"): 0.001,
    ("multiple_choice_reward", "answer"): 0.001,
    ("multiple_choice_reward", "fullmatch"): 0.001,
    ("word_match_reward", "default"): 0.006,
    ("word_match_reward", "choices"): 0.005,
    ("qa_em_reward", "default"): 0.005,
    ("qa_f1_reward", "default"): 0.008,
    ("judge_reply", "default"): 0.002,
    ("find_answer", "answer"): 0.001,
    ("find_answer", "tag"): 0.001,
    ("sql_match_reward", "default"): 0.10,
    ("json_match_reward", "fenced"): 0.10,
    ("code_completion_reward", "default"): 0.25,
}
"""Greatest share of the responses that must not be paid and are, per reward and mode."""
MAX_FALSE_UNPAID = {
    ("math_equal_reward", "default"): 0.025,
    ("math_equal_reward", "strict"): 0.05,
    ("math_equal_reward", "boxes=agree"): 0.025,
    ("math_equal_reward", "evaluated"): 0.025,
    ("multiple_choice_reward", "any"): 0.01,
    ("multiple_choice_reward", "boxed"): 0.001,
    ("multiple_choice_reward", "answer"): 0.01,
    ("multiple_choice_reward", "fullmatch"): 0,
    ("word_match_reward", "default"): 0.025,
    ("word_match_reward", "choices"): 0.02,
    ("qa_em_reward", "default"): 0.015,
    ("qa_f1_reward", "default"): 0.02,
    ("judge_reply", "default"): 0.005,
    ("find_answer", "answer"): 0.005,
    ("find_answer", "tag"): 0.005,
    ("sql_match_reward", "default"): 0.10,
    ("json_match_reward", "fenced"): 0.10,
    ("code_completion_reward", "default"): 0.10,
}
"""Greatest share of the responses that must be paid and are not, per reward and mode."""
NEAR_DEFAULT = {("math_equal_reward", "boxes=agree"), ("math_equal_reward", "evaluated")}
"""Modes that read nearly every response as another mode does, which only `make stress` plays."""
DEAR_MODES = [("math_equal_reward", "default"), ("math_equal_reward", "strict")]
"""Modes of which an ordinary run plays a sample of each half, and `make stress` all of both."""
DEAR_HALVES = {("code_completion_reward", "default", "test")}
"""Halves that only `make stress` plays; an ordinary run plays the other one."""
SAMPLED = 5
"""Every fifth response is in the sample."""
MIN_SAMPLE = 500
SIGMAS = 3.0
"""Standard deviations by which the share of a sample may exceed the bound of the whole half."""
MIN_TEMPLATES = 500
MIN_FAMILIES = 45
MIN_CLOSINGS = 40
"""Responses with the same last paragraph from which on it is one of the contexts."""
MIN_SHARE = 0.35
"""Least share of the templates of each half and each label."""

scoring = load_script("score_responses")


@cache
def cases_of(seed, draws):
    return make_cases(seed, draws=draws)


def _cases_for(reward, mode_name, half):
    return [
        case
        for case in cases_of(SEED, DRAWS)
        if (case.reward, case.half) == (reward, half)
        and (mode_name == "default" or not case.is_in_context)  # the options concern the answer's own form
    ]


def _marked(mode, half):
    is_dear = mode in NEAR_DEFAULT or mode in DEAR_MODES or (*mode, half) in DEAR_HALVES
    return pytest.param(*mode, half, marks=[pytest.mark.stress] if is_dear else [])


@pytest.mark.parametrize(
    ("reward", "mode_name", "half"),
    [_marked(mode, half) for mode in MAX_FALSE_PAID for half in ("dev", "test")],
)
def test_a_reward_is_right_on_generated_responses(reward, mode_name, half):
    (mode,) = [mode for mode in scoring.MODES if (mode.reward, mode.name) == (reward, mode_name)]
    cases = _cases_for(reward, mode_name, half)
    total, _, failing = scoring.tally(cases, mode)
    shown = [case.response for case in failing[:20]]
    assert total.rate("not") <= MAX_FALSE_PAID[reward, mode_name], shown
    assert total.rate("pay") <= MAX_FALSE_UNPAID[reward, mode_name], shown


@pytest.mark.parametrize("half_name", ["dev", "test"])
@pytest.mark.parametrize(("reward", "mode_name"), DEAR_MODES)
def test_a_dear_reward_is_right_on_a_sample_of_each_half(reward, mode_name, half_name):
    (mode,) = [mode for mode in scoring.MODES if (mode.reward, mode.name) == (reward, mode_name)]
    cases = _cases_for(reward, mode_name, half_name)[::SAMPLED]
    total, _, _ = scoring.tally(cases, mode)
    for label, bounds in (("not", MAX_FALSE_PAID), ("pay", MAX_FALSE_UNPAID)):
        count = sum(case.label == label for case in cases)
        bound = bounds[reward, mode_name]
        assert count > MIN_SAMPLE
        assert total.rate(label) <= bound + SIGMAS * (bound * (1 - bound) / count) ** 0.5


def test_every_mode_has_a_bound_where_its_reward_has_templates():
    rewards = {template.reward for template in load_templates()}
    modes = {(mode.reward, mode.name) for mode in scoring.MODES if mode.reward in rewards}
    assert modes <= MAX_FALSE_PAID.keys() == MAX_FALSE_UNPAID.keys()


def test_the_templates_are_many_and_their_halves_and_labels_balanced():
    templates = [template for template in load_templates() if template.reward == "math_equal_reward"]
    judged = [template for template in templates if not template.contested]
    halves = Counter(template.half for template in templates)
    assert len(templates) >= MIN_TEMPLATES
    assert len({template.family for template in templates}) >= MIN_FAMILIES
    assert min(halves.values()) >= MIN_SHARE * len(templates)
    assert sum(bool(template.asserts) for template in judged) >= MIN_SHARE * len(judged)
    assert sum(not template.asserts for template in judged) >= MIN_SHARE * len(judged)


def test_the_same_seed_makes_the_same_cases_and_another_seed_other_ones():
    templates = load_templates()[::20]
    assert make_cases(1, templates) == make_cases(1, templates)
    responses = {case.response for case in make_cases(1, templates)}
    assert responses != {case.response for case in make_cases(2, templates)}


def test_a_template_stays_in_its_half_whatever_is_added_or_reordered():
    templates = load_templates()
    halves = {(template.reward, template.key): template.half for template in templates}
    backwards = make_cases(3, templates[::-7], draws=1)
    assert {case.half for case in backwards} == {"dev", "test"}
    assert all(halves[case.reward, case.template] == case.half for case in backwards)
    some = make_cases(3, templates[::-35], draws=1)
    assert set(some) <= set(backwards)


def test_the_half_is_that_of_a_hash_of_family_and_text():
    template = Template("math_equal_reward", "denial", "The result is not {a}.", asserts="", domain="any")
    # 0xf5, the first byte of the sha256 of "denialThe result is not {a}.", is odd.
    assert template.half == "test"
    assert template.key == "f56efeb88c33c005"


def test_a_context_is_of_the_half_of_its_template_and_changes_no_label():
    cases = cases_of(SEED, DRAWS)
    labels = {(case.reward, case.template, case.label) for case in cases if not case.is_in_context}
    within = [case for case in cases if case.is_in_context]
    closings = [
        Counter(case.response.rpartition("\n\n")[2] for case in within if case.half == half)
        for half in ("dev", "test")
    ]
    frequent = [{text for text, count in counts.items() if count > MIN_CLOSINGS} for counts in closings]
    assert {(case.reward, case.template, case.label) for case in within} <= labels
    assert all(frequent)
    assert frequent[0].isdisjoint(frequent[1])


def test_no_placeholder_is_left_in_a_response():
    pattern = re.compile(r"\{[abcpfq](:\w+)?\}")  # `\boxed{A}` is a choice
    left = [case.response for case in cases_of(SEED, DRAWS) if pattern.search(case.response)]
    assert left == []


def test_the_asserted_value_is_the_only_gold_that_is_paid():
    (template,) = [t for t in load_templates() if t.text == "The answer is not {a} but {b}."]
    cases = [case for case in make_cases(5, [template], draws=1) if not case.is_in_context]
    assert [case.label for case in cases] == ["not", "pay"]
    assert all(str(case.gold) in case.response.replace(",", "") for case in cases)


def test_a_contested_template_is_counted_nowhere():
    contested = [case for case in cases_of(SEED, DRAWS) if case.label == "contested"]
    total, families, failing = scoring.tally(contested, scoring.MODES[0])
    assert contested
    assert (total.counts, families, failing) == (Counter(), {}, [])


def test_values_of_one_template_differ_in_every_case():
    cases = [case for case in cases_of(SEED, DRAWS) if case.family == "contrast" and case.label == "not"]
    assert cases
    by_response = sorted((case.response, str(case.gold), case.choices) for case in cases)
    assert all(first != second for first, second in pairwise(by_response))
