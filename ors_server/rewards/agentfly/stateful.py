"""Rewards that query the environment which the rollout's tools have used, through the context.

Source: AgentFly's page "Predefined Rewards", and its code at 1256586 where the page is silent. An environment
that gives no reward is an error here: `ors_server.rewards.deviations` lists each case in which AgentFly pays
0.
"""

import inspect
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ors_server.resources import ALFWorldSpec, Context, PythonEnvSpec, ScienceWorldSpec, WebShopSpec
from ors_server.resources.spec import NamedResourceSpec
from ors_server.rewards.define import reward
from ors_server.rewards.reward_errors import RewardValueError

SOLVED = 10.0
"""What `scienceworld_reward` pays for a finished task (AgentFly at 1256586)."""
MIN_MESSAGES = 4
"""Messages without which `scienceworld_reward` does not query the environment (the same)."""
ALFWORLD_STEP = 4
"""Entries of the result of a step of ALFWorld: observation, reward, done, info."""
MAX_OUTPUT = 100_000
"""Characters of a program's output, from its end, in which a traceback is searched."""

_FAILED = re.compile(
    r"^Traceback \(most recent call last\):|^(?:Syntax|Indentation|Tab)Error: ", re.MULTILINE
)


@reward(range=(0.0, 1.0))
async def webshop_reward(
    final_response: str = "",  # noqa: ARG001  (AgentFly's)
    *,
    context: Context,
    task_id: int,
) -> dict[str, Any]:
    """Asks the rollout's WebShop for the reward of the purchase; 0 before anything is bought.

    `task_id` is the goal with which the purchase is compared; `final_response` is ignored. Extras: `output`,
    the observation.

    Hazards: none is known beyond WebShop's own formula, which pays part of the price of a similar product.

    Source: AgentFly's page. An environment that fails is an error here, and 0 there.

    Raises:
        RewardValueError: The environment gave no reward.
        OrsServerError: There is no such environment.
    """
    output = await _step(context, WebShopSpec, "get_reward", task_id)
    reply = _read_mapping(output, "WebShop")
    if "observation" not in reply:
        raise RewardValueError(f"expected an observation from WebShop, got {output!r:.200}")
    return {"reward": _number(reply.get("reward"), "WebShop"), "output": reply["observation"]}


@reward(range=(0.0, 1.0))
async def alfworld_episode_reward(context: Context) -> dict[str, Any]:
    """Asks the rollout's ALFWorld whether the task is done: 1 if so, else 0.

    Hazards: the query is a step of the environment, with an empty command; it counts against a step limit of
    the environment's own.

    Source: AgentFly's page. A step without a reward is an error here, and 0 there.

    Raises:
        RewardValueError: The environment gave no reward.
        OrsServerError: There is no such environment.
    """
    step = await _step(context, ALFWorldSpec, "")
    if isinstance(step, Mapping):
        return {"reward": _number(cast("Mapping[str, Any]", step).get("reward"), "ALFWorld")}
    entries = list(cast("Sequence[Any]", step)) if isinstance(step, list | tuple) else []
    if len(entries) != ALFWORLD_STEP:
        raise RewardValueError(
            f"expected observation, reward, done and info from a step of ALFWorld, got {step!r:.200}"
        )
    return {"reward": _number(entries[1], "ALFWorld")}


@reward(range=(0.0, SOLVED))
async def scienceworld_reward(
    final_response: str = "",  # noqa: ARG001  (AgentFly's)
    *,
    context: Context,
) -> dict[str, Any]:
    """Asks the rollout's ScienceWorld for its best score so far: 10 for a full one, else 0.

    `final_response` is ignored. Extras: `acc`, 0 or 1; `score`, the environment's; `output`, its observation.

    Hazards: the range is [0, 10], so in a sum it outweighs rewards up to 1; an episode of fewer than 4
    messages earns 0 without a query.

    Source: AgentFly at 1256586; its page names neither the 10 nor the 4.

    Raises:
        RewardValueError: The environment gave no score.
        OrsServerError: There is no such environment.
    """
    if len(context.trajectory) < MIN_MESSAGES:
        return {"reward": 0.0, "acc": 0.0, "output": "Not enough steps to get reward"}
    reply = _read_mapping(await _step(context, ScienceWorldSpec, "get_reward"), "ScienceWorld")
    score = _number(reply.get("reward"), "ScienceWorld")
    is_done = score >= 1
    output = reply.get("observation", "Task completed" if is_done else "Task not completed")
    return {
        "reward": SOLVED if is_done else 0.0,
        "acc": float(is_done),
        "score": reply["reward"],
        "output": output,
    }


@reward(range=(0.0, 1.0))
async def code_reward_test(prediction: str, context: Context) -> dict[str, Any]:
    """Runs a program in the rollout's Python environment: 1 if it runs to its end, 0 if it raises.

    Extras: `output`, what the environment printed.

    Hazards: the output is not compared with anything, so `pass` earns 1, and so does a program that catches
    its own errors. Compare the output if that matters.

    Source: AgentFly's documentation. Its code pays 1 for a traceback too, and 0 where the environment fails.

    Raises:
        RewardValueError: The environment gave no text.
        OrsServerError: There is no such environment.
    """
    step = await _step(context, PythonEnvSpec, prediction)
    output = cast("Mapping[str, Any]", step).get("observation") if isinstance(step, Mapping) else step
    if not isinstance(output, str):
        raise RewardValueError(f"expected text from the Python environment, got {step!r:.200}")
    return {"reward": float(_FAILED.search(output[-MAX_OUTPUT:]) is None), "output": output}


async def _step(context: Context, spec: NamedResourceSpec, *arguments: Any) -> Any:
    env = await context.acquire_resource(spec=spec, scope="global", backend="local")
    output = env.step(*arguments)
    return await output if inspect.isawaitable(output) else output


def _read_mapping(output: object, name: str) -> Mapping[str, Any]:
    if not isinstance(output, Mapping):
        raise RewardValueError(
            f"expected a mapping with reward and observation from {name}, got {output!r:.200}"
        )
    return cast("Mapping[str, Any]", output)


def _number(value: object, name: str) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise RewardValueError(f"expected a finite number as reward from {name}, got {value!r:.80}")
    return float(value)
