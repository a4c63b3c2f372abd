"""Rewards for the form of a response alone. Each pays a wrong answer as well: gate them by correctness.

`GatedReward(normalised_match_reward, think_format_reward)` pays the form where the answer is right. Every one
of them counts and searches for fixed texts, in linear time; a response of more than a million characters
earns nothing.
"""

import re
from itertools import islice
from typing import Final

from ors_server.rewards.define import reward
from ors_server.rewards.reading.fences import FENCE
from ors_server.rewards.text.texts import read_response, with_statuses

THINK: Final = ("<think>", "</think>")
ANSWER: Final = ("<answer>", "</answer>")
MIN_STEPS: Final = 3
"""Step markers that earn the whole of `reasoning_steps_reward` (open-r1)."""
MAX_CHARACTERS: Final = 1_000_000
"""Characters of a response that are read."""
_TAGS: Final = ("<think>\n", "\n</think>\n", "\n<answer>\n", "\n</answer>")
_STEP: Final = re.compile(r"Step \d{1,9}:|\A\d{1,9}\.|\n[-*]|First,|Second,|Next,|Finally,")


@reward(range=(0.0, 1.0))
@with_statuses
def think_format_reward(final_response: str) -> float:
    """Pays for a response that opens with one `<think>` block and closes it.

    Hazards: it never looks at the answer, and an empty block earns 1. Gate it by correctness. White space
    before the block, or another `<think>` behind it, earns 0.

    Reads: the raw response, reasoning included.

    Source: TRL's `think_format_reward` (huggingface/trl at f2cd577), case by case.
    """
    opening, closing = THINK
    response = read_response(final_response, MAX_CHARACTERS)
    rest = response.removeprefix(opening)
    return float(response.startswith(opening) and opening not in rest and closing in rest)


@reward(range=(0.0, 1.0))
@with_statuses
def answer_format_reward(final_response: str) -> float:
    """Pays for a `<think>` block, then an `<answer>` block with something in it, and nothing else.

    Hazards: it never looks at the content of the answer. Gate it by correctness. Each tag must be there once,
    so an answer cannot be hidden among others.

    Reads: the raw response, reasoning included.

    Source: `format_reward` of open-r1, which demands a line break inside of every tag; white space around the
    blocks is free here, and an empty answer earns nothing.
    """
    response = read_response(final_response, MAX_CHARACTERS).strip()
    tags = (*THINK, *ANSWER)
    if any(response.count(tag) != 1 for tag in tags):
        return 0.0
    thinking, thought, opening, closing = (response.index(tag) for tag in tags)
    between = response[thought + len(THINK[1]) : opening]
    answer = response[opening + len(ANSWER[0]) : closing]
    is_whole = thinking == 0 and closing + len(ANSWER[1]) == len(response)
    return float(
        is_whole and thinking < thought < opening < closing and not between.strip() and bool(answer.strip())
    )


@reward(range=(0.0, 1.0))
@with_statuses
def code_format_reward(final_response: str, language: str = "python") -> float:
    """Pays for a `<think>` block and then an `<answer>` block with a fenced program of a language in it.

    Hazards: neither the program nor the answer is looked at, and an empty fence earns 1; gate it by a reward
    that runs the program. Text after a line that begins with `</answer>` is free, as there.

    Reads: the raw response, reasoning included.

    Source: `code_format_reward` of open-r1 at 0056faa, with its line breaks, in one pass.
    """
    response = read_response(final_response)
    if not response.startswith("<think>\n"):
        return 0.0
    position = len("<think>\n")
    for mark in ("\n</think>\n<answer>\n", f"{FENCE}{language}", FENCE):
        start = response.find(mark, position)
        if start < 0:
            return 0.0
        position = start + len(mark)
    closing = f"\n{ANSWER[1]}"
    return float(f"{closing}\n" in response[position:] or response.endswith(closing, position))


@reward(range=(0.0, 1.0))
@with_statuses
def tag_count_reward(final_response: str) -> float:
    """Pays a quarter for each of the four tags of thinking and answering that is there once, on its own line.

    Hazards: four tags with nothing in them earn 1, in any order. Gate it by correctness, or use
    `answer_format_reward`.

    Reads: the raw response, reasoning included.

    Source: `tag_count_reward` of open-r1, with its line breaks.
    """
    response = read_response(final_response, MAX_CHARACTERS)
    return sum(response.count(tag) == 1 for tag in _TAGS) / len(_TAGS)


@reward(range=(0.0, 1.0))
@with_statuses
def reasoning_steps_reward(final_response: str) -> float:
    """Pays a third each, at most 1, for marks of step-by-step reasoning: "Step 1:", list items, "First,".

    Hazards: three bullets earn 1 with any text. Gate it by correctness.

    Reads: the raw response, reasoning included.

    Source: `reasoning_steps_reward` of open-r1.
    """
    steps = islice(_STEP.finditer(read_response(final_response, MAX_CHARACTERS)), MIN_STEPS)
    return sum(1 for _ in steps) / MIN_STEPS
