"""Runs an Inspect evaluation on a server through `inspect-openreward` and prints what it saw as one JSON
document.

Usage: `python play_inspect_openreward.py URL PART...`, with the interpreter of a virtual environment that
has `inspect-ai` and `inspect-openreward`. The model is a scripted one: it calls the tools it is told to.
The script judges nothing: the test that starts it does.
"""

import json
import os
import sys
import tempfile
from typing import Any

os.environ["OPENREWARD_DISABLE_UPDATE_CHECK"] = "1"
os.environ["OPENREWARD_API_URL"] = os.environ["OPENREWARD_SESSION_URL"] = sys.argv[1]

from inspect_ai import Task
from inspect_ai import eval as run_evaluation
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_openreward import openreward_dataset, openreward_scorer, openreward_solver
from openreward import OpenReward


def counted(output: ModelOutput) -> ModelOutput:
    """Says how many tokens an output took, which would otherwise be counted with a downloaded vocabulary."""
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return output


def call(tool: str, **arguments: Any) -> ModelOutput:
    return counted(ModelOutput.for_tool_call("mockllm/model", tool, arguments))


def words(text: str) -> ModelOutput:
    return counted(ModelOutput.from_content("mockllm/model", text))


def judged(log: Any) -> dict[str, Any]:
    """Tells how the only sample of an evaluation went."""
    sample = log.samples[0]
    [score] = sample.scores.values()
    return {
        "status": log.status,
        "error": sample.error.message if sample.error else None,
        "roles": [m.role for m in sample.messages],
        "prompt": sample.messages[0].text,
        "answers": [m.text for m in sample.messages if m.role == "tool"],
        "tool_errors": [m.error.message if m.error else None for m in sample.messages if m.role == "tool"],
        "value": score.value,
        "metadata": score.metadata,
        "mean": log.results.scores[0].metrics["mean"].value,
    }


def evaluate(environment: Any, outputs: list[ModelOutput]) -> dict[str, Any]:
    """Runs the first task of the training split with a scripted model."""
    with tempfile.TemporaryDirectory() as folder:
        [log] = run_evaluation(
            Task(
                dataset=openreward_dataset(environment, split="train", limit=1),
                solver=openreward_solver(environment),
                scorer=openreward_scorer(),
            ),
            model=get_model("mockllm/model", custom_outputs=outputs),
            log_dir=folder,
            display="none",
        )
        return judged(log)


if __name__ == "__main__":
    with OpenReward(api_key="").environments as api:
        environment = api.get("refenv")
        scripts = {
            "win": [call("hint"), call("echo", text="no"), call("echo", text="hello"), words("done")],
            "lose": [call("add", a=1), call("echo", text="no"), words("I give up")],
            "silent": [words("nothing to do")],
        }
        seen = {
            "dataset": [
                dict(s.metadata["openreward_task"].task_spec)
                for s in openreward_dataset(environment, "train")
            ],
            **{name: evaluate(environment, outputs) for name, outputs in scripts.items()},
        }
    sys.stdout.write(json.dumps({name: seen[name] for name in sys.argv[2:]}))
