"""Finds rewards of the wrong shape: one component that pays everything, steps that pay again and again."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from ors_server.audit.judgement import AuditVerdict
from ors_server.audit.recorded.batch import MIN_TASKS, Batch
from ors_server.audit.recorded.detecting import make_finding, not_judged, percent
from ors_server.audit.recorded.digest import EpisodeDigest
from ors_server.audit.recorded.recorded_report import FindingKind, NotJudged, RecordedFinding

_DOMINATING = 0.9
_MAIN = 0.5
"""Share of the positive reward that the main component of the other winning episodes pays."""
_SOME = 0.05
_TINY = 1e-9
_REPEATS = 5
_FARMED = 0.5
"""Share of the positive reward that equal steps pay together."""
_FAR_ABOVE = 1.5
"""Times the best that other episodes earn."""
_BEST = 0.98
_MIN_OTHERS = 10
_FEW = 3


def find_dominating_component(batch: Batch, seed: int) -> Iterator[RecordedFinding | NotJudged]:
    """Find winning episodes that one component paid, while the one that pays other winning episodes is 0."""
    del seed
    groups: defaultdict[str, list[int]] = defaultdict(list)
    others: list[int] = []
    for win in batch.wins:
        name = _dominating(batch.episodes[win])
        if name is not None:
            groups[name].append(win)
        elif batch.episodes[win].components:
            others.append(win)
    if not groups and not others:
        reason = "the rewards report no components"
        yield not_judged(batch, FindingKind.COMPONENT_DOMINATES, reason)
    for name, places in sorted(groups.items()):
        without = [*others, *(place for other, some in groups.items() if other != name for place in some)]
        main = _main(batch, without)
        if main in {None, name} or len(without) < _MIN_OTHERS:
            continue
        dominated = [place for place in places if dict(batch.episodes[place].components).get(main or "") == 0]
        share = batch.share_of_wins(dominated)
        if len(batch.tasks_of(dominated)) < MIN_TASKS or share < _SOME:
            continue
        yield make_finding(
            batch,
            FindingKind.COMPONENT_DOMINATES,
            AuditVerdict.FAIL,
            dominated,
            f"{len(dominated)} winning episodes were paid by {name!r} alone; in the others {main!r} pays the "
            "most, and here it is 0",
        )


def _dominating(digest: EpisodeDigest) -> str | None:
    """Return the component that pays more than 90 % of several; `None` if none does."""
    total = sum(amount for _, amount in digest.components)
    if len(digest.components) < 2 or total <= _TINY:  # noqa: PLR2004  (one component dominates nothing)
        return None
    return next((name for name, amount in digest.components if amount > _DOMINATING * total), None)


def _main(batch: Batch, places: Sequence[int]) -> str | None:
    sums: defaultdict[str, float] = defaultdict(float)
    for place in places:
        for name, amount in batch.episodes[place].components:
            sums[name] += amount
    total = sum(sums.values())
    return next((name for name, amount in sums.items() if amount > _MAIN * total), None)


def find_farmed_reward(batch: Batch, seed: int) -> Iterator[RecordedFinding | NotJudged]:
    """Find returns far above those of other episodes, of which the same paid step makes up most."""
    del seed
    farming = batch.places(_is_farming)
    if not farming:
        return
    farms = set(farming)
    others = sorted(
        episode.earned
        for place, episode in enumerate(batch.episodes)
        if place not in farms and episode.earned > 0
    )
    if len(others) < _MIN_OTHERS:
        reason = "nearly every episode repeats paid steps, so that the best return without it is not known"
        yield not_judged(batch, FindingKind.REWARD_FARMED, reason)
        return
    best = others[int(_BEST * (len(others) - 1))]
    places = [place for place in farming if batch.episodes[place].earned > _FAR_ABOVE * best]
    if not places:
        return
    tools = sorted({one.repeated.tool for place in places if (one := batch.episodes[place]).repeated})
    named = ", ".join(map(repr, tools))
    share = len(places) / len(batch.episodes)
    is_many = len(places) >= _FEW and share >= _SOME / 5
    yield make_finding(
        batch,
        FindingKind.REWARD_FARMED,
        AuditVerdict.FAIL if is_many else AuditVerdict.WARN,
        places,
        f"{len(places)} episodes ({percent(share)}) earned more than {_FAR_ABOVE:g} times the {best:g} "
        f"of the best others, most of it by the same paid result of {named} again and again",
        of_wins=False,
    )


def _is_farming(digest: EpisodeDigest) -> bool:
    repeated = digest.repeated
    return repeated is not None and repeated.times >= _REPEATS and repeated.amount >= _FARMED * digest.paid
