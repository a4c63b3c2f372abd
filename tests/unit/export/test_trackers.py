"""What is written to trackers, and what is said where there is none."""

import importlib

import pytest

from ors_server.export.trackers import TrackerError, scalars_of, write_points
from ors_server.store.series import EpisodeSample, make_series


def points():
    samples = [EpisodeSample(60_000_000, "graded", value, 4, ("a",)) for value in (0.0, 1.0)]
    return make_series([*samples, EpisodeSample(120_000_000, "failed", 0.0, 1, ("a",))], 60.0, ("label:run",))


def test_a_span_has_its_figures_and_none_that_nothing_was_graded_for():
    graded, failed = map(scalars_of, points())
    assert graded == {
        "episodes": 2.0,
        "return/mean": 0.5,
        "return/p10": pytest.approx(0.1),
        "return/p50": 0.5,
        "return/p90": pytest.approx(0.9),
        "success": 0.5,
        "ungraded": 0.0,
        "failed": 0.0,
        "steps/mean": 4.0,
    }
    assert failed == {"episodes": 1.0, "ungraded": 0.0, "failed": 1.0, "steps/mean": 1.0}


@pytest.mark.parametrize("target", ["", "tensorboard", "tensorboard:", "clearml:x"])
def test_an_unknown_tracker_is_named(target):
    with pytest.raises(TrackerError, match="expected tensorboard:FOLDER, wandb:PROJECT or mlflow:EXPERIMENT"):
        write_points(points(), target)


@pytest.mark.parametrize("extra", ["tensorboard", "wandb", "mlflow"])
def test_a_package_that_is_missing_is_named_with_its_command(extra, monkeypatch):
    def refuse(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(TrackerError, match=rf"{extra} is not installed: .*\[{extra}\]"):
        write_points(points(), f"{extra}:x")
