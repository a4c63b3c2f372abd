"""Figures over time in TensorBoard, W&B and MLflow, with the real packages and without any network."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.clients.conftest import client_python

ROOT = Path(__file__).parents[2]
WRITE = """
import sys
from datetime import UTC, datetime, timedelta
from ors_server.export.trackers import write_points
from ors_server.store.series import EpisodeSample, make_series

begin = int(datetime(2026, 11, 26, tzinfo=UTC).timestamp()) * 1_000_000
samples = [
    EpisodeSample(begin + minute * 60_000_000, "graded", value, 3, (run,))
    for run in ("a", "b/../x")
    for minute, value in enumerate((0.0, 0.5, 1.0))
]
print(write_points(make_series(samples, 60.0, ("label:run",)), sys.argv[1]))
"""
READ_TENSORBOARD = """
import json, sys
from pathlib import Path
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

found = {}
for folder in sorted(Path(sys.argv[1]).iterdir()):
    events = EventAccumulator(str(folder))
    events.Reload()
    found[folder.name] = [
        [event.step, float(events.Tensors("return/mean")[place].tensor_proto.float_val[0]), event.wall_time]
        for place, event in enumerate(events.Tensors("return/mean"))
    ]
print(json.dumps(found))
"""
READ_MLFLOW = """
import json, mlflow

client = mlflow.MlflowClient()
experiment = client.get_experiment_by_name("soak")
runs = client.search_runs([experiment.experiment_id])
found = {}
for run in runs:
    history = client.get_metric_history(run.info.run_id, "return/mean")
    found[run.info.run_name] = [[entry.step, entry.value, entry.timestamp / 1000] for entry in history]
print(json.dumps(found))
"""
BEGIN = 1795651200.0
POINTS = [[0, 0.0, BEGIN], [1, 0.5, BEGIN + 60], [2, 1.0, BEGIN + 120]]

pytestmark = [pytest.mark.stress]


def run(program: str, folder: Path, *words: str, **variables: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ORS_")}
    environment = {**kept, "PYTHONPATH": str(ROOT), "HOME": str(folder), **variables}
    command = [client_python("trackers"), "-c", program, *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_tensorboard_reads_what_was_written(tmp_path):
    assert run(WRITE, tmp_path, "tensorboard:logs") == "2"
    found = json.loads(run(READ_TENSORBOARD, tmp_path, "logs"))
    assert found == {"run=a": POINTS, "run=b_.._x": POINTS}


def test_mlflow_reads_what_was_written(tmp_path):
    place = {"MLFLOW_TRACKING_URI": (tmp_path / "runs").as_uri(), "MLFLOW_ALLOW_FILE_STORE": "true"}
    assert run(WRITE, tmp_path, "mlflow:soak", **place) == "2"
    assert json.loads(run(READ_MLFLOW, tmp_path, **place)) == {"run=a": POINTS, "run=b_.._x": POINTS}


def test_wandb_writes_two_offline_runs(tmp_path):
    assert run(WRITE, tmp_path, "wandb:soak", WANDB_MODE="offline", WANDB_SILENT="true").endswith("2")
    logs = list(tmp_path.glob("wandb/offline-run-*/*.wandb"))
    assert len(logs) == 2
    assert all(b"return/mean" in log.read_bytes() for log in logs)
