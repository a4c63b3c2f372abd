"""Reads the rewards that a verifier wrote, and accepts only unambiguous numbers. Pure functions."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

REWARD = "reward"
"""The key of the episode's reward; other keys are further figures."""
MAX_BYTES = 65_536
"""Bytes of a reward file above which it is refused."""
MAX_KEYS = 200
NEAR_MISSES = (
    "rewards.json",
    "rewards.txt",
    "reward",
    "reward.jsonl",
    "reward.yaml",
    "score.txt",
    "score.json",
)
"""Wrong names for `reward.json` and `reward.txt` that authors use; Harbor's own template has one of them."""
# What verifiers install or install with. A missing program of another name may be the agent's to make.
_TOOLS = (
    r"(?:apt|apt-get|apk|dnf|yum|curl|wget|git|pip3?|pipx|uvx?|poetry|conda|pytest|py\.test|tox|python[\d.]*"
    r"|node|npm|npx|yarn|pnpm|bun|cargo|go|make|cmake|gcc|java|mvn|gradle|ruby|perl|jq|bc|unzip|sqlite3)"
)
_SETUP_FAILURES = re.compile(
    rf"^(?:/tests/\S*\.sh|\S*bash|\S*/sh|sh): (?:line )?\d+: {_TOOLS}: "
    r"(?:command not found|not found)$"
    r"|Temporary failure (?:in name resolution|resolving)"
    r"|Could not resolve (?:host|proxy)|Name or service not known|Network is unreachable"
    r"|^E: (?:Unable to|Could not|Failed to|Package )"
    r"|No matching distribution found"
    r"|^(?:/\S+/)?python[\d.]*: No module named (?:pip|uv|venv|ensurepip|pytest\S*)$"
    r"|^error: (?:Failed to fetch|No solution found|Could not connect)",
    re.MULTILINE,
)


class RewardFileError(ValueError):
    """The verifier wrote no valid reward; the message quotes what it wrote."""


def read_rewards(as_json: bytes | None, as_text: bytes | None, names: Sequence[str] = ()) -> dict[str, float]:
    """Return the figures of a verifier by key, with the reward under `reward`.

    Args:
        as_json: The content of `reward.json`; `None` if there is no such file.
        as_text: The content of `reward.txt`, likewise.
        names: Names of the other files that the verifier wrote, for the message.

    Raises:
        RewardFileError: There is no reward, it is not a finite number, or the two files contradict.
    """
    if as_json is None and as_text is None:
        near = [name for name in names if name in NEAR_MISSES]
        hint = f"; it wrote {near[0]}, which is not read" if near else ""
        raise RewardFileError(f"the verifier wrote neither reward.json nor reward.txt{hint}")
    stated = None if as_text is None else _read_text(as_text)
    if as_json is None:
        return {REWARD: stated} if stated is not None else {}
    figures = _read_json(as_json)
    if REWARD not in figures:
        keys = ", ".join(map(repr, figures)) or "none"
        raise RewardFileError(f"reward.json has no key 'reward', which is the episode's reward; keys: {keys}")
    if stated is not None and stated != figures[REWARD]:
        raise RewardFileError(
            f"reward.json says {figures[REWARD]:g} and reward.txt says {stated:g}; write one reward"
        )
    return figures


def _read_text(content: bytes) -> float:
    text = content.decode("utf-8", "replace").strip()
    if not text:
        raise RewardFileError("reward.txt is empty")
    try:
        value = float(text)
    except ValueError:
        raise RewardFileError(f"reward.txt: expected a number, got {text[:80]!r}") from None
    return _finite(value, "reward.txt")


def _read_json(content: bytes) -> dict[str, float]:
    try:
        value: object = json.loads(content.decode("utf-8"), object_pairs_hook=_unique)
    except RecursionError:
        raise RewardFileError("reward.json is nested too deeply") from None
    except ValueError as error:
        raise RewardFileError(f"reward.json is not JSON: {str(error)[:200]}") from None
    if not isinstance(value, dict):
        raise RewardFileError(f"reward.json: expected an object of numbers, got a {type(value).__name__}")
    entries = cast("Mapping[str, object]", value)
    if len(entries) > MAX_KEYS:
        raise RewardFileError(f"reward.json has {len(entries)} keys, more than {MAX_KEYS}")
    return {key: _number(entry, key) for key, entry in entries.items()}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise RewardFileError(f"reward.json has the key {twice!r} twice")
    return table


def _number(value: object, key: str) -> float:
    # `True` is an int to Python; a verifier that writes it has not written a number.
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RewardFileError(f"reward.json: {key}: expected a number, got {str(value)[:80]!r}")
    try:
        return _finite(float(value), f"reward.json: {key}")
    except OverflowError:
        raise RewardFileError(f"reward.json: {key} is larger than every float") from None


def _finite(value: float, where: str) -> float:
    if not math.isfinite(value):
        raise RewardFileError(f"{where}: expected a finite number, got {value}")
    return value


def find_setup_failure(output: str) -> str | None:
    """Return the line of a verifier's output which shows that its own set-up failed; `None` without one."""
    match = _SETUP_FAILURES.search(output)
    if match is None:
        return None
    begin = output.rfind("\n", 0, match.start()) + 1
    end = output.find("\n", match.end())
    return output[begin : end if end >= 0 else len(output)].strip()[:300]


def reward_below(figures: Mapping[str, float], thresholds: Mapping[str, float]) -> str | None:
    """Describe the first figure that is missing or below its threshold; `None` if there is no such figure."""
    for key, threshold in thresholds.items():
        if figures.get(key, -math.inf) < threshold:
            got = f"{figures[key]:g}" if key in figures else "missing"
            return f"{key} is {got}, below {threshold:g}"
    return None


def combine_steps(figures: Sequence[Mapping[str, float]], strategy: str) -> dict[str, float]:
    """Return the figures of a task of several steps: those of the last, or the mean of each key.

    Args:
        figures: Those of the steps that were played, in order; at least one. A missing key counts as 0.
        strategy: `mean` or `final`.
    """
    if strategy == "final":
        return dict(figures[-1])
    keys = dict.fromkeys(key for step in figures for key in step)
    return {key: math.fsum(step.get(key, 0.0) for step in figures) / len(figures) for key in keys}
