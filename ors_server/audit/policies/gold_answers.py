"""The gold actions themselves: do they earn the most, and does nothing else earn as much?"""

import re
from collections.abc import Callable, Sequence
from typing import ClassVar

from typing_extensions import override

from ors_server.audit.audit_context import AuditContext, AuditedTask, CallsOf, VariantResult
from ors_server.audit.judgement import TOLERANCE, AuditVerdict, is_same, mean
from ors_server.audit.plays import Call, PlayResult
from ors_server.audit.policy import AuditPolicy

# A grader may refuse a rewrite for a few tasks, where white space is part of the answer.
MIN_PAID_REWRITES = 0.95
"""Share of the tasks on which a rewrite of the gold answer must be paid."""
SEEDS = 5
WORD = 4
"""Letters of the shortest word that is changed."""
_NUMBER = re.compile(r"([+-]?)(\d+)((?:\.\d+)?)")


class WrongGold(AuditPolicy):
    """Plays the gold actions, with white space around the answer, and with another leading digit or letter.

    In the wild: about 7 % of the answers of GSM8K's and MATH's test splits were found wrong or unreadable
    (Vendrow et al. 2025, "Do Large Language Model Benchmarks Test Reliability?").
    """

    hack_class: ClassVar[str] = "H18"
    needs_gold: ClassVar[bool] = True
    needs_scale: ClassVar[bool] = False

    @override
    async def examine(self, context: AuditContext) -> Sequence[VariantResult]:
        results = [await self._judge_oracle(context)]
        if context.scale.is_usable and context.slot is not None and not context.slot.choices:
            results += await self._judge_rewrites(context)
            results += await context.measure(
                {"a changed answer": _changing(context)},
                "{variant}, with another leading digit or first letter, is paid like the right one",
                scale=context.wrong_scale,
            )
        return results

    async def _judge_oracle(self, context: AuditContext) -> VariantResult:
        # Without a declared range of returns, each task is compared with the best task: a task whose gold
        # actions earn much less, and whose best reward is below the maximum, probably has a wrong answer.
        declared = context.facts.return_range
        bounds = context.facts.reward_range
        low: list[tuple[AuditedTask, PlayResult]] = []
        best = max((played.total for played in context.oracle.values()), default=0.0)
        for at, played in context.oracle.items():
            task = context.tasks[at]
            if declared is not None:
                is_low = played.total < declared[1] and not is_same(played.total, declared[1])
            else:
                top = max((reward for reward in played.rewards if reward is not None), default=0.0)
                is_low = (bounds is None or top < bounds[1]) and self._is_poor(context, played, best)
            if is_low and not await self._is_luck(context, task, played):
                low.append((task, played))
        if not low:
            return VariantResult("the gold actions", AuditVerdict.PASS, "", len(context.oracle))
        task, played = low[0]
        why = f"; {played.failure.splitlines()[0][:200]}" if played.failure else ""
        some = f"{len(low)} of {len(context.oracle)} tasks"
        message = f"the gold actions of {some} do not earn the most; the first earn {played.total:.3g}{why}"
        return VariantResult(
            "the gold actions",
            AuditVerdict.WARN if context.is_inferred else AuditVerdict.FAIL,
            message,
            len(context.oracle),
            None,
            played.total,
            task.play(task.gold or (), seed=context.seed),
            best if declared is None else declared[1],
        )

    def _is_poor(self, context: AuditContext, played: PlayResult, best: float) -> bool:
        """Return whether gold actions earn less than half of what the best earn, or fail."""
        if played.failure is not None:
            return True
        bounds = context.facts.reward_range
        if best <= 0:
            return bounds is not None and bounds[1] > 0
        return played.total < 0.5 * best

    async def _is_luck(self, context: AuditContext, task: AuditedTask, played: PlayResult) -> bool:
        """Return whether another seed earns more, so that the game and not the answer is to blame."""
        if not context.server.has_seeds or played.failure is not None:
            return False
        plays = [task.play(task.gold or (), seed=context.seed + more) for more in range(1, SEEDS + 1)]
        return any(
            retry.total > played.total and not is_same(retry.total, played.total)
            for retry in await context.player.play(plays)
        )

    async def _judge_rewrites(self, context: AuditContext) -> list[VariantResult]:
        variant_results: list[VariantResult] = []
        for name, change in _REWRITES.items():
            payments: list[float] = []
            plays = [
                (at, task.play(calls, seed=context.seed))
                for at, task in enumerate(context.tasks)
                if (core := context.core(task)) is not None
                and context.slot is not None
                and (calls := context.answering(task, change(context.slot.wrapped(core)))) is not None
                and at in context.oracle
            ]
            results = await context.player.play([plan for _, plan in plays])
            for (at, _), played in zip(plays, results, strict=True):
                payments.append(float(played.total >= context.oracle[at].total - TOLERANCE))
            if (
                payments and 0.0 < mean(payments) < MIN_PAID_REWRITES
            ):  # a grader that refuses all of them is strict, not wrong
                lost = payments.index(0.0)
                message = f"{1 - mean(payments):.0%} of the right answers with {name} are not paid"
                play, total = plays[lost][1], results[lost].total
                variant_results.append(
                    VariantResult(
                        name, AuditVerdict.WARN, message, len(payments), None, total, play, context.scale.full
                    )
                )
        return variant_results


_REWRITES: dict[str, Callable[[str], str]] = {
    "a line break at the end": lambda text: f"{text}\n",
    "a space at each end": lambda text: f" {text} ",
}


def _changing(context: AuditContext) -> CallsOf:
    def calls_of(task: AuditedTask) -> Sequence[Call] | None:
        core, slot = context.core(task), context.slot
        changed = None if core is None else _changed(core)
        return None if changed is None or slot is None else context.answering(task, slot.wrapped(changed))

    return calls_of


def _changed(core: str) -> str | None:
    """Return a number with another leading digit, or a word with another first letter; `None` for others."""
    number = _NUMBER.fullmatch(core)
    if number is not None:
        sign, digits, rest = number.groups()
        # `% 9 + 1` never gives the same digit, and never a leading zero.
        return f"{sign}{int(digits[0]) % 9 + 1}{digits[1:]}{rest}"
    if core.isalpha() and len(core) >= WORD:
        return ("Z" if core[0] not in "zZ" else "Q") + core[1:]
    return None
