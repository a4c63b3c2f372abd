"""`episodes show`: all of it, nothing of it to be obeyed."""

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ors_server.cli.episodes_show import header_lines, step_lines, summary_lines
from ors_server.model.recording import RECORD, STEP
from ors_server.model.trajectory import EpisodeOrigin, EpisodeRecord, Fork, StepStatus, first_summary
from ors_server.testing.store_promises import make_step
from tests.fixtures.workshop import HOSTILE

LIMIT = 60


def test_an_episode_is_shown_step_by_step(episodes, long_one):
    ran = episodes("show", long_one)
    assert (ran.status, ran.err) == (0, "")
    text = re.sub(r"\(\d+\.\d{3} s\)", "(TIME)", ran.out)
    for line in (
        f"episode {long_one}",
        "  environment  workshop 3",
        "  seed         11",
        "  labels       run=a attempt=1",
        "  policy       step_limit 9, invalid_call_penalty 0.25",
        "  sandbox      none",
        "prompt",
        "    Make number 4.",
        "step 1  make  ungraded, no reward  (TIME)",
        "  text:",
        "    line 20",
        "    ... 80 more lines, 561 more characters; --full shows them",
        "step 2  draw  ungraded, no reward  (TIME)",
        "    [image/png, 8 bytes]",
        "step 3  no\\x1b[31mred\\x1b]0;title\\x07\\u009b2J\\u202egnp.exetool  refused, reward -0.25  (TIME)",
        "step 4  fail  failed, no reward  (TIME)",
        "step 5  make  graded, reward 0.5  (TIME)",
        "  reward: 0.5",
        "step 6  hand_in  graded, reward 1, finished  (TIME)",
        "    thank you",
        "transitions",
        "summary  deleted, completed",
        "  return       1.25 = rewards 1.5 + penalties -0.25 (invalid_call -0.25)",
        "  steps        6 (3 ungraded, 1 failed, 1 refused, 1 penalised, 0 unjudged)",
        "  error tool_failed: RuntimeError: broken on purpose (tests/fixtures/workshop.py:46)",
    ):
        assert line in text.splitlines()
    assert "line 21" not in text
    assert "answer 42" not in text


def test_everything_is_shown_where_it_is_wanted(episodes, long_one):
    out = episodes("show", long_one, "--full").out
    assert "    line 100" in out.splitlines()
    assert "x" * 3000 in out
    assert "answer 42" in out
    assert "--full" not in out


@pytest.mark.parametrize("words", [(), ("--full",), ("--json",), ("--step", "3"), ("--step", "3", "--json")])
def test_nothing_that_a_terminal_obeys_is_printed(episodes, long_one, words):
    out = episodes("show", long_one, *words).out
    assert "red" in out
    assert re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", out) is None


def test_one_step_is_shown_alone(episodes, long_one):
    out = episodes("show", long_one, "--step", "2").out
    assert out.startswith("step 2  draw")
    assert "step 3" not in out
    step = STEP.of_json(episodes("show", long_one, "--step", "3", "--json").json)
    assert (step.number, step.status, step.arguments) == (3, StepStatus.REFUSED, {"text": HOSTILE})


def test_the_whole_record_comes_as_one_object(episodes, long_one):
    given = episodes("show", long_one, "--json").json
    steps = [STEP.of_json(step) for step in given.pop("steps")]
    record = RECORD.of_json(given)
    assert record.origin.episode_id == long_one
    assert record.origin.task_spec == {"n": 4}
    assert record.is_closed
    assert [move.event for move in record.transitions] == ["setup_done", "step", "end", "delete"]
    assert [step.number for step in steps] == [1, 2, 3, 4, 5, 6]
    assert sum(step.reward or 0.0 for step in steps) == record.summary.episode_return == 1.25


def test_both_ways_lead_to_the_same_record(run, player, record, long_one):
    at_server = run("episodes", "show", long_one, "--json", "--url", player.url).json
    assert run("episodes", "show", long_one, "--json", "--store", record).json == at_server


