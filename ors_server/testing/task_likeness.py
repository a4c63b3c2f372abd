"""Finds tasks that are nearly equal to others, and tasks whose texts are in other data sets.

Texts are compared by their words. Two are nearly equal if the sets of their runs of `SHINGLE` words have a
Jaccard similarity of at least a threshold, and their numbers are the same: different numbers make a different
task. Among more than `MAX_EXACT_TASKS` tasks MinHash finds the candidates (`datasketch`), and the similarity
of each is then computed exactly. A text is in another set if the set contains `OVERLAP` of its words in a
row, by which GPT-3's authors looked for test data among training data (arXiv:2005.14165, appendix C); a
shorter text has to be there as a whole.

Runs of words that many prompts have, such as the instructions around a question, say nothing and are left
out. The work is linear in the number of tasks. Of each only `MAX_RUNS` hashes of either kind are kept, and of
no more than `MAX_TASKS` tasks: some 40 MB for prompts of a hundred words, and five times as much while they
are compared.
"""

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from ors_server.installation import install_hint
from ors_server.model.errors import InvalidRequestError
from ors_server.model.json_texts import number_of, texts_of
from ors_server.testing.task_survey import EqualTasks, TaskPosition

SHINGLE = 5
"""Length in words of the runs whose sets are compared."""
OVERLAP = 13
"""Length in words of a run that two texts share only if one of them was copied."""
MIN_WORDS = 8
"""Words of the shortest text that is looked for in another set; shorter ones are equal at random."""
MAX_TASKS = 20_000
"""Tasks whose texts are compared; the first ones that a survey reads."""
MAX_EXACT_TASKS = 2_000
"""Tasks up to which every pair with a run in common is computed."""
MAX_RUNS = 2_000
"""Runs of a text that are kept; the first ones."""
THRESHOLD = 0.8
"""Similarity from which texts count as nearly equal."""
COMMON, MIN_COMMON = 0.1, 5
"""Share of the texts, and number of texts, above which a run is common and not compared."""
PERMUTATIONS = 128
"""Hash functions of a MinHash; the standard error of an estimate is up to 0.04."""
SLACK = 0.25
"""By how much the threshold of candidates is lower, so that few are missed; each is computed exactly."""
MAX_CANDIDATES = 50
"""Candidates of a text that are computed exactly."""
MAX_SHOWN_INDICES = 10
"""Indices of tasks that a sentence names."""
_SINGLE = r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
_WORD = re.compile(rf"{_SINGLE}|(?:(?!{_SINGLE})\w)+")
"""A word; each character of a script without spaces is one."""


def words_of(value: Any) -> list[str]:
    """Return the words of all texts in a JSON value, in order, in lower case."""
    return [word for text in texts_of(value) for word in _WORD.findall(text.casefold())]


def runs_of(words: Sequence[str], length: int) -> "array[int]":
    """Return hashes of the runs of words, in order; of a shorter text, of all of it; none without words."""
    count = min(max(1, len(words) - length + 1), MAX_RUNS) if words else 0
    texts = (" ".join(words[start : start + length]) for start in range(count))
    # The numbers are the same in every process, so that two reports of one data set are equal.
    return array("Q", map(number_of, texts))


@dataclass(frozen=True, slots=True)
class _Task:
    position: TaskPosition
    shingles: "array[int]"
    """Hashes of the runs of `SHINGLE` words, in order."""
    overlaps: "array[int]"
    """Hashes of the runs of `OVERLAP` words, in order."""
    numbers: int
    """Hash of its words with digits: of two instances of a template these differ."""


