"""Rewards that ask the environment which the rollout's tools have used, through the context.

Source: AgentFly's page "Predefined Rewards", and its code at 1256586 where the page is silent. What cannot be
asked gives no number: the rows of `ors_server.rewards.deviations` name each case in which AgentFly's does.
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
"""What `scienceworld_reward` pays for a task that is done (AgentFly at 1256586)."""
LEAST_MESSAGES = 4
"""Messages without which `scienceworld_reward` does not look at the environment (the same)."""
ALFWORLD_STEP = 4
"""Entries of what a step of ALFWorld's gives: observation, reward, whether it is over, information."""
MAX_OUTPUT = 100_000
"""Characters of a program's output that are looked at, from its end."""

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
    """Asks the rollout's WebShop what the purchase is worth; 0 before anything is bought.

    Hazards: none is known beyond WebShop's own formula, which pays part of the price of a similar product.

    Source: AgentFly's page. An environment that fails is an error here, and 0 there.

    Args:
        final_response: Not looked at.
        context: Leads to the environment, as `WebShopSpec`.
        task_id: Which goal the purchase is compared with.

    Returns:
        `reward` in [0, 1]; `output`, the observation.

    Raises:
        RewardValueError: The environment gave no reward.
        OrsServerError: The environment could not be had.
    """
    told = await _step(context, WebShopSpec, "get_reward", task_id)
    if not isinstance(told, Mapping) or "observation" not in told:
        raise RewardValueError(f"WebShop gives a mapping with reward and observation; {told!r:.200} came")
    found = cast("Mapping[str, Any]", told)
    return {"reward": _number(found.get("reward"), "WebShop"), "output": found["observation"]}


@reward(range=(0.0, 1.0))
async def alfworld_episode_reward(context: Context) -> dict[str, Any]:
    """Asks the rollout's ALFWorld whether the task is done: 1 if so, else 0.

    Hazards: asking is a step of the environment, with an empty command; it counts against a step limit of the
    environment's own.

    Source: AgentFly's page. A step without a reward is an error here, and 0 there.

    Args:
        context: Leads to the environment, as `ALFWorldSpec`.

    Returns:
        `reward` in [0, 1].

    Raises:
        RewardValueError: The environment gave no reward.
        OrsServerError: The environment could not be had.
    """
    told = await _step(context, ALFWorldSpec, "")
    if isinstance(told, Mapping):
        return {"reward": _number(cast("Mapping[str, Any]", told).get("reward"), "ALFWorld")}
    entries = list(cast("Sequence[Any]", told)) if isinstance(told, list | tuple) else []
    if len(entries) != ALFWORLD_STEP:
        raise RewardValueError(
            f"a step of ALFWorld's gives observation, reward, done and info; {told!r:.200} came"
        )
    return {"reward": _number(entries[1], "ALFWorld")}


@reward(range=(0.0, SOLVED))
async def scienceworld_reward(
    final_response: str = "",  # noqa: ARG001  (AgentFly's)
    *,
    context: Context,
) -> dict[str, Any]:
    """Asks the rollout's ScienceWorld for its best score so far: 10 for a full one, else 0.

    Hazards: the range is [0, 10], so in a sum it outweighs rewards up to 1; an episode of fewer than 4
    messages earns 0 unseen.

    Source: AgentFly at 1256586; its page names neither the 10 nor the 4.

    Args:
        final_response: Not looked at.
        context: Leads to the environment, as `ScienceWorldSpec`; its `trajectory` is the messages so far.

    Returns:
        `reward`, 0 or 10; `acc`, 0 or 1; `score`, the environment's, 1 at most unless it says otherwise;
        `output`, its words.

    Raises:
        RewardValueError: The environment gave no score.
        OrsServerError: The environment could not be had.
    """
    if len(context.trajectory) < LEAST_MESSAGES:
        return {"reward": 0.0, "acc": 0.0, "output": "Not enough steps to get reward"}
    told = await _step(context, ScienceWorldSpec, "get_reward")
    if not isinstance(told, Mapping):
        raise RewardValueError(
            f"ScienceWorld gives a mapping with reward and observation; {told!r:.200} came"
        )
    found = cast("Mapping[str, Any]", told)
    score = _number(found.get("reward"), "ScienceWorld")
    is_done = score >= 1
    output = found.get("observation", "Task completed" if is_done else "Task not completed")
    return {
        "reward": SOLVED if is_done else 0.0,
        "acc": float(is_done),
        "score": found["reward"],
        "output": output,
    }


@reward(range=(0.0, 1.0))
async def code_reward_test(prediction: str, context: Context) -> dict[str, Any]:
    """Runs a program in the rollout's Python environment: 1 if it runs to its end, 0 if it raises.

    Hazards: it does not look at what the program prints, so `pass` earns 1, and so does whatever catches its
    own errors. Compare what it prints if that matters.

    Source: AgentFly's documentation. Its code pays 1 for a traceback too, and 0 where the environment fails.

    Args:
        prediction: The program.
        context: Leads to the environment, as `PythonEnvSpec`.

    Returns:
        `reward`, 0 or 1; `output`, what the environment printed.

    Raises:
        RewardValueError: The environment gave no text.
        OrsServerError: The environment could not be had.
    """
    told = await _step(context, PythonEnvSpec, prediction)
    output = cast("Mapping[str, Any]", told).get("observation") if isinstance(told, Mapping) else told
    if not isinstance(output, str):
        raise RewardValueError(f"a Python environment gives text; {told!r:.200} came")
    return {"reward": float(_FAILED.search(output[-MAX_OUTPUT:]) is None), "output": output}


async def _step(context: Context, spec: NamedResourceSpec, *arguments: Any) -> Any:
    env = await context.acquire_resource(spec=spec, scope="global", backend="local")
    told = env.step(*arguments)
    return await told if inspect.isawaitable(told) else told


def _number(value: object, who: str) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise RewardValueError(f"{who} gave no reward that is a finite number: {value!r:.80}")
    return float(value)
