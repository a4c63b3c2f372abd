"""The alarms of one run, kept up to date episode by episode.

An alarm opens when two looks in a row raise it, and closes when two looks in a row do not: one odd window is
not news. Memory is bounded: the facts of three windows, the ids of the alarms' episodes, and the outcomes of
the tasks that were seen last.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from ors_server.alarms.alarm_rules import (
    RULES,
    AlarmReading,
    AlarmRule,
    AlarmThresholds,
    RunWindow,
    TaskHistory,
)
from ors_server.alarms.episode_facts import EpisodeFacts

MAX_TASKS = 20_000
"""Tasks of a run whose outcomes are kept."""
MAX_SPANS = 100
"""Closed alarms of a run that are remembered."""
MAX_BINS = 64
"""Bins of components."""
LOOKS = 2
"""Number of looks in a row that open or close an alarm."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """An alarm that is open, as of the latest look."""

    name: str
    title: str
    formula: str
    reading: AlarmReading
    since: int
    """Closed episodes of the run when it opened."""
    window: tuple[str, str]
    """Ids of the first and the last episode of W."""

    def as_json(self) -> dict[str, Any]:
        """Return the alarm with JSON types, as commands and the control API state it."""
        reading = self.reading
        return {
            "alarm": self.name,
            "title": self.title,
            "formula": self.formula,
            "value": reading.value if isfinite(reading.value) else None,
            "threshold": reading.threshold,
            "is_bad": reading.is_bad,
            "note": reading.note,
            "since": self.since,
            "window": list(self.window),
            "episodes": list(reading.episodes),
        }


@dataclass(frozen=True, slots=True)
class AlarmSpan:
    """From where to where an alarm was open, in ended episodes of the run."""

    name: str
    title: str
    opened: int
    closed: int | None
    """`None` while it is open."""


@dataclass(frozen=True, slots=True)
class ComponentBin:
    """Episodes that ended one after another, and the sums of their reward's parts by name."""

    episodes: int
    sums: Mapping[str, float]


@dataclass(slots=True)
class _RuleState:
    raised: int = 0
    """Looks in a row that raised it."""
    quiet: int = 0
    """Looks in a row that did not."""
    alarm: Alarm | None = None


