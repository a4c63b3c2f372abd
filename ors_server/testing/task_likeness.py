"""Finds tasks that are nearly equal to others, and tasks whose texts are in other data sets.

Texts are compared by their words: two are nearly equal if the sets of their runs of `SHINGLE` words have a
Jaccard similarity of at least a threshold, and their numbers are the same: with other numbers it is another
task. MinHash finds the candidates (`datasketch`), and each is then
computed exactly. A text is in another set if a run of `OVERLAP` words is in it, as GPT-3's authors looked
for test data among training data (arXiv:2005.14165, appendix C); a shorter text if all of it is.

Runs of words that many prompts have, such as the instructions around a question, say nothing and are left
out. The work is linear in the number of tasks; of each only `MAX_RUNS` hashes of either kind are kept, and of
no more than `MAX_TASKS` tasks: some 100 MB for prompts of a hundred words.
"""

import hashlib
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, cast

from ors_server.installation import install_hint
from ors_server.model.errors import InvalidRequestError
from ors_server.testing.task_survey import EqualTasks, TaskPosition

SHINGLE = 5
"""Words of a run whose sets are compared."""
OVERLAP = 13
"""Words of a run that two texts have in common only if one was copied."""
MIN_WORDS = 8
"""Words of the shortest text that is looked for in another set; shorter ones are equal by chance."""
MAX_TASKS = 50_000
"""Tasks whose texts are compared; the first ones that a survey reads."""
MAX_RUNS = 2_000
"""Runs of a text that are kept; the first ones."""
THRESHOLD = 0.8
"""Similarity from which texts count as nearly equal."""
COMMON, MIN_COMMON = 0.1, 5
"""Share of the texts, and number of them, above which a run belongs to their frame."""
PERMUTATIONS = 128
"""Hash functions of a MinHash; the standard error of an estimate is up to 0.04."""
SLACK = 0.25
"""By how much the threshold of candidates is lower, so that few are missed; each is computed exactly."""
MAX_CANDIDATES = 50
"""Candidates of a text that are computed exactly."""
MAX_SHOWN = 10
"""Indices of tasks that a sentence names."""
_SINGLE = r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
_WORD = re.compile(rf"{_SINGLE}|(?:(?!{_SINGLE})\w)+")
"""A word; each character of a script without spaces is one."""


def words_of(value: Any) -> list[str]:
    """Return the words of all texts in a JSON value, in order, in lower case."""
    return [word for text in _texts(value) for word in _WORD.findall(text.casefold())]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in cast("Mapping[str, Any]", value).values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in cast("Sequence[Any]", value):
            yield from _texts(item)


def runs_of(words: Sequence[str], length: int) -> "array[int]":
    """Return hashes of the runs of words, in order; of a shorter text, of all of it; none without words."""
    count = min(max(1, len(words) - length + 1), MAX_RUNS) if words else 0
    texts = (" ".join(words[start : start + length]) for start in range(count))
    # The hash is the same in every process, so that two reports of one data set are equal.
    digests = (hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8) for text in texts)
    return array("Q", (int.from_bytes(made.digest(), "big") for made in digests))


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
        (own,) = runs_of(numbers, len(numbers)) or (0,)
        self.tasks.append(_Task(position, runs_of(words, SHINGLE), overlaps, own))

    def nearly_equal(self, threshold: float = THRESHOLD) -> EqualTasks:
        """Return the tasks that are nearly equal to an earlier one, but not equal to it in every run.

        Args:
            threshold: The similarity, over 0 to 1.

        Raises:
            InvalidRequestError: If `datasketch` is not installed.
        """
        lsh, make_hash = _index(threshold)
        found = EqualTasks()
        frame = self._frame()
        for number, task in enumerate(self.tasks):
            own = set(task.shingles) - frame
            if not own:
                continue
            signature = make_hash(own)
            # One of another split first: it matters more than a repetition within a split.
            similar = sorted(
                (int(key) for key in lsh.query(signature)),
                key=lambda key: (self.tasks[key].position.split == task.position.split, key),
            )
            for key in similar[:MAX_CANDIDATES]:
                other = set(self.tasks[key].shingles) - frame
                similarity = len(own & other) / len(own | other)
                if self.tasks[key].numbers == task.numbers and threshold <= similarity < 1.0:
                    found.add(self.tasks[key].position, task.position)
                    break
            lsh.insert(str(number), signature)
        return found

    def _frame(self) -> set[int]:
        """Return the shingles that many tasks have."""
        counts = Counter(shingle for task in self.tasks for shingle in set(task.shingles))
        limit = max(MIN_COMMON, COMMON * len(self.tasks))
        return {shingle for shingle, count in counts.items() if count > limit}

    def within(self, rows: Iterable[Any]) -> list[TaskPosition]:
        """Return the tasks whose texts are in a set of texts, which is read once.

        Args:
            rows: The set: JSON values with texts in them.

        Raises:
            InvalidRequestError: If `datasketch` is not installed.
        """
        numpy = _import("numpy")
        frame = self._frame()
        kept = [_outside(task, frame) for task in self.tasks]
        runs = numpy.array([run for own in kept for run in own], dtype=numpy.uint64)
        owners = numpy.repeat(numpy.arange(len(kept)), [len(own) for own in kept])
        order = numpy.argsort(runs)
        runs, owners = runs[order], owners[order]
        found = set[int]()
        for row in rows:
            words = words_of(row)
            # All of it, too: a short task may be all of a text.
            wanted = [*runs_of(words, OVERLAP), *runs_of(words, len(words))]
            texts = numpy.array(wanted, dtype=numpy.uint64)
            starts, ends = numpy.searchsorted(runs, texts), numpy.searchsorted(runs, texts, side="right")
            for start, end in zip(starts, ends, strict=True):
                found.update(owners[start:end].tolist())
        return [self.tasks[number].position for number in sorted(found)]


def _outside(task: _Task, frame: set[int]) -> list[int]:
    """Return the runs of `OVERLAP` words of a task that have no shingle of the frame in them."""
    width = OVERLAP - SHINGLE + 1
    return [
        run
        for start, run in enumerate(task.overlaps)
        if frame.isdisjoint(task.shingles[start : start + width])
    ]


def _index(threshold: float) -> tuple[Any, Callable[[Iterable[int]], Any]]:
    """Return an empty index of MinHashes, and what makes one of the hashes of a text's runs."""
    package = _import("datasketch")

    def make_hash(runs: Iterable[int]) -> Any:
        made = package.MinHash(num_perm=PERMUTATIONS, hashfunc=lambda run: run & 0xFFFFFFFF)
        made.update_batch(sorted(runs))
        return made

    return package.MinHashLSH(threshold=max(0.1, threshold - SLACK), num_perm=PERMUTATIONS), make_hash


def _import(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise InvalidRequestError(
            f"the texts of tasks are compared by {name}: {install_hint('tasks')}"
        ) from error


def describe_overlap(name: str, positions: Sequence[TaskPosition]) -> str:
    """Say which tasks are in another set; empty without any."""
    by_split: dict[str, list[int]] = defaultdict(list)
    for position in positions:
        by_split[position.split].append(position.index)
    return "; ".join(
        f"{len(indices)} tasks of split {split!r} are in {name!r} (indices "
        f"{', '.join(map(str, indices[:MAX_SHOWN]))}{', ...' if len(indices) > MAX_SHOWN else ''})"
        for split, indices in by_split.items()
    )
