"""Figures of episodes over time, by group and by return, from one small sample of each episode."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from pydantic import ConfigDict

from ors_server.model.clock import from_microseconds, to_microseconds
from ors_server.model.trajectory import RECORD_CONFIG, EpisodeRecord, EpisodeResult, result_of
from ors_server.store.aggregates import SUCCESS_AT, MeanReturn, bounded

LABEL = "label:"
"""Before the key of a label, in the names by which series are apart."""
ORIGINS = ("environment", "split", "environment_version", "server_version")
"""Properties of an episode by which series may be apart, besides labels."""
MAX_DEAD_SPREAD = 1e-6
"""Largest difference between the returns of a dead group: nothing in it says what was better."""
MIN_GRADED = 4
"""Fewest graded episodes of a group that is judged."""
_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class EpisodeSample:
    """What figures over time read of one episode."""

    created_at: int
    """Microseconds since 1970 in UTC."""
    result: str
    episode_return: float
    steps: int
    names: tuple[str, ...]
    """Values of the requested properties and labels; a missing one is empty."""
    episodes: int = 1
    """How many episodes it stands for, which agree in all but their steps; `steps` is then their sum."""


@dataclass(frozen=True, slots=True)
class SeriesPoint:
    """The episodes of one series that were created in one span of time."""

    __pydantic_config__: ClassVar[ConfigDict] = RECORD_CONFIG

    start: datetime
    """Beginning of the span, UTC: a multiple of its length since 1970."""
    group: Mapping[str, str]
    """The series: each requested name with its value, empty where an episode lacks it."""
    episodes: int
    returns: MeanReturn
    quantiles: tuple[float, float, float] | None
    """The 10th, 50th and 90th percentile of the graded returns; `None` without one."""
    success: float | None
    """Share of the graded episodes with a return of at least 1."""
    ungraded: int
    """Episodes that ended by their own rules without a reward or a penalty."""
    failed: int
    """Episodes in which the environment failed."""
    mean_steps: float


@dataclass(frozen=True, slots=True)
class ReturnHistogram:
    """How the returns of graded episodes are distributed."""

    __pydantic_config__: ClassVar[ConfigDict] = RECORD_CONFIG

    episodes: int
    """Graded episodes."""
    edges: tuple[float, ...]
    """Borders of the bins, one more than bins; a bin has its lower border, the last one both. Empty without a
    graded episode."""
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RolloutGroup:
    """Attempts at one task that belong together."""

    __pydantic_config__: ClassVar[ConfigDict] = RECORD_CONFIG

    group: str
    """The label `group`, or else the task's hash."""
    step: str
    """The label `step`; empty without one."""
    episodes: int
    graded: int
    mean: float | None
    least: float | None
    greatest: float | None
    successes: int
    kind: str
    """`fail`, `mixed` or `pass`, by the successes; `small` with fewer than 4 graded episodes."""
    is_dead: bool | None
    """Whether the returns are equal; `None` for a small group."""


def sample_of(record: EpisodeRecord, by: Sequence[str]) -> EpisodeSample:
    """Return the sample of a record."""
    labels = record.origin.labels
    return EpisodeSample(
        to_microseconds(record.origin.created_at),
        result_of(record.summary).value,
        record.summary.episode_return,
        record.summary.steps,
        tuple(
            labels.get(name.removeprefix(LABEL), "")
            if name.startswith(LABEL)
            else getattr(record.origin, name) or ""
            for name in by
        ),
    )


def to_span(every: float) -> int:
    """Return a length of time in microseconds, at least one."""
    return max(1, round(every * _SECOND))


