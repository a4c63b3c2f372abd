"""The episodes of one environment, compared: winning with losing ones of the same task at the same time."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ors_server.audit.recorded.digest import DigestedEnvironment, EpisodeDigest

WINDOWS = 10
"""Parts of the record, of equally many episodes: a policy is compared with itself at that time."""
MIN_EPISODES = 40
MIN_WINS = 20
MIN_TASKS = 8
"""With fewer tasks, what winning episodes share may be an accident."""
SHOWN_EPISODES = 10
_TOP = 0.98
"""Quantile of the positive returns that counts as the best where the environment declares no limit."""
_COMPARED = 20
"""Winning answers of one task that others are compared with."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """How much more often marked episodes win than others of the same task and window."""

    marked: int
    won: int
    tasks: int
    """Tasks with a marked winning episode."""
    compared: int = 0
    """Marked episodes that have others of the same task and window beside them."""
    compared_tasks: int = 0
    gain: float = 0.0
    """Their win rate minus that of the others."""
    z: float = 0.0
    """Mantel-Haenszel's statistic: standard errors between the wins and those that chance gives."""

    @property
    def rate(self) -> float:
        """The win rate of marked episodes."""
        return self.won / self.marked if self.marked else 0.0

    def is_clear(self, rate: float, gain: float, z: float, tasks: int = 5) -> bool:
        """Whether marked episodes win so often, and so much more often than others on enough tasks."""
        enough = self.compared_tasks >= tasks
        return enough and self.rate >= rate and self.gain >= gain and self.z >= z


