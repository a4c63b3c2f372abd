"""Rewards that have a language model give a score: ARISE's `llm_judge_reward`, AgentFly's judge.

Source: the reward page of ARISE and arise-ai 0.2.1; AgentFly at 1256586. Theirs read a number out of any
reply and turn a failure into 0.5 or 0; here an ambiguous reply is requested again, and a failure is an error.
Each deviation is a row of `ors_server.rewards.deviations`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ors_server.rewards.define import FunctionReward, reward
from ors_server.rewards.judges.hardening import is_degenerate, judge_messages
from ors_server.rewards.judges.judge_endpoint import EndpointJudge
from ors_server.rewards.judges.judge_model import JudgeModel
from ors_server.rewards.judges.questions import Answered, JudgeOptions, Question, ask
from ors_server.rewards.judges.replies import SCORE_FORM, SCORE_SCHEMA, ReadScore, read_score
from ors_server.rewards.result import RewardResult
from ors_server.rewards.reward_errors import RewardFieldError
from ors_server.rewards.reward_trajectory import Step, Trajectory

STEP_CHARACTERS = 200
"""Characters of a step's result that the judge is shown (arise-ai 0.2.1)."""
MAX_STEPS = 200
"""Steps that the judge is shown; of more, the last ones."""

TRAJECTORY_SCALE = (
    "Rate how well the task was done by the whole of the steps and the outcome, from 0.0 (not at all) to 1.0 "
    "(fully). The score is a number from 0.0 to 1.0."
)
ANSWER_SCALE = (
    "Rate how well the answer agrees with the reference in what it says, from 0.0 (not at all) to 1.0 "
    "(fully). The score is a number from 0.0 to 1.0."
)


def asks_judge(found: FunctionReward) -> FunctionReward:
    """Mark a reward that judges nothing without a judge."""
    found.requirement = _check_judge
    return found


def _check_judge(fields: Mapping[str, Any]) -> None:
    model = fields.get("model")
    if model is None or isinstance(model, str):
        # A row or a task may name the model, so that only the endpoint must be known in advance.
        EndpointJudge.from_environment(model or "of each row").check_package()


@asks_judge
@reward(range=(0.0, 1.0), direct_call="number")
async def llm_judge_reward(
    trajectory: Trajectory, model: str | JudgeModel | None = None, options: JudgeOptions | None = None
) -> RewardResult:
    """Has a language model rate a trajectory from 0 to 1, by task, steps and outcome.

    Hazards: the text that is judged can persuade a judge; measure it with `probe`. It costs a request for
    every episode.

    Source: ARISE's reward page.

    `model` is a model, or its name at the endpoint of `ORS_JUDGE_BASE_URL`; by default `ORS_JUDGE_MODEL`
    names it. Of several samples the median counts. The extras have the tokens, cost, time and retries; a
    judge without a score raises `JudgeError`. An outcome without content is 0 without a request.

    Raises:
        JudgeError: If the judge reached no score.
    """
    if is_degenerate(trajectory.outcome) and (trajectory.outcome.strip() or not trajectory.steps):
        return RewardResult(0.0, extras={"judge_degenerate": 1}, reason="the outcome has no content")
    blocks = {
        "task": trajectory.task,
        "steps": describe_steps(trajectory.steps),
        "outcome": trajectory.outcome,
    }
    return await score_blocks(TRAJECTORY_SCALE, blocks, model, options)


@asks_judge
@reward(range=(0.0, 1.0))
async def llm_as_judge_reward(
    golden_answer: str | None = None,
    final_response: str | None = None,
    prediction: str | None = None,
    answer: str | None = None,
    question: str | None = None,
    model: str | JudgeModel | None = None,
) -> RewardResult:
    """Has a language model rate how well an answer agrees with a reference, from 0 to 1.

    Hazards: those of `llm_judge_reward`; and the judge sees the reference, so its reasons may quote it.

    Source: AgentFly at 1256586.

    The answer is `final_response`, or `prediction` as AgentFly's code calls it; the reference is
    `golden_answer` or `answer`. `raw_score` is the reward.

    Raises:
        RewardFieldError: If there is no answer or no reference.
        JudgeError: If the judge reached no score.
    """
    response = final_response if prediction is None else prediction
    reference = answer if golden_answer is None else golden_answer
    if response is None or reference is None:
        raise RewardFieldError(
            "llm_as_judge_reward needs final_response (or prediction) and golden_answer (or answer)"
        )
    if is_degenerate(response):
        return RewardResult(0.0, extras={"raw_score": 0.0, "judge_degenerate": 1})
    texts = {"question": question, "reference": reference, "answer": response}
    blocks = {name: text for name, text in texts.items() if text is not None}
    result = await score_blocks(ANSWER_SCALE, blocks, model, None)
    return result.with_extras({"raw_score": result.reward})


async def score_blocks(
    instructions: str,
    blocks: Mapping[str, str],
    model: str | JudgeModel | None = None,
    options: JudgeOptions | None = None,
) -> RewardResult:
    """Has a model give a score from 0 to 1 to texts; of several samples the lower median counts.

    Args:
        instructions: What the score means; written by an author, never by an agent.
        blocks: Text by the block's name; each is fenced.

    Returns:
        The score; its extras are the cost, the first reason and the spread of the samples.

    Raises:
        JudgeError: There is no score.
    """
    chosen = options or JudgeOptions()
    judge = EndpointJudge.from_environment(model) if model is None or isinstance(model, str) else model
    messages = judge_messages(f"{instructions}\n{SCORE_FORM}", blocks, chosen.most_characters)
    answered: list[Answered[ReadScore]] = [
        await ask(judge, Question(messages, SCORE_SCHEMA, sample), read_score, chosen)
        for sample in range(chosen.samples)
    ]
    scores = sorted(answer.verdict.score for answer in answered)
    used = answered[0].usage
    for answer in answered[1:]:
        used += answer.usage
    extras: dict[str, Any] = {"judge_reason": answered[0].verdict.reason[:2000], **used.as_extras()}
    if len(scores) > 1:
        extras["judge_spread"] = scores[-1] - scores[0]
    return RewardResult(scores[(len(scores) - 1) // 2], extras=extras)


def describe_steps(steps: Sequence[Step]) -> str:
    """Write steps down, one line each: the tool, and the beginning of its result or of its error."""
    skipped = max(0, len(steps) - MAX_STEPS)
    lines = [f"({skipped} earlier steps are left out)"] if skipped else []
    for number, step in enumerate(steps[skipped:], skipped + 1):
        text = f"failed: {step.error}" if step.error else step.result
        lines.append(f"{number}. {step.action}: {text[:STEP_CHARACTERS]}")
    return "\n".join(lines) or "(none)"
