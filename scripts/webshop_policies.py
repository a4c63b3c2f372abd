"""Plays simple policies on every test task of the bundled shop and prints their mean rewards, for its README.

Usage: webshop_policies.py [TASKS]
"""

import ast
import random
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ors_server.testing import play
from ors_server_tasks.webshop import WebShop

MAX_CLICKS = 40
"""Steps of the policy that clicks at random."""

Policy = Callable[[Any, str, random.Random], None]


def main() -> int:
    """Print one line for each policy."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else WebShop.num_tasks("test")
    for name, policy in POLICIES.items():
        rng = random.Random(1)  # noqa: S311 - the figures are to be repeatable
        rewards = [reward_of(policy, index, rng) for index in range(count)]
        print(f"{name}: {sum(rewards) / count:.3f}")
    return 0


def reward_of(policy: Policy, index: int, rng: random.Random) -> float:
    """Play one test task and return its reward."""
    with play(WebShop, split="test", index=index) as episode:
        policy(episode, instruction_of(episode.prompt), rng)
        value: float = episode.summary.episode_return
        return value


def act(episode: Any, action: str) -> tuple[str, Sequence[str]]:
    """Do something, and return the page and what can be clicked on it."""
    (block,) = episode.call("webshop_browser_action", action=action).blocks
    page, _, clickables = block.text.rpartition("Clickables: ")
    return page, ast.literal_eval(clickables.strip()) if clickables.strip().startswith("[") else ()


def buy_the_first_product(episode: Any, instruction: str, *, with_options: bool) -> None:
    """Search for the instruction, open the first product, choose the options that it names, and buy."""
    _, clickables = act(episode, f"search[{instruction}]")
    product = next((name for name in clickables if is_product(name)), None)
    if product is None:
        return
    _, clickables = act(episode, f"click[{product}]")
    words = set(re.findall(r"[\w.]+", instruction.lower()))
    for option in clickables if with_options else ():
        if words.issuperset(re.findall(r"[\w.]+", option.lower())) and option.lower() != "buy now":
            act(episode, f"click[{option}]")
    act(episode, "click[buy now]")


def click_at_random(episode: Any, instruction: str, rng: random.Random) -> None:
    """Search for random words of the instruction, and click anything."""
    clickables: Sequence[str] = ()
    for _ in range(MAX_CLICKS):
        if clickables and "search" not in map(str.lower, clickables):
            action = f"click[{rng.choice(clickables)}]"
        else:
            action = f"search[{' '.join(rng.choices(instruction.split(), k=3))}]"
        output = episode.call("webshop_browser_action", action=action)
        if output.finished:
            return
        _, _, listed = output.blocks[0].text.rpartition("Clickables: ")
        clickables = ast.literal_eval(listed.strip()) if listed.strip().startswith("[") else ()


def buy_a_random_product(episode: Any, _instruction: str, _rng: random.Random) -> None:
    """Buy the first of the random products that the shop shows."""
    buy_the_first_product(episode, "<r>", with_options=False)


def is_product(name: str) -> bool:
    """Whether a clickable is a product: an ASIN."""
    return bool(re.fullmatch(r"[A-Za-z0-9]{10}", name)) and any(map(str.isdigit, name))


def instruction_of(prompt: str) -> str:
    """Return the instruction, which is the first line of a prompt."""
    return prompt.strip().partition("\n")[0]


POLICIES: dict[str, Policy] = {
    "first product, with options": lambda episode, text, _: buy_the_first_product(
        episode, text, with_options=True
    ),
    "first product, no options": lambda episode, text, _: buy_the_first_product(
        episode, text, with_options=False
    ),
    "random clicks and words": click_at_random,
    "first random product": buy_a_random_product,
}


if __name__ == "__main__":
    sys.exit(main())