def make_series(samples: Iterable[EpisodeSample], every: float, by: Sequence[str]) -> list[SeriesPoint]:
    """Sum samples up by series and span of time, in the order of time and then of the series.

    Args:
        every: Length of a span, seconds.
        by: The names of the samples' values.
    """
    span = to_span(every)
    members: dict[tuple[int, tuple[str, ...]], list[EpisodeSample]] = defaultdict(list)
    for sample in samples:
        members[sample.created_at // span, sample.names].append(sample)
    return [_point(start * span, names, by, group) for (start, names), group in sorted(members.items())]


def _point(start: int, names: tuple[str, ...], by: Sequence[str], group: list[EpisodeSample]) -> SeriesPoint:
    returns = sorted(_graded(group))
    count = sum(sample.episodes for sample in group)
    results: Counter[str] = Counter()
    for sample in group:
        results[sample.result] += sample.episodes
    return SeriesPoint(
        start=from_microseconds(start),
        group=dict(zip(by, names, strict=True)),
        episodes=count,
        returns=_mean_of(returns),
        quantiles=(_quantile(returns, 0.1), _quantile(returns, 0.5), _quantile(returns, 0.9))
        if returns
        else None,
        success=sum(value >= SUCCESS_AT for value in returns) / len(returns) if returns else None,
        ungraded=results[EpisodeResult.UNGRADED],
        failed=results[EpisodeResult.FAILED],
        mean_steps=sum(sample.steps for sample in group) / count,
    )


def _graded(group: Iterable[EpisodeSample]) -> list[float]:
    graded = (sample for sample in group if sample.result == EpisodeResult.GRADED)
    return [value for sample in graded for value in [sample.episode_return] * sample.episodes]


def _mean_of(returns: Sequence[float]) -> MeanReturn:
    sums = [bounded(value) for value in returns]
    return MeanReturn.of(len(sums), sum(sums), sum(value * value for value in sums))


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Interpolate between the two nearest values, as NumPy does by default."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def make_histogram(returns: Sequence[float], bins: int) -> ReturnHistogram:
    """Count returns in bins of equal width between the least and the greatest."""
    if not returns:
        return ReturnHistogram(0, (), ())
    values = [bounded(value) for value in returns]
    least, greatest = min(values), max(values)
    counts: Counter[int] = Counter()
    if least < greatest:
        edges = _edges_of(least, greatest, bins)
        counts.update(bisect_right(edges, value) - 1 for value in values)
    return histogram_of(len(values), least, greatest, counts, bins)


def histogram_of(
    episodes: int, least: float, greatest: float, counts: Mapping[int, int], bins: int
) -> ReturnHistogram:
    """Put a histogram together from the numbers of values by bin; the greatest value may have bin `bins`."""
    if least == greatest:
        return ReturnHistogram(episodes, (least, greatest), (episodes,))
    heights = [0] * bins
    for bin_, count in counts.items():
        heights[min(bin_, bins - 1)] += count
    return ReturnHistogram(episodes, _edges_of(least, greatest, bins), tuple(heights))


def _edges_of(least: float, greatest: float, bins: int) -> tuple[float, ...]:
    width = (greatest - least) / bins
    return (*(least + width * number for number in range(bins)), greatest)


GROUP_NAMES = ("label:group", "environment", "task_hash", "label:step")
"""The names of the samples from which groups are made."""


def make_groups(samples: Iterable[EpisodeSample]) -> list[RolloutGroup]:
    """Sum up the samples of one run by group, the group with the oldest episode first."""
    members: dict[tuple[str, str, str], list[EpisodeSample]] = defaultdict(list)
    for sample in samples:
        label, environment, task, step = sample.names
        # Two environments may have equal tasks.
        members[("", label, step) if label else (environment, task, step)].append(sample)
    figures: list[tuple[int, RolloutGroup]] = []
    for (_, name, step), group in members.items():
        returns = _graded(group)
        successes = sum(value >= SUCCESS_AT for value in returns)
        is_small = len(returns) < MIN_GRADED
        kind = "fail" if not successes else "pass" if successes == len(returns) else "mixed"
        figure = RolloutGroup(
            group=name,
            step=step,
            episodes=len(group),
            graded=len(returns),
            mean=_mean_of(returns).mean,
            least=min(returns, default=None),
            greatest=max(returns, default=None),
            successes=successes,
            kind="small" if is_small else kind,
            is_dead=None if is_small else max(returns) - min(returns) <= MAX_DEAD_SPREAD,
        )
        figures.append((min(sample.created_at for sample in group), figure))
    return [figure for _, figure in sorted(figures, key=lambda pair: (pair[0], pair[1].group, pair[1].step))]


def check_by(by: Iterable[str]) -> str | None:
    """Return what is wrong with names of series, or `None`."""
    for name in by:
        key: Any = name.removeprefix(LABEL)
        if name not in ORIGINS and (key == name or not key):
            return f"expected {', '.join(ORIGINS)} or label:KEY, got {name!r}"
    return None
