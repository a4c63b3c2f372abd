"""The rules of an episode: what may be declared, what a session may change, what a tool may pay."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ors_server.model.errors import InvalidRequestError
from ors_server.model.policy import MAX_REWARD, ROUNDING_TOLERANCE, EpisodePolicy, RewardRangeError
from ors_server.rewards.result import RewardResult
from ors_server.rewards.reward_errors import RewardValueError

LIMITS = ["step_limit", "time_limit", "call_time_limit", "setup_time_limit"]
NUMBERS = [
    name for name in EpisodePolicy.model_fields if name.endswith(("_limit", "_penalty")) or name == "discount"
]


@pytest.mark.parametrize("field", NUMBERS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1, "x"])
def test_no_number_of_the_rules_may_be_nonsense(field, value):
    with pytest.raises(ValidationError):
        EpisodePolicy(**{field: value})


@pytest.mark.parametrize(
    "wrong",
    [
        {"step_limit": 0},
        {"time_limit": 0},
        {"call_time_limit": 0},
        {"discount": 0},
        {"discount": 1.5},
        {"overlong_after": -1},
        {"timeout_penalty": 1e200},
        {"reward_range": (1.0, 0.0)},
        {"reward_range": (0.0, math.inf)},
        {"reward_range": (math.nan, 1.0)},
        {"reward_range": (0.0, 1e200)},
        {"overridable": ("step_limit", "nonesuch")},
        {"nonesuch": 1},
    ],
    ids=str,
)
def test_wrong_rules_are_refused_where_they_are_written(wrong):
    with pytest.raises(ValidationError):
        EpisodePolicy(**wrong)


def test_rules_cannot_be_changed_afterwards():
    with pytest.raises(ValidationError):
        EpisodePolicy().step_limit = 5


@pytest.mark.parametrize("reward", [None, 0.0, -0.0, 1.0, -MAX_REWARD, MAX_REWARD])
def test_without_a_range_every_sensible_reward_is_admitted(reward):
    assert EpisodePolicy().admit(reward) == reward


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf, 1e101])
def test_without_a_range_nonsense_is_refused_even_when_clipping(reward):
    for policy in (EpisodePolicy(), EpisodePolicy(clip_rewards=True)):
        with pytest.raises(RewardRangeError):
            policy.admit(reward)


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_what_is_admitted_lies_in_the_range(reward):
    strict = EpisodePolicy(reward_range=(-1.0, 2.0))
    clipping = EpisodePolicy(reward_range=(-1.0, 2.0), clip_rewards=True)
    if not math.isfinite(reward):
        for policy in (strict, clipping):
            with pytest.raises(RewardRangeError):
                policy.admit(reward)
        return
    assert clipping.admit(reward) == min(max(reward, -1.0), 2.0)
    if -1.0 - ROUNDING_TOLERANCE <= reward <= 2.0 + ROUNDING_TOLERANCE:
        assert strict.admit(reward) == min(max(reward, -1.0), 2.0)
    else:
        with pytest.raises(RewardRangeError, match="outside the range"):
            strict.admit(reward)


@pytest.mark.parametrize(
    ("reward", "admitted"), [(1.0000000000000002, 1.0), (1 + 1e-9, 1.0), (-1e-9, 0.0), (-5e-324, 0.0)]
)
def test_a_reward_that_misses_its_range_by_rounding_becomes_the_end(reward, admitted):
    assert EpisodePolicy(reward_range=(0.0, 1.0)).admit(reward) == admitted
    assert RewardResult(reward).within((0.0, 1.0)) == RewardResult(admitted)


@pytest.mark.parametrize("reward", [1 + 2e-9, -2e-9])
def test_a_reward_that_misses_its_range_by_more_is_refused(reward):
    with pytest.raises(RewardRangeError):
        EpisodePolicy(reward_range=(0.0, 1.0)).admit(reward)
    with pytest.raises(RewardValueError):
        RewardResult(reward).within((0.0, 1.0))


EVERYTHING = EpisodePolicy(
    step_limit=10,
    time_limit=10.0,
    call_time_limit=10.0,
    setup_time_limit=10.0,
    overridable=frozenset(EpisodePolicy.model_fields),
)


@pytest.mark.parametrize("field", LIMITS)
def test_a_limit_may_be_made_stricter_and_not_looser(field):
    assert getattr(EVERYTHING.override({field: 5}), field) == 5
    assert getattr(EVERYTHING.override({field: 10}), field) == 10
    for looser in (11, None):
        with pytest.raises(InvalidRequestError, match="may only be stricter"):
            EVERYTHING.override({field: looser})


@pytest.mark.parametrize("field", LIMITS)
def test_where_there_is_no_limit_any_is_stricter(field):
    free = EpisodePolicy(**dict.fromkeys(LIMITS), overridable=frozenset(LIMITS))
    assert getattr(free.override({field: 3}), field) == 3
    assert getattr(free.override({field: None}), field) is None


def test_only_what_the_environment_allows_may_be_overridden():
    with pytest.raises(
        InvalidRequestError, match="may override call_time_limit, emit, step_limit, time_limit, got discount"
    ):
        EpisodePolicy().override({"discount": 0.5})
    with pytest.raises(InvalidRequestError, match="may override nothing"):
        EpisodePolicy(overridable=frozenset()).override({"step_limit": 1})
    with pytest.raises(InvalidRequestError, match="nonesuch"):
        EVERYTHING.override({"nonesuch": 1})


@pytest.mark.parametrize("value", ["many", -1, 0, 1.5, math.nan, [], {}], ids=repr)
def test_an_override_of_the_wrong_kind_is_the_clients_mistake(value):
    with pytest.raises(InvalidRequestError, match="override is invalid"):
        EVERYTHING.override({"step_limit": value})


def test_an_override_changes_nothing_else_and_no_override_nothing():
    policy = EpisodePolicy(step_limit=3)
    assert policy.override({}) is policy
    changed = EVERYTHING.override({"step_limit": 3})
    assert changed.model_dump(exclude={"step_limit"}) == EVERYTHING.model_dump(exclude={"step_limit"})
