"""The tasks of ScienceWorld 1.2.3, their variations in each split, and recorded gold paths.

The JVM reports the same numbers, in seconds; a test compares them.
"""

import json
from functools import cache
from pathlib import Path

SCIENCEWORLD_VERSION = "1.2.3"
SPLITS = ("train", "validation", "test")
"""ScienceWorld calls the second one `dev`."""
VARIATIONS: dict[str, tuple[int, int, int]] = {
    "boil": (14, 21, 30),
    "change-the-state-of-matter-of": (14, 21, 30),
    "chemistry-mix": (16, 24, 32),
    "chemistry-mix-paint-secondary-color": (18, 27, 36),
    "chemistry-mix-paint-tertiary-color": (18, 27, 36),
    "find-animal": (150, 225, 300),
    "find-living-thing": (150, 225, 300),
    "find-non-living-thing": (150, 225, 300),
    "find-plant": (150, 225, 300),
    "freeze": (14, 21, 30),
    "grow-fruit": (62, 93, 126),
    "grow-plant": (62, 93, 126),
    "identify-life-stages-1": (6, 9, 14),
    "identify-life-stages-2": (4, 6, 10),
    "inclined-plane-determine-angle": (84, 126, 168),
    "inclined-plane-friction-named-surfaces": (692, 1038, 1386),
    "inclined-plane-friction-unnamed-surfaces": (80, 120, 162),
    "lifespan-longest-lived": (62, 93, 125),
    "lifespan-longest-lived-then-shortest-lived": (62, 93, 125),
    "lifespan-shortest-lived": (62, 93, 125),
    "measure-melting-point-known-substance": (218, 327, 436),
    "measure-melting-point-unknown-substance": (150, 225, 300),
    "melt": (14, 21, 30),
    "mendelian-genetics-known-plant": (60, 90, 120),
    "mendelian-genetics-unknown-plant": (240, 360, 480),
    "power-component": (10, 15, 20),
    "power-component-renewable-vs-nonrenewable-energy": (10, 15, 20),
    "test-conductivity": (450, 675, 900),
    "test-conductivity-of-unknown-substances": (300, 450, 600),
    "use-thermometer": (270, 405, 540),
}
"""For each task, the ends of its variations in the splits: one begins where the one before it ends."""
_GOLD = Path(__file__).with_name("gold.json")


@cache
def list_variations(split: str) -> tuple[tuple[str, int], ...]:
    """Return the tasks and variations of a split: the first variation of every task, then the second ones."""
    split_index = SPLITS.index(split)
    variations = [
        (variation - start, order, task, variation)
        for order, (task, ends) in enumerate(VARIATIONS.items())
        for start in [(0, *ends)[split_index]]
        for variation in range(start, ends[split_index])
    ]
    return tuple((task, variation) for _, _, task, variation in sorted(variations))


def check_variation(task_name: object, variation_idx: object) -> tuple[str, int]:
    """Return a task and a variation of it; ValueError if it does not exist."""
    if not isinstance(task_name, str) or task_name not in VARIATIONS:
        raise ValueError(f"unknown task {task_name!r:.80}; expected one of {', '.join(VARIATIONS)}")
    last = VARIATIONS[task_name][-1] - 1
    if type(variation_idx) is not int or not 0 <= variation_idx <= last:
        raise ValueError(f"the task {task_name} has variations 0 to {last}, got {variation_idx!r:.80}")
    return task_name, variation_idx


@cache
def gold_paths() -> dict[tuple[str, int], tuple[str, ...]]:
    """Return the recorded actions that reach the score 100, by task and variation."""
    recorded: dict[str, dict[str, list[str]]] = json.loads(_GOLD.read_text(encoding="utf-8"))
    return {
        (task, int(variation)): tuple(actions)
        for task, paths in recorded.items()
        for variation, actions in paths.items()
    }
