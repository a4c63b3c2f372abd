"""The gold actions themselves: do they earn the most, and does nothing else earn as much?"""

import re
from collections.abc import Callable, Sequence
from typing import ClassVar

from typing_extensions import override

from ors_server.audit.judgement import AuditVerdict, is_same, mean
from ors_server.audit.plays import Call, PlayResult
from ors_server.audit.policy import AuditPolicy
from ors_server.audit.study import AuditedTask, CallsOf, Measure, Study

REWRITES_KEPT = 0.95
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
    async def examine(self, study: Study) -> Sequence[Measure]:
        measures = [await self._judge_oracle(study)]
        if study.scale.is_usable and study.slot is not None and not study.slot.choices:
            measures += await self._judge_rewrites(study)
            measures += await study.measure(
                {"a changed answer": _changing(study)},
                "{variant}, with another leading digit or first letter, is paid like the right one",
                scale=study.wrong_scale,
            )
        return measures

    async def _judge_oracle(self, study: Study) -> Measure:
        declared = study.facts.return_range
        bounds = study.facts.reward_range
        low: list[tuple[AuditedTask, PlayResult]] = []
        best = max((played.total for played in study.oracle.values()), default=0.0)
        for at, played in study.oracle.items():
            task = study.tasks[at]
            if declared is not None:
                is_low = played.total < declared[1] and not is_same(played.total, declared[1])
            else:
                top = max((reward for reward in played.rewards if reward is not None), default=0.0)
                is_low = (bounds is None or top < bounds[1]) and self._is_poor(study, played, best)
            if is_low and not await self._is_luck(study, task, played):
                low.append((task, played))
        if not low:
            return Measure("the gold actions", AuditVerdict.PASS, "", len(study.oracle))
        task, played = low[0]
        why = f"; {played.failure.splitlines()[0][:200]}" if played.failure else ""
        some = f"{len(low)} of {len(study.oracle)} tasks"
        message = f"the gold actions of {some} do not earn the most; the first earn {played.total:.3g}{why}"
        return Measure(
            "the gold actions",
            AuditVerdict.WARN if study.is_inferred else AuditVerdict.FAIL,
            message,
            len(study.oracle),
            None,
            played.total,
            task.play(task.gold or (), seed=study.seed),
            best if declared is None else declared[1],
        )

    def _is_poor(self, study: Study, played: PlayResult, best: float) -> bool:
        """Return whether gold actions earn less than half of what the best earn, or fail."""
        if played.failure is not None:
            return True
        bounds = study.facts.reward_range
        if best <= 0:
            return bounds is not None and bounds[1] > 0
        return played.total < 0.5 * best

    async def _is_luck(self, study: Study, task: AuditedTask, played: PlayResult) -> bool:
        """Return whether another seed earns more, so that the game and not the answer is to blame."""
        if not study.server.has_seeds or played.failure is not None:
            return False
        plays = [task.play(task.gold or (), seed=study.seed + more) for more in range(1, SEEDS + 1)]
        return any(
            one.total > played.total and not is_same(one.total, played.total)
            for one in await study.player.play(plays)
        )

    async def _judge_rewrites(self, study: Study) -> list[Measure]:
        measures: list[Measure] = []
        for name, change in _REWRITES.items():
            kept: list[float] = []
            plays = [
                (at, task.play(calls, seed=study.seed))
                for at, task in enumerate(study.tasks)
                if (core := study.core(task)) is not None
                and study.slot is not None
                and (calls := study.answering(task, change(study.slot.wrapped(core)))) is not None
                and at in study.oracle
            ]
            found = await study.player.play([one for _, one in plays])
            for (at, _), played in zip(plays, found, strict=True):
                kept.append(float(played.total >= study.oracle[at].total - 1e-9))
            if kept and 0.0 < mean(kept) < REWRITES_KEPT:  # one that refuses all of them is strict, not wrong
                lost = kept.index(0.0)
                message = f"{1 - mean(kept):.0%} of the right answers with {name} are not paid"
                play, total = plays[lost][1], found[lost].total
                measures.append(
                    Measure(name, AuditVerdict.WARN, message, len(kept), None, total, play, study.scale.full)
                )
        return measures


_REWRITES: dict[str, Callable[[str], str]] = {
    "a line break at the end": lambda text: f"{text}\n",
    "a space at each end": lambda text: f" {text} ",
}


def _changing(study: Study) -> CallsOf:
    def calls_of(task: AuditedTask) -> Sequence[Call] | None:
        core, slot = study.core(task), study.slot
        changed = None if core is None else _changed(core)
        return None if changed is None or slot is None else study.answering(task, slot.wrapped(changed))

    return calls_of


def _changed(core: str) -> str | None:
    """Return a number with another leading digit, or a word with another first letter; `None` for others."""
    number = _NUMBER.fullmatch(core)
    if number is not None:
        sign, digits, rest = number.groups()
        return f"{sign}{int(digits[0]) % 9 + 1}{digits[1:]}{rest}"
    if core.isalpha() and len(core) >= WORD:
        return ("Z" if core[0] not in "zZ" else "Q") + core[1:]
    return None
