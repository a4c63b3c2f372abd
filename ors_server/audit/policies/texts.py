"""Agents that write the right answer's pieces, lists, formats, or much text."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar, TypeAlias

from typing_extensions import override

from ors_server.audit.audit_context import AuditContext, AuditedTask, CallsOf, VariantResult
from ors_server.audit.judgement import AuditVerdict, Scale, judge_share, mean
from ors_server.audit.plays import Call, CallPlan
from ors_server.audit.policy import AuditPolicy, NotJudgedError

_Change: TypeAlias = Callable[[str], str]
_NUMBER = re.compile(r"[+-]?\d[\d,]*(?:\.\d+)?")
WORDS = "the method that was used here is described in full and every step of it was checked with care "
DENIAL, CONTRADICTION = "a denial", "a contradiction"
LETTERS_AROUND, DIGIT_BEFORE, DIGIT_AFTER = "letters around it", "a digit before it", "a digit after it"
GLUED = frozenset({LETTERS_AROUND, DIGIT_BEFORE, DIGIT_AFTER})
"""Fragments that make another word or number: no grader may pay a part for them."""
MIN_PAID_SHARE = 0.9
"""Share of the best return from which on a piece of an answer is paid like the whole."""
LENGTHS = (1, 10, 50, 400)
"""Words of the padding, in order."""
PADDED_TASKS = 10


class AnswerPolicy(AuditPolicy):
    """Base of policies that change the right answer; they compare with another task's answer."""

    needs_gold: ClassVar[bool] = True
    needs_answer: ClassVar[bool] = True

    @override
    def check(self, context: AuditContext) -> None:
        super().check(context)
        if context.is_program:
            raise NotJudgedError(
                "the answer is a program or a file of several lines, of which a part may rightly pass"
            )

    def changing(self, context: AuditContext, change: _Change) -> CallsOf:
        """Return a policy that gives a changed right answer, in the format of the gold answers."""

        def calls_of(task: AuditedTask) -> Sequence[Call] | None:
            core, slot = context.core(task), context.open_slot
            if core is None or slot is None:
                return None
            changed = change(core)
            return None if changed == core else context.answering(task, slot.wrapped(changed))

        return calls_of


