"""Shortens a winning transcript: fewer calls first, then shorter texts."""

from collections.abc import Callable
from typing import Any

from ors_server.audit.answer_slot import leaves, with_value
from ors_server.audit.plays import Call, CallPlan
from ors_server.audit.study import AuditPlayer

MAX_ROUNDS = 6
SHORT = 3
"""Characters at which a text is short enough."""


async def minimise(
    player: AuditPlayer,
    plan: CallPlan,
    least: float,
    is_dishonest: Callable[[CallPlan], bool] = lambda _: True,
    *,
    keeps_texts: bool = False,
) -> CallPlan:
    """Return the shortest play found that still earns at least as much.

    Args:
        least: The return that it must earn.
        is_dishonest: Whether a play still is no right answer.
        keeps_texts: Whether only whole calls may be left out, because their texts make the finding.
    """
    best = plan
    for _ in range(MAX_ROUNDS):
        shorter = [play for play in _shorter(best, keeps_texts=keeps_texts) if is_dishonest(play)]
        if not shorter:
            return best
        found = await player.play(shorter)
        winning = [
            play
            for play, played in zip(shorter, found, strict=True)
            if played.is_answered and not played.refused and played.total >= least
        ]
        if not winning:
            return best
        best = min(winning, key=_size)
    return best


def _size(plan: CallPlan) -> tuple[int, int]:
    return len(plan.calls), sum(len(str(arguments)) for _, arguments in plan.calls)


def _shorter(plan: CallPlan, *, keeps_texts: bool) -> list[CallPlan]:
    """Return plays without a part of the calls, and with a shorter text."""
    calls = plan.calls
    shortened: list[tuple[Call, ...]] = []
    for size in dict.fromkeys((len(calls) // 2, len(calls) // 4, 1)):
        if size and len(calls) > 1:
            shortened += [calls[:at] + calls[at + size :] for at in range(0, len(calls), size)]
    for at, (tool, arguments) in () if keeps_texts else enumerate(calls[:5]):
        for path, value in leaves(arguments):
            if isinstance(value, str) and len(value) > SHORT:
                for text in _pieces(value):
                    changed: Any = with_value(arguments, path, text)
                    shortened.append((*calls[:at], (tool, changed), *calls[at + 1 :]))
    return [plan.with_calls(calls) for calls in shortened[:40]]


def _pieces(text: str) -> list[str]:
    half, quarter = len(text) // 2, len(text) // 4
    lines = text.split("\n")
    pieces = [
        "",
        text[:half],
        text[half:],
        text[quarter : 3 * quarter],
        text[: -quarter or None],
        text[quarter:],
    ]
    if len(lines) > 1:
        pieces += ["\n".join(lines[:at] + lines[at + 1 :]) for at in range(len(lines))][:8]
    return [piece for piece in dict.fromkeys(pieces) if piece != text]