def test_an_episode_is_found_by_a_prefix_and_by_its_session(episodes, short_one):
    for name in (short_one[:10], "known"):
        assert episodes("show", name, "--json").json["origin"]["episode_id"] == short_one


@pytest.mark.parametrize(
    ("words", "status"),
    [(["show", "never"], 2), (["show", "known", "--step", "99"], 1), (["tail", "never"], 2)],
)
def test_what_is_not_there_is_one_line(episodes, words, status):
    ran = episodes(*words)
    assert (ran.status, ran.out) == (status, "")
    assert re.fullmatch(
        "ors-server: .*(the store has no episode .never.|none has the number 99).*\n", ran.err
    )


def test_nobody_who_reads_is_a_quiet_end(start, record, long_one):
    show = start("show", long_one, "--full", "--store", record)
    show.stdout.close()
    assert (show.wait(LIMIT), show.stderr.read()) == (141, "")


NOW = datetime(2026, 1, 1, tzinfo=UTC)
BARE = EpisodeOrigin("s", "game", "1", "1", {}, "0" * 64, None, None, NOW, {})
STEP_OF_NOTHING = make_step(
    1, tool="do", arguments={}, blocks=(), reward=None, components={}, metadata=None, duration=0.5
)


def told(lines):
    return [" ".join(text.split()) for text, _ in lines]


def test_a_header_says_what_isolated_the_agent_and_where_a_fork_left():
    sandbox = {"backend": "landlock", "level": 2, "gaps": ["the network is open"]}
    origin = replace(BARE, sandbox=sandbox, forked_from=Fork("other", 3), policy={"of_later": True})
    lines = told(header_lines(EpisodeRecord(origin, first_summary(origin))))
    assert "sandbox landlock, level 2, open: the network is open" in lines
    assert "forked from other after 3 steps" in lines
    assert "policy of_later true" in lines


def test_a_header_leaves_out_what_is_not_there():
    lines = told(header_lines(EpisodeRecord(BARE, first_summary(BARE))))
    names = [line.split()[0] for line in lines]
    assert not {"labels", "toolset", "credential", "forked"} & set(names)
    assert f"task hash {'0' * 64}" in lines
    assert "policy as by default" in lines


@pytest.mark.parametrize(
    ("reward", "components", "paid"),
    [
        (None, {}, "no reward"),
        (0.5, {"tool": 0.5}, "reward 0.5"),
        (0.25, {"tool": 0.5, "overlong": -0.25}, "reward 0.25 (tool 0.5, overlong -0.25)"),
        (None, {"tool": 0.5}, "0.5 withheld"),
        (1.0, {"tool": 0.5, "withheld": 0.5}, "reward 1 (tool 0.5, withheld 0.5)"),
    ],
)
def test_a_step_says_what_was_paid_and_for_what(reward, components, paid):
    step = replace(STEP_OF_NOTHING, reward=reward, components=components)
    assert told(step_lines(step, whole=False)) == [f"step 1 do graded, {paid} (0.500 s)"]


def test_an_error_of_many_lines_is_cut_like_any_text():
    step = replace(STEP_OF_NOTHING, error="\n".join("ab" * 30), error_code="tool_failed")
    lines = told(step_lines(step, whole=False))
    assert lines[1] == "error tool_failed: a"
    assert lines[-1] == "... 40 more lines, 40 more characters; --full shows them"


def test_figures_say_what_is_held_back_and_what_rewards_reported():
    summary = replace(first_summary(BARE), withheld=0.5, metrics={"reward_extra/f1/mean": 0.25})
    lines = told(summary_lines(summary, is_closed=False))
    assert lines[0] == "summary created, session still there"
    assert "withheld 0.5" in lines
    assert "reward_extra/f1/mean 0.25" in lines
    assert "played - to -" in lines
