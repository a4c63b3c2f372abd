"""An audit of a record: read once, the same report each time, and honest about what it cannot judge."""

import time
import tracemalloc

import pytest

from ors_server.audit.judgement import AuditVerdict
from ors_server.audit.recorded.drift import trend_of
from ors_server.audit.recorded.fragments import FragmentCounts
from ors_server.audit.recorded.recorded_audit import audit_episodes
from ors_server.audit.recorded.recorded_report import FindingKind, RecordedReport
from ors_server.store.episode_filter import EpisodeFilter
from ors_server.store.memory import MemoryStore
from ors_server.store.open import open_reader
from tests.fixtures.recorded_episodes import Played, step_of, write
from tests.fixtures.trained_quiz import record_quiz
from tests.fixtures.training_batches import HONEST, TRICKS, make_batch


@pytest.fixture(scope="module")
def quiz(tmp_path_factory):
    """A record of a real server, and the sessions with the trick."""
    where = str(tmp_path_factory.mktemp("quiz") / "episodes.db")
    return where, record_quiz(where, seed=5)


async def audit(where: str, *args, **options) -> RecordedReport:
    reader = await open_reader(where)
    try:
        return await audit_episodes(reader, *args, **options)
    finally:
        await reader.aclose()


async def sessions_of(where: str, ids) -> set[str]:
    reader = await open_reader(where)
    found = [await reader.find(one) for one in ids]
    await reader.aclose()
    return {one.origin.session_id for one in found if one is not None}


async def test_a_trick_in_a_servers_record_is_found_with_its_episodes(quiz):
    where, tricked = quiz
    counts: list[int] = []
    gold = {"town_quiz": {"look_up", "submit"}}
    report = await audit(where, gold_tools=gold, on_episode=counts.append)
    failed = {one.kind: one for one in report.failed}
    assert failed.keys() >= {FindingKind.JUDGE_WORDS, FindingKind.MISSING_TOOLS}
    for kind in (FindingKind.JUDGE_WORDS, FindingKind.MISSING_TOOLS):
        assert failed[kind].episodes == len(tricked)
        assert await sessions_of(where, failed[kind].episode_ids) <= tricked
    assert failed[FindingKind.JUDGE_WORDS].hack_class == "H7"
    assert counts == list(range(1, 241))
    (environment,) = report.environments
    assert (environment.episodes, environment.tasks, environment.left_out) == (240, 20, 0)


async def test_the_same_record_gives_the_identical_report(quiz):
    first, second = [await audit(quiz[0], seed=3) for _ in range(2)]
    assert first.model_dump_json() == second.model_dump_json()
    assert RecordedReport.model_validate_json(first.model_dump_json()) == first


async def test_a_filter_selects_the_episodes(quiz):
    report = await audit(quiz[0], EpisodeFilter(max_return=0.5))
    (environment,) = report.environments
    assert 0 < environment.episodes < 240
    assert environment.winning == 0
    assert "it takes at least 20 winning episodes" in {one.reason for one in report.not_judged}
    assert (await audit(quiz[0], EpisodeFilter(environment="other"))).environments == ()


def test_few_episodes_are_not_judged_rather_than_passed(judge):
    report = judge(make_batch(HONEST["numbers"], 1, episodes=16)[0])
    assert report.findings == ()
    assert {one.kind for one in report.not_judged} == set(FindingKind)
    assert report.not_judged[0].reason == "it takes at least 40 episodes of 8 tasks"


def test_episodes_that_are_not_over_or_were_not_judged_are_left_out(judge):
    played = [
        Played("going", [step_of(1)], stop_reason=None),
        Played("broken", [step_of(1)], stop_reason="failed"),
        Played("unjudged", [step_of(1, reward=None)]),
        Played("idle", [], stop_reason="time_limit"),
    ]
    (environment,) = judge(played).environments
    assert (environment.episodes, environment.left_out) == (1, 3)


def test_environments_are_judged_apart(judge):
    maker, trick, _ = TRICKS["constant"]
    bad, _ = make_batch(maker, 1, trick=trick, episodes=400)
    good = [
        Played(f"x{one.name}", one.steps, environment="honest", task=one.task, created_at=one.created_at)
        for one in make_batch(HONEST["choices"], 2, episodes=400)[0]
    ]
    report = judge([one for pair in zip(bad, good, strict=True) for one in pair])
    assert {one.environment for one in report.findings} == {"batch"}
    assert [one.environment for one in report.environments] == ["batch", "honest"]


def test_what_counts_as_winning_can_be_given(judge):
    played, _ = make_batch(HONEST["rated"], 1, episodes=240)
    assert judge(played).environments[0].success_at < 0.6
    assert judge(played, success_at=0.9).environments[0].winning < judge(played).environments[0].winning


async def test_two_thousand_episodes_are_judged_in_little_memory():
    store = MemoryStore()
    maker, trick, _ = TRICKS["hidden_line_of_code"]
    await write(store, make_batch(maker, 1, trick=trick, episodes=2000, tasks=100)[0])
    began = time.perf_counter()
    report = await audit_episodes(store)
    print(f"2,000 episodes: {time.perf_counter() - began:.1f} s")  # noqa: T201  (for who runs it)
    assert report.environments[0].episodes == 2000
    assert [one.verdict for one in report.failed] == [AuditVerdict.FAIL] * len(report.failed)
    assert report.failed[0].kind is FindingKind.SHARED_TRICK


def test_the_table_of_fragments_does_not_grow_with_the_record():
    counts = FragmentCounts()
    tracemalloc.start()
    for number in range(6000):
        counts.add(
            number, [step_of(1, arguments={"answer": f"the shared line of all\nonly {number} has it"})]
        )
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 20_000_000
    assert "the shared line of all" in counts.common(5000).values()


def test_a_trend_has_a_correlation_a_slope_and_a_small_p():
    trend = trend_of([float(number) for number in range(30)], seed=1)
    assert (round(trend.correlation, 6), round(trend.slope, 6)) == (1.0, 29.0)
    assert trend.p == pytest.approx(0.001)
    flat = trend_of([1.0] * 30)
    assert (flat.correlation, flat.p) == (0.0, 1.0)
    falling = trend_of([float(-number) for number in range(30)])
    assert falling.p > 0.9
    assert falling.correlation == pytest.approx(-1.0)
