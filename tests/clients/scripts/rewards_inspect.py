"""Takes a reward to Inspect and Inspect's scorers to ours, and prints what came of it as one JSON document.

Usage: `python rewards_inspect.py ROOT PACKAGES`, with the interpreter of a virtual environment that has
`inspect-ai`; PACKAGES is the folder of what the rewards import. The model is a scripted one. The script
judges nothing: the test that starts it does.
"""

import json
import sys
import tempfile
from typing import Any

sys.path.insert(0, sys.argv[1])
sys.path.append(sys.argv[2])

from inspect_ai import Task
from inspect_ai import eval as run_evaluation
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, accuracy, exact, f1, match, scorer

from ors_server.rewards.adapters.inspect import as_inspect, from_inspect
from ors_server.rewards.result import RewardResult, RewardStatus
from ors_server.rewards.reward_errors import RewardDefinitionError
from ors_server.rewards.scoring import score


def spelled(final_response: str, answer: str, weight: float = 1.0) -> Any:
    """Compares texts; knows an answer that cannot be read, and a gold that cannot."""
    if not answer.strip("?"):
        return RewardResult.without(RewardStatus.BAD_GOLD, "the answer is empty")
    if not final_response:
        return RewardResult(0.0, RewardStatus.UNPARSED_ANSWER, reason="nothing was said")
    return {"reward": weight * (final_response == answer), "length": len(final_response)}


def words(text: str) -> ModelOutput:
    output = ModelOutput.from_content("mockllm/model", text)
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return output


def shown(sample: Any) -> list[Any]:
    [(name, given)] = sample.scores.items()
    value = None if given.value != given.value else given.value  # NaN
    return [name, value, given.reason, given.explanation, given.metadata]


def costs() -> list[float]:
    """Evaluates two samples with a reward that counts tokens."""
    model = get_model("mockllm/model", custom_outputs=[words("4"), words("5")])
    samples = [Sample(input="a", target="4", metadata={"cost_per_token": 0.01}) for _ in range(2)]
    task = Task(dataset=samples, scorer=as_inspect("token_cost_reward"))
    with tempfile.TemporaryDirectory() as folder:
        [log] = run_evaluation(task, model=model, log_dir=folder, display="none", log_level="error")
        return [shown(sample)[1] for sample in log.samples]


def refusal() -> str:
    try:
        as_inspect("length_group_reward")
    except RewardDefinitionError as error:
        return str(error)
    return ""


def ours() -> dict[str, Any]:
    """Evaluates a scripted model with a reward of ours as the scorer."""
    samples = [
        Sample(input="a", target="4", id=1, metadata={"weight": 0.5}),
        Sample(input="b", target="4", id=2),
        Sample(input="c", target="??", id=3),
        Sample(input="d", target="4", id=4),
    ]
    model = get_model("mockllm/model", custom_outputs=[words(text) for text in ("4", "5", "4", "")])
    task = Task(dataset=samples, scorer=as_inspect(spelled))
    with tempfile.TemporaryDirectory() as folder:
        [log] = run_evaluation(
            task, model=model, log_dir=folder, display="none", log_level="error", max_samples=1
        )
        seen = [shown(sample) for sample in log.samples]
    return {
        "cost": costs(),
        "refused": refusal(),
        "status": log.status,
        "scores": seen,
        "mean": log.results.scores[0].metrics["mean"].value,
        "unscored": log.results.scores[0].unscored_samples,
    }


@scorer(metrics=[accuracy()])
def giving(value: Any) -> Any:
    """Gives a score that was decided before."""

    async def judge(state: Any, target: Any) -> Any:
        return value

    return judge


def theirs() -> dict[str, Any]:
    """Asks Inspect's own scorers as rewards of ours."""

    def asked(theirs: Any, **fields: Any) -> Any:
        return score(from_inspect(theirs, key=fields.pop("key", None)), **fields).as_json()

    def given(value: Any, **options: Any) -> Any:
        return asked(giving(value), final_response="", answer="", **options)

    return {
        "match": [
            asked(match(), final_response=text, answer="4", prompt="2 + 2?")["reward"] for text in ("4", "5")
        ],
        "exact": asked(exact(), final_response="Paris", answer=["Rome", "Paris"])["reward"],
        "f1": asked(f1(), final_response="the big Paris", answer="Paris")["reward"],
        "partial": given(Score(value="P"))["reward"],
        "number": given(Score(value=0.25, metadata={"why": "so"})),
        "unscored": given(Score.unscored(reason="grader_failed", explanation="no verdict")),
        "nothing": given(None),
        "unknown": given(Score(value="excellent")),
        "mapping": given(Score(value={"a": 0.5, "b": 1})),
        "keyed": given(Score(value={"a": 0.5, "b": 1}), key="a"),
        "missing": asked(match(), final_response="4"),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps({"ours": ours(), "theirs": theirs()}))
