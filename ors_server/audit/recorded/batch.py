"""The episodes of one environment, compared: winning with losing ones of the same task at the same time.

Invariants of a `Batch`:

- Episodes are sorted by creation time. A position in `episodes` is the identity of an episode everywhere in
  this package, and `won`, `_strata` and `wins` refer to the same positions.
- A stratum is one task in one window of time. Episodes are compared within their stratum only, because tasks
  differ in difficulty and a policy becomes better in the course of training.
- A marked episode that has no other episode in its stratum is counted in `marked` and `won`, but not in
  `compared`, `gain` and `z`.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ors_server.audit.recorded.digest import DigestedEnvironment, EpisodeDigest

WINDOWS = 10
"""Parts of the record, of equally many episodes: a policy is compared with itself at that time."""
MIN_EPISODES = 40
MIN_WINS = 20
MIN_TASKS = 8
"""With fewer tasks, what winning episodes share may be an accident."""
MAX_SHOWN_EPISODES = 10
"""Episodes that a finding names."""
_TOP_QUANTILE = 0.98
"""Quantile of the positive returns that counts as the best where the environment declares no limit."""
_COMPARED = 20
"""Maximum number of winning answers of one task that an answer is compared with."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """How much more often marked episodes win than others of the same task and window."""

    marked: int
    won: int
    tasks: int
    """Tasks with a marked winning episode."""
    compared: int = 0
    """Marked episodes with unmarked episodes of the same task and window."""
    compared_tasks: int = 0
    gain: float = 0.0
    """Their win rate minus that of the unmarked episodes."""
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
        """Sort the episodes, and mark the winning ones.

        Args:
            digested: The episodes.
            success_at: Minimum return of a winning episode; by default half of the greatest reward that the
                policy allows, or else half of what the best episodes earn.
        """
        self.name = digested.name
        self.counts = digested.counts
        self.left_out = digested.left_out
        self.tasks = digested.tasks
        self.episodes: Sequence[EpisodeDigest] = sorted(
            # The id breaks ties, so that the same record gives the same report.
            digested.episodes,
            key=lambda episode: (episode.created, episode.episode_id),
        )
        self.success_at = success_at if success_at is not None else self._threshold(digested.reward_limit)
        self.won = [episode.earned >= self.success_at for episode in self.episodes]
        self.wins = [position for position, won in enumerate(self.won) if won]
        self.by_task: dict[int, list[int]] = {}
        for win in self.wins:
            self.by_task.setdefault(self.episodes[win].task, []).append(win)
        self._strata = [
            (episode.task, self.window(position)) for position, episode in enumerate(self.episodes)
        ]
        self._totals: defaultdict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
        for position, stratum in enumerate(self._strata):
            self._totals[stratum][0] += 1
            self._totals[stratum][1] += self.won[position]

    @property
    def is_large(self) -> bool:
        """Whether there are enough episodes, wins and tasks to compare."""
        enough = len(self.episodes) >= MIN_EPISODES and len(self.wins) >= MIN_WINS
        return enough and self.tasks >= MIN_TASKS

    def window(self, position: int) -> int:
        """Return the window of an episode, from 0."""
        return position * WINDOWS // len(self.episodes)

    def positions(self, has: Callable[[EpisodeDigest], bool]) -> list[int]:
        """Return the positions of episodes with a property."""
        return [position for position, episode in enumerate(self.episodes) if has(episode)]

    def won_of(self, positions: Iterable[int]) -> list[int]:
        """Return those positions whose episodes won."""
        return [position for position in positions if self.won[position]]

    def share_of_wins(self, won: Sequence[int]) -> float:
        """Return winning episodes as a share of all winning ones."""
        return len(won) / len(self.wins) if self.wins else 0.0

    def tasks_of(self, positions: Iterable[int]) -> set[int]:
        """Return the tasks of episodes."""
        return {self.episodes[position].task for position in positions}

    def contrast(self, marked: Sequence[int]) -> Contrast:
        """Compare marked episodes with the others of the same task and window."""
        strata: defaultdict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
        for position in marked:
            strata[self._strata[position]][0] += 1
            strata[self._strata[position]][1] += self.won[position]
        compared = won = 0
        alike = expected = variance = 0.0
        tasks: set[int] = set()
        for stratum, (number, wins) in strata.items():
            total, all_wins = self._totals[stratum]
            unmarked = total - number
            if not unmarked:
                continue
            compared, won = compared + number, won + wins
            tasks.add(stratum[0])
            # Direct standardisation: each stratum's unmarked win rate, weighted by its marked episodes. The
            # variance is the hypergeometric one of Mantel and Haenszel.
            alike += number * (all_wins - wins) / unmarked
            expected += number * all_wins / total
            variance += number * unmarked * all_wins * (total - all_wins) / (total * total * (total - 1))
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
        for position in won:
            task = self.episodes[position].task
            candidates = [other for other in self.by_task[task] if other not in marked][:_COMPARED]
            if not candidates:
                continue
            tasks.add(task)
            measured += 1
            agreeing += any(self._agree(position, candidate) for candidate in candidates)
        return (agreeing / measured if measured else 0.0), len(tasks)

    def exclusiveness(self, marked: Sequence[int]) -> float | None:
        """Return how often two winning episodes of a task that are not marked give the same answer.

        Returns:
            The share in [0, 1]; `None` with fewer than 8 such tasks.
        """
        without = set(marked)
        agreeing = measured = 0
        tasks = 0
        for positions in self.by_task.values():
            unmarked = [position for position in positions if position not in without][: _COMPARED + 1]
            pairs = list(pairwise(unmarked))
            tasks += bool(pairs)
            measured += len(pairs)
            # Neighbours in time only: all pairs would cost the square of the wins.
            agreeing += sum(self._agree(first, second) for first, second in pairs)
        return agreeing / measured if tasks >= MIN_TASKS else None

    def sharing(self, marked: Sequence[int]) -> float:
        """Return how often unmarked winning answers of one task are also winning answers of the next one."""
        without = set(marked)
        answers = [
            {self.episodes[position].words for position in positions if position not in without}
            for positions in self.by_task.values()
        ]
        answer_sets = [answer for answer in answers if answer]
        pairs = list(pairwise(answer_sets))
        return sum(bool(first & second) for first, second in pairs) / len(pairs) if pairs else 1.0

    def shown(self, positions: Sequence[int]) -> tuple[str, ...]:
        """Return the ids of at most 10 episodes, of different tasks first."""
        seen: set[int] = set()
        first: list[int] = []
        later: list[int] = []
        for position in positions:
            task = self.episodes[position].task
            (later if task in seen else first).append(position)
            seen.add(task)
        return tuple(self.episodes[position].episode_id for position in (first + later)[:MAX_SHOWN_EPISODES])

    def _agree(self, first: int, second: int) -> bool:
        words, other_words = self.episodes[first].words, self.episodes[second].words
        if not words or not other_words:
            return self.episodes[first].answer == self.episodes[second].answer
        # An answer may be a sentence that contains the other one.
        return words <= other_words or other_words <= words

    def _threshold(self, limit: float | None) -> float:
        returns = sorted(episode.earned for episode in self.episodes)
        positive = [earned for earned in returns if earned > 0]
        if limit is not None and positive and limit > 0:
            return limit / 2
        if positive:
            # A quantile and not the maximum: a single farmed return must not make all other wins look like
            # losses.
            return positive[min(len(positive) - 1, int(_TOP_QUANTILE * len(positive)))] / 2
        if returns and returns[-1] > returns[0]:
            return (returns[0] + returns[-1]) / 2
        return math.inf