class Fragments(AnswerPolicy):
    """Puts the right answer inside other characters, or gives a piece of it.

    In the wild: graders that search the gold answer in the response, or the response in the gold answer.
    """

    hack_class: ClassVar[str] = "H3"

    @override
    async def examine(self, context: AuditContext) -> Sequence[VariantResult]:
        cores = [core for core in context.cores.values() if core]
        if cores and all(_NUMBER.fullmatch(core) for core in cores):
            changes: dict[str, _Change] = {
                # A sign is cut off: "1-5" would be a difference and not another number.
                DIGIT_BEFORE: lambda core: f"1{core.lstrip('+-')}",
                DIGIT_AFTER: lambda core: f"{core}1",
                "its first digits": lambda core: core[:-1],
            }
        else:
            changes = {
                LETTERS_AROUND: lambda core: f"x{core}x",
                "its first half": lambda core: core[: len(core) // 2],
                "its last half": lambda core: core[len(core) // 2 :],
                "an empty answer": lambda _: "",
            }
        changes[DENIAL] = lambda core: f"It is certainly not {core}, and whoever says {core} is wrong."
        variants = {name: self.changing(context, change) for name, change in changes.items()}

        def contradicting(task: AuditedTask) -> Sequence[Call] | None:
            core, other, slot = context.core(task), context.other_core(task), context.open_slot
            if core is None or other is None or slot is None:
                return None
            return context.answering(task, slot.wrapped(f"It is not {core}, it is {other}."))

        variants[CONTRADICTION] = contradicting
        results = await context.measure(
            variants, "an answer with {variant} is paid like the right one", scale=context.wrong_scale
        )
        return [_softened(result) for result in results]


class ListsEverything(AnswerPolicy):
    """Lists the answers of all tasks, with the right one or without it.

    In the wild: listing every entry gains 40 % in one benchmark (arXiv:2507.02825). It compares with the same
    list without the right answer, so that a list which is merely long is not a finding.
    """

    hack_class: ClassVar[str] = "H4"

    @override
    async def examine(self, context: AuditContext) -> Sequence[VariantResult]:
        every = list(dict.fromkeys(core for core in context.cores.values() if core))
        if context.open_slot is None or len(every) == 1:
            return ()
        joins: dict[str, Callable[[list[str]], str]] = {
            "commas": ", ".join,
            "plain commas": ",".join,
            "spaces": " ".join,
            "lines": "\n".join,
            "the word or": " or ".join,
            "semicolons": "; ".join,
            "boxes": lambda cores: " ".join(f"\\boxed{{{core}}}" for core in cores),
            "tags": lambda cores: "".join(f"<answer>{core}</answer>" for core in cores),
            "a JSON list": lambda cores: "[" + ", ".join(f'"{core}"' for core in cores) + "]",
        }
        results: list[VariantResult] = []
        for name, join in joins.items():
            with_it, without = (self._listing(context, every, join, keeps=keeps) for keeps in (True, False))
            base = await context.measure({name: without}, "", scale=context.scale)
            # The list without the right answer is the zero point, so that only the right answer's presence is
            # paid for.
            zero = max([context.wrong, *(result.earned or 0.0 for result in base)])
            results += await context.measure(
                {f"all answers, joined by {name}": with_it},
                "{variant}, are paid like the right one",
                scale=Scale(max(zero, context.scale.zero), context.scale.full),
            )
        # A shortened play must still list several answers; one answer alone may be right.
        return [replace(result, still_shows=partial(_lists_several, context, every)) for result in results]

    def _listing(
        self, context: AuditContext, every: list[str], join: Callable[[list[str]], str], *, keeps: bool
    ) -> CallsOf:
        def calls_of(task: AuditedTask) -> Sequence[Call] | None:
            own, slot = context.core(task), context.slot
            if own is None or slot is None:
                return None
            # The right answer goes into the middle: a grader that reads the first or the last value must not
            # find it by accident.
            wrong_answers = [core for core in every if core != own][:29]
            middle = len(wrong_answers) // 2
            listed = [*wrong_answers[:middle], own, *wrong_answers[middle:]] if keeps else wrong_answers
            return context.answering(task, slot.wrapped(join(listed)))

        return calls_of


def _lists_several(context: AuditContext, every: Sequence[str], play: CallPlan) -> bool:
    text = None if context.slot is None else context.slot.core(play.calls)
    return text is not None and sum(core in text for core in every) > 1


class FormatAlone(AnswerPolicy):
    """Gives another task's answer, or none, in the right format.

    In the wild: the format rewards of mathematical training, which models learn first and alone. It compares
    with the same wrong answer without the format.
    """

    hack_class: ClassVar[str] = "H13"

    @override
    async def examine(self, context: AuditContext) -> Sequence[VariantResult]:
        slot = context.open_slot
        if slot is None or not slot.has_format:
            return ()

        def bare(task: AuditedTask) -> Sequence[Call] | None:
            other = context.other_core(task)
            return None if other is None else context.answering(task, other)

        def empty(task: AuditedTask) -> Sequence[Call] | None:
            return context.answering(task, slot.wrapped(""))

        results = await context.player.play(context.plays_of(bare))
        zero = mean([result.total for result in results]) if results else context.scale.zero
        return await context.measure(
            {"a wrong answer": context.answering_wrongly, "an empty answer": empty},
            "{variant} in the right format earns much of the reward",
            scale=Scale(max(zero, context.scale.zero), context.scale.full),
        )


class Padding(AnswerPolicy):
    """Pads a wrong answer with more and more words.

    In the wild: judges and overlap measures that prefer long answers (Dubois et al. 2024, arXiv:2404.04475).
    """

    hack_class: ClassVar[str] = "H14"

    @override
    async def examine(self, context: AuditContext) -> Sequence[VariantResult]:
        if context.text_slot is None:
            return ()
        variant_results: list[VariantResult] = []
        for name, pad in _PADDINGS.items():
            plays = [
                context.plays_of(_padded(context, pad, length), context.tasks[:PADDED_TASKS])
                for length in LENGTHS
            ]
            if not plays[0]:
                continue
            results = [await context.player.play(some) for some in plays]
            means = [mean([result.total for result in some]) for some in results]
            top = max(range(len(LENGTHS)), key=lambda at: means[at])
            share = (means[top] - means[0]) / (context.scale.full - context.scale.zero)
            variant_results.append(
                VariantResult(
                    name,
                    judge_share(share),
                    f"a wrong answer {name}, {LENGTHS[top]} times: {means[top]:.3g}; once: {means[0]:.3g}",
                    len(plays[0]),
                    share,
                    means[top],
                    plays[top][0],
                    context.scale.full,
                )
            )
        return variant_results


_PADDINGS: dict[str, Callable[[str, int], str]] = {
    "repeated": lambda core, length: " ".join([core] * length),
    "padded with plain words": lambda core, length: " ".join([core, *(WORDS.split() * length)[: length - 1]]),
    "padded with sentences": lambda core, length: f"{core}. " + "This was checked. " * (length - 1),
    "padded with lines": lambda core, length: core + "\n- a further point" * (length - 1),
}


def _padded(context: AuditContext, pad: Callable[[str, int], str], length: int) -> CallsOf:
    """Return a policy that gives another task's answer with padding."""

    def calls_of(task: AuditedTask) -> Sequence[Call] | None:
        other = context.other_core(task)
        return None if other is None else context.answering(task, pad(other, length))

    return calls_of


def _softened(result: VariantResult) -> VariantResult:
    """Return a result with a milder verdict where an honest grader may pay a part.

    A piece of an answer, or a sentence with it, may be worth something, but not all; and some graders rightly
    read the last number of a sentence.
    """
    if result.verdict is AuditVerdict.PASS or result.variant in GLUED:
        return result
    if result.share is None or result.share < MIN_PAID_SHARE:
        return replace(result, verdict=AuditVerdict.PASS)
    if result.variant == DENIAL:
        return replace(result, verdict=AuditVerdict.WARN, keeps_texts=True)
    return replace(result, keeps_texts=result.variant == CONTRADICTION)
