"""Several runs that are played one after another and read together: a suite, or any folders of runs."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ors_server.evaluation.folder import RUN_FILE, read_attempts, read_run
from ors_server.evaluation.planning import RunOptions
from ors_server.evaluation.run_results import RunResults, results_of
from ors_server.evaluation.runs import Attempt, Run
from ors_server.files.atomic_file import atomic_file
from ors_server.model.errors import RecordError
from ors_server.model.wire import compact_json

SUITE_FILE = "suite.json"
"""The plan of a suite, in its folder; each of its runs has a folder within."""
_MAX_NAME = 60


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """One run of a suite."""

    folder: Path
    options: RunOptions

    @property
    def has_begun(self) -> bool:
        """Whether there is something to resume."""
        return (self.folder / RUN_FILE).exists()


def plan_suite(folder: Path, options: Iterable[RunOptions]) -> list[SuiteRun]:
    """Plan runs, each in a folder that its environment and its agent name, and write the plan.

    Raises:
        RecordError: If the folder has a suite already.
    """
    path = folder / SUITE_FILE
    if path.exists():
        raise RecordError(f"{folder} holds a suite already: resume it (--resume), or name another folder")
    runs: list[SuiteRun] = []
    names: set[str] = set()
    for chosen in options:
        name = _folder_name(chosen, names)
        names.add(name)
        runs.append(SuiteRun(folder / name, chosen))
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    plan = {"runs": [{"folder": run.folder.name, "options": asdict(run.options)} for run in runs]}
    with atomic_file(path, 0o600) as file:
        file.write(json.dumps(plan, indent=2).encode() + b"\n")
    return runs


def read_suite(folder: Path) -> list[SuiteRun]:
    """Return the runs of a suite; none if the folder is not a suite's.

    Raises:
        RecordError: If the plan cannot be read.
    """
    path = folder / SUITE_FILE
    if not path.exists():
        return []
    try:
        plan = json.loads(path.read_bytes())
        return [SuiteRun(folder / str(run["folder"]), RunOptions(**run["options"])) for run in plan["runs"]]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RecordError(f"{path} is not the plan of a suite: {error}") from error


def _folder_name(options: RunOptions, taken: set[str]) -> str:
    words = f"{Path(options.target or '').name}-{options.agent or ''}"
    name = re.sub(r"[^A-Za-z0-9._]+", "-", words).strip("-.")[:_MAX_NAME] or "run"
    number = 1
    while (unique := name if number == 1 else f"{name}-{number}") in taken:
        number += 1
    return unique


def run_folders(folders: Iterable[str | Path]) -> list[Path]:
    """Return folders of runs: those that are named, and the runs within folders of several."""
    runs: list[Path] = []
    for name in folders:
        folder = Path(name)
        within = [] if (folder / RUN_FILE).exists() else sorted(folder.glob(f"*/{RUN_FILE}"))
        runs += [path.parent for path in within] or [folder]
    return runs


def read_groups(folders: Sequence[str | Path], success_at: float | None = None) -> list[RunResults]:
    """Read the folders of runs; those of one agent in one version of one environment go together.

    Args:
        success_at: The threshold of the summaries; without one, the runs of a group must have the same.

    Raises:
        RecordError: If one cannot be read, or the runs of a group do not belong together.
    """
    groups: dict[str, tuple[list[Run], list[Attempt]]] = {}
    for folder in run_folders(folders):
        run = read_run(folder)
        key = compact_json([run.environment, run.versions.get("environment"), run.agent])
        runs, attempts = groups.setdefault(key, ([], []))
        runs.append(run)
        attempts += read_attempts(folder)
    return [results_of(runs, attempts, success_at) for runs, attempts in groups.values()]


def agent_labels(runs: Sequence[Run]) -> list[str]:
    """Name the agent of each run so that different agents have different names."""
    agents = [compact_json(run.agent) for run in runs]
    labels: list[str] = []
    for run, agent in zip(runs, agents, strict=True):
        rivals = [
            rival.agent
            for rival, text in zip(runs, agents, strict=True)
            if rival.agent_name == run.agent_name and text != agent
        ]
        labels.append(f"{run.agent_name}{_difference(run.agent, rivals)}")
    return labels


def _difference(agent: Mapping[str, object], rivals: Sequence[Mapping[str, object]]) -> str:
    keys = sorted({key for rival in rivals for key in {*agent, *rival} if agent.get(key) != rival.get(key)})
    return f" ({', '.join(f'{key}={agent.get(key)}' for key in keys)})" if keys else ""
