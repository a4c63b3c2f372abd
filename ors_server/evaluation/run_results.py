"""The attempts of one run, or of several runs of one agent in one environment."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ors_server.evaluation.folder import read_attempts, read_run
from ors_server.evaluation.runs import Attempt, Run
from ors_server.model.errors import RecordError

_COMPARE = "compare them: ors-server compare FIRST SECOND"


@dataclass(frozen=True, slots=True)
class RunResults:
    """Runs of one agent in one environment, with their attempts."""

    runs: tuple[Run, ...]
    """At least one."""
    attempts: tuple[Attempt, ...]
    """In the order in which they ended; one for each key of each run."""


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

    Of two attempts with the same key the later one counts, because it was made when the run was resumed.

    Raises:
        RecordError: If the runs are not of one agent in one version of one environment, disagree about a
            task, or count other returns as successes while `success_at` is not given.
    """
    _check_alike(runs)
    thresholds = sorted({run.success_at for run in runs})
    if success_at is None and len(thresholds) > 1:
        values = ", ".join(f"{threshold:g}" for threshold in thresholds)
        raise RecordError(
            f"the runs count returns from different thresholds as success (from {values}); set one for all "
            "with --success-at"
        )
    latest = {(attempt.run_id, attempt.key): attempt for attempt in attempts}
    # In the order in which they ended.
    ordered = sorted(
        latest.values(),
        key=lambda attempt: (attempt.started_at.timestamp() + attempt.seconds, attempt.run_id, attempt.key),
    )
    _check_tasks(ordered)
    return RunResults(tuple(runs), tuple(ordered))


def _check_alike(runs: Sequence[Run]) -> None:
    first = runs[0]
    for run in runs[1:]:
        if run.environment != first.environment:
            raise RecordError(
                f"{first.run_id} is of the environment {first.environment} and {run.run_id} of "
                f"{run.environment}: summarise each by itself"
            )
        if run.agent != first.agent:
            raise RecordError(
                f"only runs of one agent are summarised together: {_differing_agents(first, run)}; {_COMPARE}"
            )
        versions = [member.versions.get("environment") for member in (first, run)]
        if versions[0] != versions[1]:
            raise RecordError(
                "only runs of one version of the environment are summarised together: "
                f"{first.run_id} is of version {versions[0]} and {run.run_id} of version {versions[1]}; "
                f"{_COMPARE}"
            )
    if len({run.run_id for run in runs}) < len(runs):
        raise RecordError("the same run is named twice; name each folder once")


def _differing_agents(first: Run, second: Run) -> str:
    """Name the agents of two runs; of two of one name, what is different."""
    names = first.agent_name, second.agent_name
    if names[0] == names[1]:
        keys = sorted({*first.agent, *second.agent})
        differing = [key for key in keys if first.agent.get(key) != second.agent.get(key)]
        words = [
            f"{run.agent_name} with {', '.join(f'{key}={run.agent.get(key)}' for key in differing)}"
            for run in (first, second)
        ]
        names = words[0], words[1]
    return f"{first.run_id} is of {names[0]} and {second.run_id} of {names[1]}"


def _check_tasks(attempts: Sequence[Attempt]) -> None:
    hashes: dict[tuple[str, int], str] = {}
    for attempt in attempts:
        task = (attempt.split, attempt.index)
        task_hash = hashes.setdefault(task, attempt.task_hash)
        # An empty hash is not known, and contradicts no other.
        if task_hash and attempt.task_hash and task_hash != attempt.task_hash:
            raise RecordError(
                f"task {attempt.index} of the split {attempt.split} is not the same in all attempts: its "
                f"hash is {task_hash[:12]} in some and {attempt.task_hash[:12]} in others; summarise them "
                "separately"
            )
        hashes[task] = task_hash or attempt.task_hash
