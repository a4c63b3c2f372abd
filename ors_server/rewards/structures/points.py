"""Rewards for a point on a screen: how near it is, or whether it is in a box."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ors_server.model.json_values import is_array
from ors_server.rewards.result import RewardResult
from ors_server.rewards.reward_errors import RewardFieldError
from ors_server.rewards.text.texts import BadGoldError, UnparsedAnswerError, text_reward

RADIUS = 0.15
"""Distance, in parts of the screen, beyond which nothing is paid (NeMo Gym)."""
MAX_CHARACTERS = 20_000
_NUMBER = r"([-+]?\d{1,9}(?:\.\d{1,15})?)"
_PAIR = re.compile(
    rf"[(\[]\s*{_NUMBER}\s*,\s*{_NUMBER}\s*[)\]]"
    rf"|\bx\W{{0,3}}[=:]\s*{_NUMBER}\s*(?:,\s*)?[\"']?y\W{{0,3}}[=:]\s*{_NUMBER}"
    rf"|<point>\s*{_NUMBER}[\s,]\s*{_NUMBER}\s*</point>"
)


@dataclass(frozen=True, slots=True)
class ScreenPoint:
    """A place on a screen, in parts of its width and height from the upper left corner."""

    x: float
    y: float


@text_reward
def gui_point_reward(
    final_response: str, answer: Any, *, size: Sequence[float] | None = None, radius: float = RADIUS
) -> RewardResult:
    """Pays for pointing near a place: (1 - d / 0.15)² for a distance d below 0.15, else 0.

    Hazards: the middle of the screen earns something wherever golds are spread around it, so look at the mean
    of a constant; targets smaller than the radius pay for missing them (`gui_box_reward` does not). A denied
    point is one, too.

    Source: the coordinate reward of NeMo Gym's screen tasks, with Euclidean distances in parts of the screen.

    Args:
        final_response: One point: `(x, y)`, `[x, y]`, `x=..., y=...` or `<point>x y</point>`; others are
            `unparsed_answer`.
        answer: The place, `[x, y]`.
        size: Width and height, where both points are in pixels; without it they are in [0, 1].
        radius: Where the pay ends, above 0.
    """
    if not 0 < radius < math.inf:
        raise RewardFieldError(f"expected a finite radius above 0, got {radius!r}")
    scale = _scale(size)
    gold = _on_screen(answer, scale)
    if gold is None:
        raise BadGoldError(f"expected a gold point [x, y] on the screen, got {answer!r:.80}")
    point = _read_point(final_response, scale)
    distance = math.hypot(point.x - gold.x, point.y - gold.y)
    return RewardResult(max(0.0, 1.0 - distance / radius) ** 2, extras={"distance": distance})


@text_reward
def gui_box_reward(final_response: str, answer: Any, *, size: Sequence[float] | None = None) -> RewardResult:
    """Pays 1 for pointing into a box, its edge included, else 0; other cases are those of `gui_point_reward`.

    Hazards: a box that covers much of the screen is hit by a constant; a denied point is one, too.

    Source: the hit test of screen-grounding data (ScreenSpot and its kin), as in NeMo Gym.

    Args:
        answer: The box, `[left, top, right, bottom]`; the whole screen is a bad gold.
    """
    scale = _scale(size)
    corners = [_on_screen(answer[:2], scale), _on_screen(answer[2:], scale)] if is_array(answer) else []
    first, last = corners or (None, None)
    if first is None or last is None or first.x > last.x or first.y > last.y:
        raise BadGoldError(
            f"expected a gold box [left, top, right, bottom] on the screen, got {answer!r:.80}"
        )
    if (first, last) == (ScreenPoint(0.0, 0.0), ScreenPoint(1.0, 1.0)):
        raise BadGoldError("the box is the whole screen")
    point = _read_point(final_response, scale)
    return RewardResult(float(first.x <= point.x <= last.x and first.y <= point.y <= last.y))


def _scale(size: Sequence[float] | None) -> ScreenPoint:
    if size is None:
        return ScreenPoint(1.0, 1.0)
    if len(size) != 2 or not all(0 < extent < math.inf for extent in size):  # noqa: PLR2004  (width and height)
        raise RewardFieldError(f"expected a size as width and height above 0, got {size!r:.80}")
    return ScreenPoint(*size)


def _on_screen(value: Any, scale: ScreenPoint) -> ScreenPoint | None:
    """Read two numbers as a point; `None` if they are not one, or off the screen."""
    if not is_array(value) or len(value) != 2:  # noqa: PLR2004  (x and y)
        return None
    if not all(isinstance(number, int | float) and not isinstance(number, bool) for number in value):
        return None
    x, y = value
    if not (0 <= x <= scale.x and 0 <= y <= scale.y):
        return None
    return ScreenPoint(x / scale.x, y / scale.y)


def _read_point(response: str, scale: ScreenPoint) -> ScreenPoint:
    """Return the only point of a response; raises `UnparsedAnswerError` without exactly one."""
    if len(response) > MAX_CHARACTERS:
        raise UnparsedAnswerError(
            f"the response has {len(response)} characters; at most {MAX_CHARACTERS} are read"
        )
    pairs = _PAIR.finditer(response)
    pairs_of_numbers = {tuple(float(part) for part in pair.groups() if part is not None) for pair in pairs}
    if len(pairs_of_numbers) != 1:
        raise UnparsedAnswerError(f"expected one point, got {len(pairs_of_numbers)}")
    point = _on_screen(pairs_of_numbers.pop(), scale)
    if point is None:
        raise UnparsedAnswerError("the point is not on the screen")
    return point
