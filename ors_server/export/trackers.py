"""Writes figures of episodes over time to TensorBoard, Weights & Biases or MLflow, each a separate extra.

A series of points is a run there; each span of time is one step of it, with the time of its beginning. W&B
and MLflow read where they write from their own variables (`WANDB_MODE=offline`, `MLFLOW_TRACKING_URI`).
"""

import importlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ors_server.installation import install_hint
from ors_server.model.errors import ClientError
from ors_server.store.series import LABEL, SeriesPoint


class TrackerError(ClientError):
    """Figures cannot be written: no such tracker, or its package is missing."""

    code = "tracker"


def scalars_of(point: SeriesPoint) -> dict[str, float]:
    """Return the figures of a span by name; those that nothing was graded for are left out."""
    values = {
        "episodes": point.episodes,
        "return/mean": point.returns.mean,
        "success": point.success,
        "ungraded": point.ungraded,
        "failed": point.failed,
        "steps/mean": point.mean_steps,
    }
    if point.quantiles is not None:
        values |= dict(zip(("return/p10", "return/p50", "return/p90"), point.quantiles, strict=True))
    return {name: float(value) for name, value in values.items() if value is not None}


def write_points(points: Iterable[SeriesPoint], target: str) -> int:
    """Write points, in the order of time, to `tensorboard:FOLDER`, `wandb:PROJECT` or `mlflow:EXPERIMENT`.

    Returns:
        The number of runs.

    Raises:
        TrackerError: If the target is unknown, or its package is not installed.
    """
    kind, _, location = target.partition(":")
    writer = _WRITERS.get(kind)
    if writer is None or not location:
        raise TrackerError(f"expected tensorboard:FOLDER, wandb:PROJECT or mlflow:EXPERIMENT, got {target!r}")
    series: dict[str, list[SeriesPoint]] = defaultdict(list)
    for point in points:
        words = "-".join(f"{key.removeprefix(LABEL)}={value}" for key, value in point.group.items())
        # A name that can be a folder, too.
        series[re.sub(r"[^\w.=+-]+", "_", words).strip(".")[:120] or "all"].append(point)
    for name, group in series.items():
        writer(location, name, group)
    return len(series)


def _load(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise TrackerError(f"{extra} is not installed: {install_hint(extra)}") from error


def _write_tensorboard(folder: str, name: str, points: Sequence[SeriesPoint]) -> None:
    writer = _load("tensorboard.summary", "tensorboard").Writer(str(Path(folder) / name))
    try:
        for step, point in enumerate(points):
            for tag, value in scalars_of(point).items():
                writer.add_scalar(tag, value, step, wall_time=point.start.timestamp())
    finally:
        writer.close()


def _write_wandb(project: str, name: str, points: Sequence[SeriesPoint]) -> None:
    run = _load("wandb", "wandb").init(project=project, name=name, reinit=True)
    try:
        for step, point in enumerate(points):
            run.log({**scalars_of(point), "start": point.start.timestamp()}, step=step)
    finally:
        run.finish()


def _write_mlflow(experiment: str, name: str, points: Sequence[SeriesPoint]) -> None:
    mlflow = _load("mlflow", "mlflow")
    chosen = mlflow.set_experiment(experiment)
    client = mlflow.MlflowClient()
    run_id = client.create_run(chosen.experiment_id, run_name=name).info.run_id
    for step, point in enumerate(points):
        moment = int(point.start.timestamp() * 1000)
        for key, value in scalars_of(point).items():
            client.log_metric(run_id, key, value, timestamp=moment, step=step)
    client.set_terminated(run_id)


_WRITERS: Mapping[str, Callable[[str, str, Sequence[SeriesPoint]], None]] = MappingProxyType(
    {"tensorboard": _write_tensorboard, "wandb": _write_wandb, "mlflow": _write_mlflow}
)
