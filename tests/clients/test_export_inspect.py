"""Inspect's own reader opens the logs that `export inspect` writes."""

import json
import os
import subprocess

import anyio
import pytest

from ors_server.export.chat import ConversationOptions
from ors_server.export.episodes import ExportCounts
from ors_server.export.folders import write_inspect
from tests.clients.conftest import PLAY_LIMIT, SCRIPTS, client_python
from tests.fixtures.recorded_episodes import (
    DRAWN,
    FAILED,
    SPOKEN,
    Played,
    conversation_prompt,
    of_every_kind,
    step_of,
)

BROKEN = Played("broken", [step_of(1, **FAILED)], stop_reason="failed")
KINDS = [*of_every_kind(), SPOKEN, DRAWN, BROKEN, Played("led_on", [step_of(1)], conversation_prompt())]


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")

    async def episodes():
        for played in KINDS:
            yield played.record, played.steps

    anyio.run(write_inspect, episodes(), folder, ConversationOptions({}), ExportCounts())
    ran = subprocess.run(
        [str(client_python("inspect")), str(SCRIPTS / "read_inspect_logs.py"), str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PLAY_LIMIT,
        env={**os.environ, "INSPECT_LOG_LEVEL": "error"},
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.fixture(scope="module")
def samples(logs):
    return {sample["uuid"].lstrip("0"): sample for log in logs for sample in log["samples"]}


def test_there_is_a_log_for_each_environment_and_run(logs):
    keys = {(played.environment, played.labels.get("run", "episodes")) for played in KINDS}
    assert {(log["task"], log["run_id"]) for log in logs} == keys
    assert sum(log["summaries"] for log in logs) == len(KINDS)
    for log in logs:
        assert log["header_task"] == log["task"]
        scores = [sample["score"] for sample in log["samples"] if sample["score"] is not None]
        assert log["metrics"].get("mean") == (pytest.approx(sum(scores) / len(scores)) if scores else None)


def test_scores_and_rewards_are_those_of_the_record(samples):
    assert set(samples) == {played.name for played in KINDS}
    for played in KINDS:
        sample, summary = samples[played.name], played.record.summary
        is_judged = summary.last_reward is not None and not summary.unjudged_steps
        assert sample["score"] == (summary.episode_return if is_judged else None)
        assert sample["rewards"] == [step.reward for step in played.steps]


def test_the_conversation_has_what_the_model_wrote(samples):
    spoken = samples["spoken"]
    assert spoken["roles"] == ["user", "assistant", "user", "assistant", "tool", "tool", "assistant", "tool"]
    assert spoken["texts"][1:4] == ["Let me see.", "Go on.", "Both at once."]
    assert spoken["reasoning"] == ["Hm."]
    assert spoken["calls"] == [[], ["add", "add"], ["add"]]
    assert (spoken["images"], samples["drawn"]["images"]) == (1, 3)


def test_faults_are_errors_of_tools_and_of_samples(samples):
    assert samples["broken"]["errors"] == ["unknown"]
    assert samples["broken"]["error"] == "the tool raised ValueError"
    assert samples["good"]["error"] is None
