"""Evaluates a scripted model on the ladder through `inspect-openreward` and prints the score of its sample.

Usage: `python consume_inspect.py URL URL#PART...`, with the interpreter of a virtual environment that has
`inspect-ai` and `inspect-openreward`. The script judges nothing: the test that starts it does.
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


def done() -> ModelOutput:
    return counted(ModelOutput.from_content("mockllm/model", "done"))


PLAYS = {
    "whole": lambda: [
        call("climb", hand="left"),
        call("look"),
        call("climb", hand="right"),
        call("jump"),
        done(),
    ],
    "misjudged": lambda: [call("climb", hand="left"), call("land", answer="x"), done()],
    "half": lambda: [call("climb", hand="left"), done()],
    "refused": lambda: [
        call("climb", foot="left"),
        call("climb", hand=["left"]),
        call("fly"),
        call("climb", hand="left"),
        done(),
    ],
    "slips": lambda: [call("climb", hand="left"), call("slip"), call("climb", hand="right"), done()],
    "beyond": lambda: [call("climb", hand="left"), call("jump"), call("look"), done()],
}


def consume(url: str, part: str) -> dict[str, Any]:
    """Plays a part at a server."""
    os.environ["OPENREWARD_API_URL"] = os.environ["OPENREWARD_SESSION_URL"] = url
    with OpenReward(api_key="").environments as api:
        return evaluate(api.get("misjudged" if part == "misjudged" else "ladder"), PLAYS[part]())


def evaluate(environment: Any, outputs: list[ModelOutput]) -> dict[str, Any]:
    """Runs the first task with a scripted model and tells its score."""
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
        sample = log.samples[0]
        told = [
            str(message.content or message.error) for message in sample.messages if message.role == "tool"
        ]
        seen = {
            "status": log.status,
            "tool_answers": told,
            "error": str(sample.error and sample.error.message),
        }
        if not sample.scores:
            return seen
        [score] = sample.scores.values()
        return {**seen, "value": score.value, **score.metadata}


if __name__ == "__main__":
    seen = {word: consume(*word.split("#")) for word in sys.argv[2:]}
    sys.stdout.write(json.dumps(seen))
