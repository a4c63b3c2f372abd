"""Takes rewards to TRL and TRL's to ours, and prints what came of it as one JSON document.

Usage: `python rewards_trl.py ROOT PACKAGES`, with the interpreter of a virtual environment that has `trl`;
PACKAGES is the folder of what the rewards import. Neither a model nor torch is needed. The script judges
nothing: the test that starts it does.
"""

import asyncio
import inspect
import json
import pickle
import sys
from typing import Any

import anyio.lowlevel

sys.path.insert(0, sys.argv[1])
sys.path.append(sys.argv[2])

from trl.rewards import (
    get_cosine_scaled_reward,
    get_repetition_penalty_reward,
    get_soft_overlong_punishment,
    think_format_reward,
)

from ors_server.rewards.adapters.trl import as_trl, from_trl
from ors_server.rewards.scoring import score

PROMPT = [{"role": "user", "content": "How much is 2 + 2?"}]


def said(text: str) -> list[dict[str, str]]:
    """Spells a completion as the trainer does for a conversation."""
    return [{"role": "assistant", "content": text}]


def match(final_response: str, answer: str) -> dict[str, float]:
    """Compares texts, and cannot judge without one."""
    if not answer:
        raise ValueError("the answer is empty")
    return {"reward": float(final_response == answer), "length": len(final_response)}


async def match_later(final_response: str, answer: str) -> float:
    """Compares texts."""
    await anyio.lowlevel.checkpoint()
    return float(final_response == answer)


def ours() -> dict[str, Any]:
    """Calls rewards of ours as `GRPOTrainer` calls its reward functions."""
    metrics: dict[str, float] = {}
    extras: dict[str, list[str]] = {}
    batch = {
        "prompts": [PROMPT] * 3,
        "completions": [said("4"), said("5"), said("4")],
        "completion_ids": [[1], [2], [1]],
        "solution": ["4", "4", ""],
        "trainer_state": object(),
        "log_extra": extras.__setitem__,
        "log_metric": metrics.__setitem__,
    }
    columns = {"solution": "answer"}
    function = as_trl(match, columns=columns)
    rewards, logged = function(**batch), dict(metrics)
    later: Any = as_trl(match_later, columns=columns)
    plain = as_trl(match)(prompts=["2 + 2?"], completions=["4"], answer=["4"])
    packed: Any = pickle.loads(pickle.dumps(as_trl("efficiency_reward")))  # noqa: S301  (our own)
    return {
        "name": function.__name__,
        "rewards": rewards,
        "later": asyncio.run(later(**batch)),
        "is_async": inspect.iscoroutinefunction(later.__call__),
        "plain": plain,
        "packed": [packed.__name__, packed(**batch)],
        "metrics": logged,
        "reasons": extras,
    }


def theirs() -> dict[str, Any]:
    """Asks TRL's own reward functions as rewards of ours, and directly."""
    texts = ["<think>\nso\n</think>\n4", "4"]
    thinking = from_trl(think_format_reward, range=(0, 1))
    overlong = from_trl(
        get_soft_overlong_punishment(max_completion_len=10, soft_punish_cache=5), name="overlong"
    )
    repeated = from_trl(get_repetition_penalty_reward(ngram_size=2), name="repeated")
    ids = [[1] * length for length in (3, 7, 12)]
    return {
        "name": thinking.name,
        "format": [score(thinking, final_response=text).reward for text in texts],
        "format_direct": think_format_reward([said(text) for text in texts]),
        "overlong": [score(overlong, final_response="", completion_ids=one).reward for one in ids],
        "overlong_direct": get_soft_overlong_punishment(10, 5)(completion_ids=ids),
        "repeated": [score(repeated, final_response="", completion_ids=one).reward for one in ids],
        "repeated_direct": get_repetition_penalty_reward(2)(ids),
        "none": score(from_trl(lambda completions, **_: [None]), final_response="").as_json(),
    }


def beside() -> dict[str, Any]:
    """Asks rewards of ours and the same ones of TRL about one batch, as the trainer calls them."""
    tokens = [[1, 2, 3] * count for count in (1, 3, 5, 40)]
    texts = [r"\boxed{1}", r"\boxed{2}", "<think>so</think>1", "the same the same the same"]
    batch = {
        "prompts": [PROMPT] * len(texts),
        "completions": [said(text) for text in texts],
        "completion_ids": tokens,
        "trainer_state": object(),
        "log_extra": lambda *_: None,
        "log_metric": lambda *_: None,
    }
    overlong = {"max_completion_len": 20, "soft_punish_cache": 12}
    pairs = {
        "overlong": (
            as_trl("soft_overlong_reward", fields=overlong),
            get_soft_overlong_punishment(**overlong),
        ),
        "repeated": (as_trl("repetition_penalty_reward"), get_repetition_penalty_reward()),
        "thinking": (as_trl("think_format_reward"), think_format_reward),
    }
    found = {name: [one(**batch) for one in pair] for name, pair in pairs.items()}
    fields = {"max_len": 100, "is_correct": True}
    found["cosine"] = [as_trl("cosine_length_reward", fields=fields)(**batch), cosines(tokens, 100)]
    found["grouped"] = [as_trl("length_group_reward", fields={"answer": "1"})(**batch)]
    return found


def cosines(tokens: list[list[int]], max_len: int) -> list[float]:
    """Asks TRL's cosine reward as if every answer were right; grading needs what is not installed here."""
    scaled: Any = get_cosine_scaled_reward(max_len)
    scaled.__class__.__call__.__globals__["accuracy_reward"] = lambda completions, solution: (
        [True] * len(completions)
    )
    return list(scaled([said("1")] * len(tokens), ["1"] * len(tokens), tokens))


if __name__ == "__main__":
    sys.stdout.write(json.dumps({"ours": ours(), "theirs": theirs(), "beside": beside()}))
