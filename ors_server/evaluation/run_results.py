"""The attempts of one run, or of several runs of one agent in one environment."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ors_server.evaluation.folder import read_attempts, read_run
from ors_server.evaluation.runs import Attempt, Run
from ors_server.model.errors import RecordError


@dataclass(frozen=True, slots=True)
class RunResults:
    """Runs of one agent in one environment, with their attempts."""

    runs: tuple[Run, ...]
    """At least one."""
    attempts: tuple[Attempt, ...]
    """In the order in which they ended; one for each place of each run."""


def read_results(folders: Sequence[str | Path], success_at: float | None = None) -> RunResults:
    """Read the folders of runs, at least one, that are summarised together.

    Args:
        success_at: The threshold of the summary; without one, the runs must have the same.

    Raises:
        RecordError: If one cannot be read, or the runs do not belong together.
    """
    runs = [read_run(folder) for folder in folders]
    attempts = [attempt for folder in folders for attempt in read_attempts(folder)]
    return results_of(runs, attempts, success_at)


def results_of(
    runs: Sequence[Run], attempts: Iterable[Attempt], success_at: float | None = None
) -> RunResults:
    """Put runs, at least one, and their attempts together.

    Of two attempts at the same place the later one counts, because it was made when the run was resumed.

    Raises:
        RecordError: If the runs are not of one agent in one version of one environment, disagree about a
            task, or count other returns as successes while `success_at` is not given.
    """
    _check_alike(runs)
    thresholds = sorted({run.success_at for run in runs})
    if success_at is None and len(thresholds) > 1:
        known = ", ".join(f"{threshold:g}" for threshold in thresholds)
        raise RecordError(
            f"the runs count returns from different thresholds as success (from {known}); set one for all "
            "with --success-at"
        )
    latest = {(attempt.run_id, attempt.place): attempt for attempt in attempts}
    ordered = sorted(latest.values(), key=lambda attempt: (_ended_at(attempt), attempt.run_id, attempt.place))
    _check_tasks(ordered)
    return RunResults(tuple(runs), tuple(ordered))


def _ended_at(attempt: Attempt) -> float:
    return attempt.started_at.timestamp() + attempt.seconds


def _check_alike(runs: Sequence[Run]) -> None:
    first = runs[0]
    for run in runs[1:]:
        for name in ("environment", "agent"):
            if getattr(run, name) != getattr(first, name):
                raise RecordError(
                    f"runs are summarised together only if they are of one {name}; {run.run_id} has "
                    f"{getattr(run, name)} and {first.run_id} has {getattr(first, name)}: compare them"
                )
        versions = [each.versions.get("environment") for each in (first, run)]
        if versions[0] != versions[1]:
            raise RecordError(
                f"runs are summarised together only if they are of one version of the environment; "
                f"{run.run_id} is of version {versions[1]} and {first.run_id} of version {versions[0]}: "
                "compare them"
            )
    if len({run.run_id for run in runs}) < len(runs):
        raise RecordError("the same run is named twice; name each folder once")


def _check_tasks(attempts: Sequence[Attempt]) -> None:
    hashes: dict[tuple[str, int], str] = {}
    for attempt in attempts:
        task = (attempt.split, attempt.index)
        known = hashes.setdefault(task, attempt.task_hash)
        if known and attempt.task_hash and known != attempt.task_hash:
            raise RecordError(
                f"task {attempt.index} of the split {attempt.split} is not the same in all attempts: its "
                f"hash is {known[:12]} in some and {attempt.task_hash[:12]} in others; summarise them "
                "separately"
            )
        hashes[task] = known or attempt.task_hash
