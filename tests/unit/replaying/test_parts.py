"""The parts of a replay: what is taken out of texts, what is compared, told and played."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ors_server.model.errors import RecordError
from ors_server.model.policy import EpisodePolicy
from ors_server.model.trajectory import EpisodeOrigin, Step, StepStatus
from ors_server.model.wire import ImageBlock, TextBlock
from ors_server.recovery.normalising import FOLDER, SESSION, VOLATILE, Normaliser
from ors_server.recovery.recorded_episode import (
    is_machinery,
    overlapping,
    overrides_of,
    recorded_policy,
    repeatable_steps,
    restored_to,
)
from ors_server.recovery.step_comparison import COMPARED, ReplayDifference, compare_origins, compare_steps
from ors_server.replaying.rendering import MAX_LINES, MAX_WIDTH, explain, render
from ors_server.replaying.replay_result import EpisodeReplay, ReplayVerdict, StepReplay, StepVerdict
from ors_server.testing.store_promises import make_origin, make_step

START = datetime(2026, 1, 1, tzinfo=UTC)


def step(number: int = 1, **fields) -> Step:
    given: dict[str, Any] = {"call_id": f"call-{number}", "tool": "look", "arguments": {}, "metadata": None}
    given |= {"blocks": (TextBlock(text="a"),), "reward": 0.5, "components": {"tool": 0.5}, "duration": 0.5}
    return make_step(number, **(given | {"started_at": START + timedelta(seconds=number)} | fields))


def origin(**fields) -> EpisodeOrigin:
    given: dict[str, Any] = {"environment": "casino", "environment_version": "1", "server_version": "1"}
    given |= {"policy": {"step_limit": 3, "overridable": ["a", "b"]}, "episode_id": "e" * 32}
    return make_origin(3, **(given | {"task_hash": "0"} | fields))


def test_texts_lose_what_is_volatile_and_both_sessions_ids():
    normaliser = Normaliser([r"\d\d:\d\d"], ["session-0001", "session-0002"])
    assert normaliser.text("12:00 in session-0001, 12:01 in session-0002") == (
        f"{VOLATILE} in {SESSION}, {VOLATILE} in {SESSION}"
    )


def test_the_folder_of_a_sandbox_on_the_host_has_no_name_of_its_own():
    found = Normaliser().text(
        "cat: /run/ors-server/ors-4dd3cbe32c81/s2/files/work/a: no; /tmp/ors-x/s2/files"
    )
    assert found == f"cat: {FOLDER}/work/a: no; /tmp/ors-x/s2/files"


def test_an_id_that_may_be_a_word_stays():
    assert Normaliser((), ["1"]).text("1 apple") == "1 apple"


def test_details_lose_it_however_deep_and_other_values_stay():
    block = TextBlock(text="at 7", detail={"at 7": ["at 8", {"n": 9, "b": None}]})
    assert Normaliser([r"at \d"]).blocks([block]) == [
        {"type": "text", "text": VOLATILE, "detail": {"at 7": [VOLATILE, {"n": 9, "b": None}]}}
    ]


def test_pictures_stay_as_they_are():
    picture = ImageBlock(data="aaaa", mimeType="image/png")
    assert Normaliser(["a+"]).blocks([picture]) == [
        {"type": "image", "mimeType": "image/png", "data": "aaaa"}
    ]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("status", StepStatus.UNGRADED),
        ("error_code", "tool_error"),
        ("blocks", ()),
        ("reward", 0.5000000000000001),
        ("components", {"tool": 0.25}),
        ("finished", True),
    ],
)
def test_every_field_that_is_compared_is_seen(field, value):
    (difference,) = compare_steps(step(), replace(step(), **{field: value}), Normaliser())
    assert difference.field == field
    assert difference.as_json().keys() == {"field", "was", "now"}


def test_every_other_field_may_differ():
    other = step(2, call_id="x", error="words", metadata={"episode": {"time_remaining": 3}}, duration=9.0)
    assert compare_steps(step(), other, Normaliser()) == ()
    assert set(COMPARED) == {"status", "error_code", "blocks", "reward", "components", "finished"}


def test_rules_that_are_sets_have_no_order_and_other_rules_are_told():
    now = origin(policy={"step_limit": 4, "overridable": ["b", "a"]}, visibility="visible", task_hash="1")
    assert compare_origins(origin(), now) == (
        "the policy's step_limit was 3 and is 4",
        "the visibility was meta and is visible",
        "the task's hash was 0 and is 1",
    )


def test_rules_come_back_by_overriding_what_may_be():
    own = EpisodePolicy(tool_error_penalty=1.0)
    recorded = recorded_policy(EpisodePolicy(step_limit=3).model_dump(mode="json") | {"unknown_rule": 1})
    assert overrides_of(recorded, own) == ({"step_limit": 3}, ("tool_error_penalty",))
    assert overrides_of(EpisodePolicy(), EpisodePolicy(step_limit=3)) == ({}, ("step_limit",))
    with pytest.raises(RecordError, match="step_limit"):
        recorded_policy({"step_limit": 0})


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("sandbox_failed", True),
        ("store_unavailable", True),
        ("resource_start", True),
        ("internal_error", True),
        ("tool_failed", False),
        ("timeout", False),
        (None, False),
    ],
)
def test_codes_tell_whether_the_machinery_failed(code, expected):
    assert is_machinery(code) is expected


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (None, None),
        ({}, None),
        ({"episode": "mine"}, None),
        ({"episode": {"step": 1}}, None),
        ({"episode": {"restored_to_step": 0}}, 0),
    ],
    ids=["none", "empty", "an author's", "not restored", "restored"],
)
def test_a_step_tells_of_a_snapshot_that_was_restored(metadata, expected):
    assert restored_to(step(metadata=metadata)) == expected


def test_steps_that_begin_before_the_last_one_ended_overlap():
    second = step(2, started_at=START + timedelta(seconds=1.2), duration=2.0)
    steps = [step(1), second, step(3, duration=9.0), step(4)]
    assert overlapping(steps) == (2, 3, 4)
    assert overlapping([step(1, duration=1.0000001), step(2)]) == ()


def test_calls_that_can_be_made_again_end_at_a_restored_snapshot():
    steps = [
        step(1),
        step(2, status=StepStatus.CANCELLED),
        step(3, status=StepStatus.FAILED, error_code="sandbox_start"),
        step(4, status=StepStatus.FAILED, error_code="tool_failed"),
        step(5, metadata={"episode": {"restored_to_step": 1}}),
        step(6),
    ]
    assert [call.call_id for call in repeatable_steps(steps)] == ["call-1", "call-4"]


def told(verdict: StepVerdict, *differences: ReplayDifference, why: str | None = None) -> StepReplay:
    return StepReplay(1, "look", {"at": "sun"}, verdict, differences, why)


def of(*verdicts: StepVerdict) -> EpisodeReplay:
    return EpisodeReplay(origin(), tuple(map(told, verdicts)))


@pytest.mark.parametrize(
    ("replay", "verdict"),
    [
        (EpisodeReplay(origin()), ReplayVerdict.IDENTICAL),
        (of(StepVerdict.SAME, StepVerdict.SKIPPED), ReplayVerdict.IDENTICAL),
        (of(StepVerdict.SKIPPED), ReplayVerdict.INCONCLUSIVE),
        (of(StepVerdict.SAME, StepVerdict.UNPLAYED), ReplayVerdict.INCONCLUSIVE),
        (of(StepVerdict.UNCERTAIN), ReplayVerdict.INCONCLUSIVE),
        (of(StepVerdict.DIFFERENT, StepVerdict.UNCERTAIN), ReplayVerdict.DIFFERENT),
        (EpisodeReplay(origin(), differences=(ReplayDifference("prompt", [], []),)), ReplayVerdict.DIFFERENT),
        (EpisodeReplay(origin(), failure="no"), ReplayVerdict.FAILED),
    ],
    ids=["nothing", "skipped one", "skipped all", "unplayed", "uncertain", "different", "prompt", "failed"],
)
def test_what_steps_came_to_decides_what_the_episode_came_to(replay, verdict):
    assert replay.verdict is verdict
    assert replay.as_json()["verdict"] == verdict.value


def test_a_replay_in_words_shows_what_was_and_what_is():
    text = ReplayDifference(
        "blocks",
        [{"type": "text", "text": "one\ntwo"}, {"type": "image", "data": "AA"}],
        [{"type": "text", "text": "one\n2", "detail": {"stream": "stdout"}}, {"type": "image", "data": "AB"}],
    )
    others = (ReplayDifference("reward", None, 0.5), ReplayDifference("status", "graded", ""))
    replay = EpisodeReplay(
        origin(),
        (
            told(StepVerdict.SAME),
            told(StepVerdict.DIFFERENT, text, *others),
            told(StepVerdict.SKIPPED, why="nobody knows"),
        ),
        (ReplayDifference("prompt", [{"type": "text", "text": "a"}], [{"type": "text", "text": "b"}]),),
        ("the server is another",),
    )
    assert list(render(replay)) == [
        (
            f"{'e' * 32} (casino, train 3): different: 1 of 3 steps are the same, "
            "1 different, 1 not comparable, the prompt differs"
        ),
        "  note: the server is another",
        "  prompt",
        "    - a",
        "    + b",
        '  step 1, look {"at": "sun"}: different',
        "    blocks",
        '      + {"detail": {"stream": "stdout"}}',
        "        one",
        "      - two",
        "      + 2",
        '      - {"data": "AA", "type": "image"}',
        '      + {"data": "AB", "type": "image"}',
        "    reward",
        "      - null",
        "      + 0.5",
        "    status",
        "      - graded",
        "      + ",
        '  step 1, look {"at": "sun"}: skipped (nobody knows)',
    ]


def test_a_failed_replay_in_words_says_why():
    (line,) = render(EpisodeReplay(origin(split=None, index=None), failure="no such environment"))
    assert line == f"{'e' * 32} (casino): failed: no such environment"


def test_long_differences_are_cut():
    lines = explain(ReplayDifference("blocks", "", "\n".join(["x" * (2 * MAX_WIDTH)] * (2 * MAX_LINES))))
    assert len(lines) == MAX_LINES + 1
    assert lines[-1] == f"... {MAX_LINES + 1} more lines"
    assert max(map(len, lines)) == MAX_WIDTH + 3


def test_long_arguments_are_cut():
    long = StepReplay(1, "look", {"at": "x" * 500}, StepVerdict.UNPLAYED)
    line = list(render(EpisodeReplay(origin(), (long,))))[1]
    assert line.endswith("xxx...: unplayed")
    assert len(line) < 200
