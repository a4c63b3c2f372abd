"""Rewards for texts take time in proportion to the response, whatever it is made of."""

import time

import pytest

from ors_server.rewards.catalogue import find_reward, list_rewards
from ors_server.rewards.reward_trajectory import Trajectory
from ors_server.rewards.scoring import score

pytestmark = pytest.mark.stress

PIECES = (
    *(
        "<think>",
        "</think>\n<answer>",
        "<answer>",
        "\n</think",
        "a ",
        "an a the ",
        "\n",
        "\n- ",
        " ",
        "\t\n",
        "Step 1",
        "**a",
    ),
    *(
        "[",
        "<<",
        "\\boxed{",
        "Answer: ",
        "A is ",
        "I choose ",
        "gold text ",
        "#### ",
        "1,",
        "1/",
        "-",
        "$1",
        "{",
        '"',
        "```json\n",
    ),
    *("\u0301", "\u00e9 ", "\ufdfa", "<|im_end|>", "</s>", ". ", "not ", "1 1/"),
)
MODULES = (
    "matches",
    "numeric_match",
    "multiple_choice",
    "response_format",
    "overlap",
    "instructions",
    "structured",
    "exact",
)
FIELDS = {
    "answer": "gold text",
    "pattern": r"\bgold\b",
    "choices": ["gold text", "other", "third"],
    "schema": {"type": "object"},
    "golden_answers": ["gold text", "the"],
    "instructions": [
        {"kind": "bullets", "at_least": 9},
        {"kind": "title"},
        {"kind": "sentences", "at_least": 9},
    ],
}
REWARDS = [entry for entry in list_rewards() if entry.place.split(":")[0].split(".")[-1] in MODULES]
FOUR_TIMES = 12.0
"""The most by which four times the text may cost more; the square would cost 16 times as much."""
NOTICED = 0.05
"""Seconds below which the cost is not looked at."""


def seconds(entry, text):
    trajectory = Trajectory(messages=({"role": "assistant", "content": text},))
    began = time.process_time()
    result = score(find_reward(entry.name), trajectory, final_response=text, **FIELDS)
    assert result.reward is not None or result.status == "bad_gold"
    return time.process_time() - began


@pytest.mark.parametrize("entry", REWARDS, ids=lambda entry: entry.name)
def test_the_cost_grows_with_the_text(entry):
    for piece in PIECES:
        short, long = (piece * (length // len(piece)) for length in (60_000, 240_000))
        base = min(seconds(entry, short) for _ in range(2))
        cost = min(seconds(entry, long) for _ in range(2))
        assert cost < NOTICED or cost <= FOUR_TIMES * base, (piece, base, cost)