class RunAlarms:
    """Sees each ended episode of a run once, in the order in which they ended."""

    def __init__(
        self,
        thresholds: AlarmThresholds | None = None,
        *,
        success_at: float = 1.0,
        highest_return: float | None = None,
        baseline: Sequence[EpisodeFacts] | None = None,
    ) -> None:
        """Begin with no episode.

        Args:
            success_at: Return from which an episode counts as solved.
            highest_return: The highest possible return; without one, the highest that was seen.
            baseline: Episodes of another run that stand for B; without them, B is this run's beginning.
        """
        self.thresholds = thresholds or AlarmThresholds()
        self.episodes = 0
        """Ended episodes so far."""
        self._success_at = success_at
        self._highest_possible = highest_return
        self._highest, self._lowest = float("-inf"), float("inf")
        window = self.thresholds.window
        self._latest: deque[EpisodeFacts] = deque(maxlen=2 * window)
        """P and W."""
        self._lags: OrderedDict[str, int] = OrderedDict()
        self._baseline: list[EpisodeFacts] = list(baseline or ())
        self._is_own_baseline = baseline is None
        self._newest_step: int | None = None
        self._tasks: OrderedDict[str, TaskHistory] = OrderedDict()
        self._states = {rule.name: _RuleState() for rule in RULES}
        self._closed: deque[AlarmSpan] = deque(maxlen=MAX_SPANS)
        self.components: list[ComponentBin] = []
        """Of all episodes, in the order in which they ended; each but the last has as many episodes."""
        self._bin_size = 1

    @property
    def open(self) -> list[Alarm]:
        """The alarms that are open, in the order of the rules."""
        return [state.alarm for state in self._states.values() if state.alarm is not None]

    @property
    def spans(self) -> list[AlarmSpan]:
        """The alarms that were open, the newest of many, and those that are."""
        return [
            *self._closed,
            *(AlarmSpan(alarm.name, alarm.title, alarm.since, None) for alarm in self.open),
        ]

    def add(self, episode: EpisodeFacts) -> tuple[list[Alarm], list[Alarm]]:
        """Add an episode that has ended.

        Returns:
            The alarms that it opened, and those that it closed.
        """
        limits = self.thresholds
        self.episodes += 1
        self._latest.append(episode)
        if self._is_own_baseline and len(self._baseline) < limits.window:
            self._baseline.append(episode)
        self._note_return(episode)
        self._note_lag(episode)
        self._note_components(episode)
        if self.episodes % limits.look_every or len(self._latest) < limits.min_episodes:
            return [], []
        return self._look()

    def add_all(self, episodes: Iterable[EpisodeFacts]) -> Iterator[Alarm]:
        """Add episodes and yield each alarm that opens."""
        for episode in episodes:
            yield from self.add(episode)[0]

    def readings(self) -> list[tuple[AlarmRule, AlarmReading | None]]:
        """Read every rule now, whether it opens an alarm or not."""
        window = self._window()
        return [(rule, rule.read(window) if window.recent else None) for rule in RULES]

    def _note_return(self, episode: EpisodeFacts) -> None:
        if episode.episode_return is None:
            return
        self._highest = max(self._highest, episode.episode_return)
        self._lowest = min(self._lowest, episode.episode_return)
        history = self._tasks.pop(episode.task, None) or TaskHistory()
        self._tasks[episode.task] = history
        if len(self._tasks) > MAX_TASKS:
            self._tasks.popitem(last=False)
        attempts = self.thresholds.lost_attempts
        history.recent = [*history.recent, episode.episode_return >= self._success_at][-attempts:]
        if len(history.recent) == attempts:
            history.best = max(history.best, sum(history.recent) / attempts)

    def _note_components(self, episode: EpisodeFacts) -> None:
        bins = self.components
        if bins and bins[-1].episodes < self._bin_size:
            bins[-1] = _joined(bins[-1], ComponentBin(1, episode.components))
            return
        bins.append(ComponentBin(1, episode.components))
        if len(bins) > MAX_BINS:  # twice as many episodes in each: memory is bounded for runs of any length
            self.components = [_joined(*bins[at : at + 2]) for at in range(0, MAX_BINS, 2)] + bins[MAX_BINS:]
            self._bin_size *= 2

    def _note_lag(self, episode: EpisodeFacts) -> None:
        step = episode.policy_step
        if step is None:
            return
        self._newest_step = step if self._newest_step is None else max(step, self._newest_step)
        self._lags[episode.episode_id] = self._newest_step - step
        if len(self._lags) > self.thresholds.window:
            self._lags.popitem(last=False)

    def _window(self) -> RunWindow:
        size = self.thresholds.window
        latest = list(self._latest)
        # B is apart from W once the run has as many episodes more; a chosen run's always is.
        is_apart = not self._is_own_baseline or self.episodes >= size + min(size, len(latest))
        highest = self._highest_possible
        if highest is None and self._highest > self._lowest:
            highest = self._highest
        recent = latest[-size:]
        ids = {episode.episode_id for episode in recent}
        return RunWindow(
            self.thresholds,
            recent,
            self._baseline if is_apart else (),
            latest[:-size] if len(latest) == 2 * size else (),
            {name: lag for name, lag in self._lags.items() if name in ids},
            self._tasks,
            self._success_at,
            highest,
        )

    def _look(self) -> tuple[list[Alarm], list[Alarm]]:
        window = self._window()
        opened: list[Alarm] = []
        closed: list[Alarm] = []
        for rule, state in zip(RULES, self._states.values(), strict=True):
            reading = rule.read(window)
            is_raised = reading is not None and reading.is_raised
            state.raised = state.raised + 1 if is_raised else 0
            state.quiet = 0 if is_raised else state.quiet + 1
            before = state.alarm
            if reading is not None and (state.raised >= LOOKS or (before is not None and is_raised)):
                since = self.episodes if before is None else before.since
                edges = window.recent[0].episode_id, window.recent[-1].episode_id
                formula = rule.formula_with(self.thresholds)
                state.alarm = Alarm(rule.name, rule.title, formula, reading, since, edges)
                if before is None:
                    opened.append(state.alarm)
            elif before is not None and state.quiet >= LOOKS:
                state.alarm = None
                closed.append(before)
                self._closed.append(AlarmSpan(before.name, before.title, before.since, self.episodes))
        return opened, closed


def _joined(first: ComponentBin, second: ComponentBin) -> ComponentBin:
    names = {**first.sums, **second.sums}
    sums = {name: first.sums.get(name, 0.0) + second.sums.get(name, 0.0) for name in names}
    return ComponentBin(first.episodes + second.episodes, sums)
