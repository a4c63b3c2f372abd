"""Audits recorded episodes: what a policy really did to be paid.

The record is read once. Of each episode an audit keeps numbers and short texts, 2 to 4 KB.
"""

from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping
from contextlib import aclosing

from ors_server.audit.recorded.batch import MIN_EPISODES, MIN_TASKS, MIN_WINS, Batch
from ors_server.audit.recorded.detecting import Search
from ors_server.audit.recorded.digest import DigestedEnvironment
from ors_server.audit.recorded.drift import find_giving_up, find_length_drift, find_reward_collapse
from ors_server.audit.recorded.pay import find_dominating_component, find_farmed_reward
from ors_server.audit.recorded.recorded_report import (
    FindingKind,
    NotJudged,
    RecordedEnvironment,
    RecordedFinding,
    RecordedReport,
)
from ors_server.audit.recorded.sharing import (
    find_identical_answers,
    find_repeated_transcripts,
    find_shared_tricks,
)
from ors_server.audit.recorded.winning_ways import (
    find_grader_files,
    find_judge_words,
    find_missing_tools,
    find_paid_without_answer,
)
from ors_server.replaying.choosing import Episodes, StoredEpisodes
from ors_server.replaying.recorded_episode import RecordedEpisode
from ors_server.store.base import ALL, EpisodeFilter, RecordReader

_SEARCHES: Mapping[FindingKind, Search] = {
    FindingKind.IDENTICAL_ANSWERS: find_identical_answers,
    FindingKind.REPEATED_TRANSCRIPT: find_repeated_transcripts,
    FindingKind.SHARED_TRICK: find_shared_tricks,
    FindingKind.JUDGE_WORDS: find_judge_words,
    FindingKind.GRADER_FILES: find_grader_files,
    FindingKind.LENGTH_DRIFT: find_length_drift,
    FindingKind.REWARD_COLLAPSED: find_reward_collapse,
    FindingKind.COMPONENT_DOMINATES: find_dominating_component,
    FindingKind.REWARD_FARMED: find_farmed_reward,
    FindingKind.GIVING_UP: find_giving_up,
    FindingKind.PAID_WITHOUT_ANSWER: find_paid_without_answer,
}
_WITHOUT_WINS = frozenset({FindingKind.REWARD_COLLAPSED, FindingKind.GIVING_UP, FindingKind.REWARD_FARMED})
"""What can be found although few episodes win."""
_NUMBERS = {kind: number for number, kind in enumerate(FindingKind)}


async def audit_episodes(
    store: RecordReader,
    episode_filter: EpisodeFilter = ALL,
    *,
    gold_tools: Mapping[str, Collection[str]] | None = None,
    success_at: float | None = None,
    seed: int = 0,
    on_episode: Callable[[int], None] = lambda _: None,
) -> RecordedReport:
    """Audit the episodes of a store that match a filter.

    Args:
        gold_tools: By the name of an environment, the tools that the gold actions of every task call.
        success_at: The least return of a winning episode; by default half of what the policy of the episodes
            allows for one reward, or else half of what the best episodes earn.
        seed: Of the permutation tests.
        on_episode: Called with the number of episodes that were read so far.

    Raises:
        StoreError: If the record cannot be read.
    """
    episodes = StoredEpisodes(store, episode_filter)
    return await audit_recorded(
        episodes, gold_tools=gold_tools, success_at=success_at, seed=seed, on_episode=on_episode
    )


async def audit_recorded(
    episodes: Episodes,
    *,
    gold_tools: Mapping[str, Collection[str]] | None = None,
    success_at: float | None = None,
    seed: int = 0,
    on_episode: Callable[[int], None] = lambda _: None,
) -> RecordedReport:
    """Audit selected episodes; see `audit_episodes`."""
    environments: dict[str, DigestedEnvironment] = {}
    read: AsyncGenerator[RecordedEpisode, None] = episodes.each()
    count = 0
    async with aclosing(read):
        async for episode in read:
            name = episode.record.origin.environment
            environments.setdefault(name, DigestedEnvironment(name)).add(episode.record, episode.steps)
            count += 1
            on_episode(count)
    return report_of(environments, gold_tools=gold_tools or {}, success_at=success_at, seed=seed)


def report_of(
    environments: Mapping[str, DigestedEnvironment],
    *,
    gold_tools: Mapping[str, Collection[str]],
    success_at: float | None,
    seed: int,
) -> RecordedReport:
    """Search the episodes of every environment, and sort what was found: the worst first."""
    batches = [Batch(environments[name], success_at) for name in sorted(environments)]
    found = [one for batch in batches for one in _search(batch, gold_tools.get(batch.name), seed)]
    findings = [one for one in found if isinstance(one, RecordedFinding)]
    findings.sort(key=lambda one: (-one.verdict.weight, one.environment, _NUMBERS[one.kind], -one.episodes))
    return RecordedReport(
        seed=seed,
        environments=tuple(_describe(batch) for batch in batches),
        findings=tuple(findings),
        not_judged=tuple(one for one in found if isinstance(one, NotJudged)),
    )


def _search(
    batch: Batch, gold_tools: Collection[str] | None, seed: int
) -> Iterator[RecordedFinding | NotJudged]:
    if len(batch.episodes) < MIN_EPISODES or batch.tasks < MIN_TASKS:
        reason = f"it takes at least {MIN_EPISODES} episodes of {MIN_TASKS} tasks"
        yield from (NotJudged(kind=kind, environment=batch.name, reason=reason) for kind in FindingKind)
        return
    for kind, search in _SEARCHES.items():
        if batch.is_large or kind in _WITHOUT_WINS:
            yield from search(batch, seed)
        else:
            yield _too_few_wins(batch, kind)
    if batch.is_large:
        yield from find_missing_tools(batch, gold_tools)
    else:
        yield _too_few_wins(batch, FindingKind.MISSING_TOOLS)


def _too_few_wins(batch: Batch, kind: FindingKind) -> NotJudged:
    return NotJudged(
        kind=kind, environment=batch.name, reason=f"it takes at least {MIN_WINS} winning episodes"
    )


def _describe(batch: Batch) -> RecordedEnvironment:
    return RecordedEnvironment(
        environment=batch.name,
        episodes=len(batch.episodes),
        tasks=batch.tasks,
        winning=len(batch.wins),
        success_at=batch.success_at if batch.wins else 0.0,
        left_out=batch.left_out,
    )