class Batch:
    """Episodes of one environment in the order of time."""

    def __init__(self, digested: DigestedEnvironment, success_at: float | None = None) -> None:
        """Sort the episodes, and tell the winning ones.

        Args:
            digested: The episodes.
            success_at: The least return of a winning episode; by default half of the greatest reward that the
                policy allows, or else half of what the best episodes earn.
        """
        self.name = digested.name
        self.counts = digested.counts
        self.left_out = digested.left_out
        self.tasks = digested.tasks
        self.episodes: Sequence[EpisodeDigest] = sorted(
            digested.episodes, key=lambda one: (one.created, one.episode_id)
        )
        self.success_at = success_at if success_at is not None else self._threshold(digested.reward_limit)
        self.won = [episode.earned >= self.success_at for episode in self.episodes]
        self.wins = [place for place, won in enumerate(self.won) if won]
        self.by_task: Mapping[int, list[int]] = self._wins_by_task()
        self._strata = [self._stratum(place) for place in range(len(self.episodes))]
        self._totals: defaultdict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
        for place, stratum in enumerate(self._strata):
            self._totals[stratum][0] += 1
            self._totals[stratum][1] += self.won[place]

    @property
    def is_large(self) -> bool:
        """Whether there are enough episodes, wins and tasks to compare."""
        enough = len(self.episodes) >= MIN_EPISODES and len(self.wins) >= MIN_WINS
        return enough and self.tasks >= MIN_TASKS

    def window(self, place: int) -> int:
        """Return the window of an episode, from 0."""
        return place * WINDOWS // len(self.episodes)

    def places(self, has: Callable[[EpisodeDigest], bool]) -> list[int]:
        """Return the places of episodes with a property."""
        return [place for place, episode in enumerate(self.episodes) if has(episode)]

    def won_of(self, places: Iterable[int]) -> list[int]:
        """Return those places whose episodes won."""
        return [place for place in places if self.won[place]]

    def share_of_wins(self, won: Sequence[int]) -> float:
        """Return winning episodes as a share of all winning ones."""
        return len(won) / len(self.wins) if self.wins else 0.0

    def tasks_of(self, places: Iterable[int]) -> set[int]:
        """Return the tasks of episodes."""
        return {self.episodes[place].task for place in places}

    def contrast(self, marked: Sequence[int]) -> Contrast:
        """Compare marked episodes with the others of the same task and window."""
        strata: defaultdict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
        for place in marked:
            strata[self._strata[place]][0] += 1
            strata[self._strata[place]][1] += self.won[place]
        compared = won = 0
        alike = expected = variance = 0.0
        tasks: set[int] = set()
        for stratum, (number, wins) in strata.items():
            total, all_wins = self._totals[stratum]
            others = total - number
            if not others:
                continue
            compared, won = compared + number, won + wins
            tasks.add(stratum[0])
            alike += number * (all_wins - wins) / others
            expected += number * all_wins / total
            variance += number * others * all_wins * (total - all_wins) / (total * total * (total - 1))
        wins_of_marked = self.won_of(marked)
        return Contrast(
            marked=len(marked),
            won=len(wins_of_marked),
            tasks=len(self.tasks_of(wins_of_marked)),
            compared=compared,
            compared_tasks=len(tasks),
            gain=(won - alike) / compared if compared else 0.0,
            z=(won - expected) / math.sqrt(variance) if variance > 0 else 0.0,
        )

    def agreement(self, won: Sequence[int]) -> tuple[float, int]:
        """Return how often marked winning answers agree with other winning answers of the same task.

        Two answers agree if one has all words of the other.

        Returns:
            The share in [0, 1], and the number of tasks on which it was measured.
        """
        marked = set(won)
        agreeing = measured = 0
        tasks: set[int] = set()
        for place in won:
            task = self.episodes[place].task
            others = [other for other in self.by_task[task] if other not in marked][:_COMPARED]
            if not others:
                continue
            tasks.add(task)
            measured += 1
            agreeing += any(self._agree(place, other) for other in others)
        return (agreeing / measured if measured else 0.0), len(tasks)

    def exclusiveness(self, marked: Sequence[int]) -> float | None:
        """Return how often two winning episodes of a task that are not marked give the same answer.

        Returns:
            The share in [0, 1]; `None` with fewer than 8 such tasks.
        """
        without = set(marked)
        agreeing = measured = 0
        tasks = 0
        for places in self.by_task.values():
            others = [place for place in places if place not in without][: _COMPARED + 1]
            pairs = list(pairwise(others))
            tasks += bool(pairs)
            measured += len(pairs)
            agreeing += sum(self._agree(one, other) for one, other in pairs)
        return agreeing / measured if tasks >= MIN_TASKS else None

    def sharing(self, marked: Sequence[int]) -> float:
        """Return how often unmarked winning answers of one task are also winning answers of the next one."""
        without = set(marked)
        answers = [
            {self.episodes[place].words for place in places if place not in without}
            for places in self.by_task.values()
        ]
        known = [answer for answer in answers if answer]
        pairs = list(pairwise(known))
        return sum(bool(one & other) for one, other in pairs) / len(pairs) if pairs else 1.0

    def shown(self, places: Sequence[int]) -> tuple[str, ...]:
        """Return the ids of at most 10 episodes, of different tasks first."""
        seen: set[int] = set()
        first: list[int] = []
        later: list[int] = []
        for place in places:
            task = self.episodes[place].task
            (later if task in seen else first).append(place)
            seen.add(task)
        return tuple(self.episodes[place].episode_id for place in (first + later)[:SHOWN_EPISODES])

    def _agree(self, one: int, other: int) -> bool:
        first, second = self.episodes[one].words, self.episodes[other].words
        if not first or not second:
            return self.episodes[one].answer == self.episodes[other].answer
        return first <= second or second <= first

    def _threshold(self, limit: float | None) -> float:
        returns = sorted(episode.earned for episode in self.episodes)
        positive = [one for one in returns if one > 0]
        if limit is not None and positive and limit > 0:
            return limit / 2
        if positive:
            return positive[min(len(positive) - 1, int(_TOP * len(positive)))] / 2
        if returns and returns[-1] > returns[0]:
            return (returns[0] + returns[-1]) / 2
        return math.inf

    def _wins_by_task(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for win in self.wins:
            found.setdefault(self.episodes[win].task, []).append(win)
        return found

    def _stratum(self, place: int) -> tuple[int, int]:
        return self.episodes[place].task, self.window(place)