@dataclass
class TaskTexts:
    """The texts of tasks, as a survey reads them."""

    tasks: list[_Task] = field(default_factory=list[_Task])

    def add(self, position: TaskPosition, shown: Any) -> None:
        """Add what a task shows to its agent, as JSON."""
        if len(self.tasks) >= MAX_TASKS:
            return
        words = words_of(shown)
        overlaps = runs_of(words if len(words) >= MIN_WORDS else (), OVERLAP)
        numbers = sorted(word for word in words if any(map(str.isdigit, word)))
        (numbers_hash,) = runs_of(numbers, len(numbers)) or (0,)
        self.tasks.append(_Task(position, runs_of(words, SHINGLE), overlaps, numbers_hash))

    def nearly_equal(self, threshold: float = THRESHOLD) -> EqualTasks:
        """Return the tasks that are nearly equal to an earlier task; tasks with equal runs are left out.

        Args:
            threshold: The least similarity, in (0, 1].

        Raises:
            InvalidRequestError: If `datasketch` is missing for more than `MAX_EXACT_TASKS` tasks.
        """
        candidates = _SharedRuns() if len(self.tasks) <= MAX_EXACT_TASKS else _MinHashes(threshold)
        similar_tasks = EqualTasks()
        common_runs = self._common_runs()
        for number, task in enumerate(self.tasks):
            shingles = set(task.shingles) - common_runs
            if not shingles:
                continue
            # Tasks of other splits first: they matter more than repetitions within a split.
            similar = sorted(
                candidates.add(number, shingles),
                key=lambda key: (self.tasks[key].position.split == task.position.split, key),
            )
            for key in similar[:MAX_CANDIDATES]:
                earlier = set(self.tasks[key].shingles) - common_runs
                similarity = len(shingles & earlier) / len(shingles | earlier)
                if self.tasks[key].numbers == task.numbers and threshold <= similarity < 1.0:
                    similar_tasks.add(self.tasks[key].position, task.position)
                    break
        return similar_tasks

    def _common_runs(self) -> set[int]:
        """Return the shingles that many tasks share, such as the instructions around each question."""
        counts = Counter(shingle for task in self.tasks for shingle in set(task.shingles))
        limit = max(MIN_COMMON, COMMON * len(self.tasks))
        return {shingle for shingle, count in counts.items() if count > limit}

    def within(self, rows: Iterable[Any]) -> list[TaskPosition]:
        """Return the tasks whose texts are in a set of texts, which is read once.

        Args:
            rows: The set: JSON values with texts in them.
        """
        common_runs = self._common_runs()
        owners: dict[int, list[int]] = defaultdict(list)
        for number, task in enumerate(self.tasks):
            for run in set(_distinctive_runs(task, common_runs)):
                owners[run].append(number)
        copied = set[int]()
        for row in rows:
            words = words_of(row)
            # The whole text too, because a short task may be a whole text.
            for run in (*runs_of(words, OVERLAP), *runs_of(words, len(words))):
                copied.update(owners.get(run, ()))
        return [self.tasks[number].position for number in sorted(copied)]


def _distinctive_runs(task: _Task, common_runs: set[int]) -> list[int]:
    """Return the runs of `OVERLAP` words of a task that contain no common shingle."""
    width = OVERLAP - SHINGLE + 1
    return [
        run
        for start, run in enumerate(task.overlaps)
        if common_runs.isdisjoint(task.shingles[start : start + width])
    ]


class _SharedRuns:
    """Finds every earlier text that shares enough runs with a new text."""

    def __init__(self) -> None:
        self._owners: dict[int, list[int]] = defaultdict(list)

    def add(self, number: int, runs: set[int]) -> list[int]:
        """Return the earlier texts with at least a third of these runs, and add the text."""
        shared = Counter(owner for run in runs for owner in self._owners.get(run, ()))
        for run in runs:
            self._owners[run].append(number)
        return [owner for owner, count in shared.items() if 3 * count >= len(runs)]


def _low_bits(run: int) -> int:
    """Return the low 32 bits of a hash, which is all that MinHash accepts."""
    return run & 0xFFFFFFFF


class _MinHashes:
    """Estimates which earlier texts are similar, in constant time for each text."""

    def __init__(self, threshold: float) -> None:
        try:
            self._package: Any = import_module("datasketch")
        except ModuleNotFoundError as error:
            raise InvalidRequestError(
                f"comparing more than {MAX_EXACT_TASKS:,} tasks needs datasketch, which is not installed: "
                f"{install_hint('tasks')}"
            ) from error
        self._index = self._package.MinHashLSH(threshold=max(0.1, threshold - SLACK), num_perm=PERMUTATIONS)

    def add(self, number: int, runs: set[int]) -> list[int]:
        """Return earlier texts that may be similar, and add the text."""
        minhash = self._package.MinHash(num_perm=PERMUTATIONS, hashfunc=_low_bits)
        minhash.update_batch(sorted(runs))
        similar = [int(key) for key in self._index.query(minhash)]
        self._index.insert(str(number), minhash)
        return similar


def describe_overlap(name: str, positions: Sequence[TaskPosition]) -> str:
    """Return a sentence that names the tasks in another set; empty if there are no such tasks."""
    by_split: dict[str, list[int]] = defaultdict(list)
    for position in positions:
        by_split[position.split].append(position.index)
    return "; ".join(
        f"{len(indices)} tasks of split {split!r} are in {name!r} (indices "
        f"{', '.join(map(str, indices[:MAX_SHOWN_INDICES]))}"
        f"{', ...' if len(indices) > MAX_SHOWN_INDICES else ''})"
        for split, indices in by_split.items()
    )
