"""Agents that write the right answer's pieces, lists, formats, or much text."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar, TypeAlias

from typing_extensions import override

from ors_server.audit.judgement import AuditVerdict, Scale, judge_share, mean
from ors_server.audit.plays import Call, CallPlan
from ors_server.audit.policy import AuditPolicy, NotJudgedError
from ors_server.audit.study import AuditedTask, CallsOf, Measure, Study

_Change: TypeAlias = Callable[[str], str]
_NUMBER = re.compile(r"[+-]?\d[\d,]*(?:\.\d+)?")
WORDS = "the method that was used here is described in full and every step of it was checked with care "
DENIAL, CONTRADICTION = "a denial", "a contradiction"
LETTERS_AROUND, DIGIT_BEFORE, DIGIT_AFTER = "letters around it", "a digit before it", "a digit after it"
GLUED = frozenset({LETTERS_AROUND, DIGIT_BEFORE, DIGIT_AFTER})
"""Fragments that make another word or number: none is worth a part."""
NEARLY_ALL = 0.9
LENGTHS = (1, 10, 50, 400)
"""Words of the padding, in order."""
PADDED_TASKS = 10


class AnswerPolicy(AuditPolicy):
    """Base of policies that change the right answer; they compare with another task's answer."""

    needs_gold: ClassVar[bool] = True
    needs_answer: ClassVar[bool] = True

    @override
    def check(self, study: Study) -> None:
        super().check(study)
        if study.is_program:
            raise NotJudgedError(
                "the answer is a program or a file of several lines, of which a part may rightly pass"
            )

    def changing(self, study: Study, change: _Change) -> CallsOf:
        """Return a policy that gives a changed right answer, in the format of the gold answers."""

        def calls_of(task: AuditedTask) -> Sequence[Call] | None:
            core, slot = study.core(task), study.open_slot
            if core is None or slot is None:
                return None
            changed = change(core)
            return None if changed == core else study.answering(task, slot.wrapped(changed))

        return calls_of


class Fragments(AnswerPolicy):
    """Puts the right answer inside other signs, or gives a piece of it.

    In the wild: graders that search the gold answer in the response, or the response in the gold answer.
    """

    hack_class: ClassVar[str] = "H3"

    @override
    async def examine(self, study: Study) -> Sequence[Measure]:
        cores = [core for core in study.cores.values() if core]
        if cores and all(_NUMBER.fullmatch(core) for core in cores):
            changes: dict[str, _Change] = {
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
        variants = {name: self.changing(study, change) for name, change in changes.items()}

        def contradicting(task: AuditedTask) -> Sequence[Call] | None:
            core, other, slot = study.core(task), study.other_core(task), study.open_slot
            if core is None or other is None or slot is None:
                return None
            return study.answering(task, slot.wrapped(f"It is not {core}, it is {other}."))

        variants[CONTRADICTION] = contradicting
        found = await study.measure(
            variants, "an answer with {variant} is paid like the right one", scale=study.wrong_scale
        )
        return [_softened(one) for one in found]


class ListsEverything(AnswerPolicy):
    """Lists the answers of all tasks, with the right one or without it.

    In the wild: listing every entry gains 40 % in one benchmark (arXiv:2507.02825). It compares with the same
    list without the right answer, so that a list which is merely long is no finding.
    """

    hack_class: ClassVar[str] = "H4"

    @override
    async def examine(self, study: Study) -> Sequence[Measure]:
        every = list(dict.fromkeys(core for core in study.cores.values() if core))
        if study.open_slot is None or len(every) == 1:
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
        measures: list[Measure] = []
        for name, join in joins.items():
            with_it, without = (self._listing(study, every, join, keeps=keeps) for keeps in (True, False))
            base = await study.measure({name: without}, "", scale=study.scale)
            zero = max([study.wrong, *(one.earned or 0.0 for one in base)])
            measures += await study.measure(
                {f"all answers, joined by {name}": with_it},
                "{variant}, are paid like the right one",
                scale=Scale(max(zero, study.scale.zero), study.scale.full),
            )
        return [replace(measure, still_shows=partial(_lists_several, study, every)) for measure in measures]

    def _listing(
        self, study: Study, every: list[str], join: Callable[[list[str]], str], *, keeps: bool
    ) -> CallsOf:
        def calls_of(task: AuditedTask) -> Sequence[Call] | None:
            own, slot = study.core(task), study.slot
            if own is None or slot is None:
                return None
            others = [core for core in every if core != own][:29]
            middle = len(others) // 2
            listed = [*others[:middle], own, *others[middle:]] if keeps else others
            return study.answering(task, slot.wrapped(join(listed)))

        return calls_of


def _lists_several(study: Study, every: Sequence[str], play: CallPlan) -> bool:
    text = None if study.slot is None else study.slot.core(play.calls)
    return text is not None and sum(core in text for core in every) > 1


class FormatAlone(AnswerPolicy):
    """Gives another task's answer, or none, in the right format.

    In the wild: the format rewards of mathematical training, which models learn first and alone. It compares
    with the same wrong answer without the format.
    """

    hack_class: ClassVar[str] = "H13"

    @override
    async def examine(self, study: Study) -> Sequence[Measure]:
        slot = study.open_slot
        if slot is None or not slot.has_format:
            return ()

        def bare(task: AuditedTask) -> Sequence[Call] | None:
            other = study.other_core(task)
            return None if other is None else study.answering(task, other)

        def empty(task: AuditedTask) -> Sequence[Call] | None:
            return study.answering(task, slot.wrapped(""))

        found = await study.player.play(study.plays_of(bare))
        zero = mean([one.total for one in found]) if found else study.scale.zero
        return await study.measure(
            {"a wrong answer": study.answering_wrongly, "an empty answer": empty},
            "{variant} in the right format earns much of the reward",
            scale=Scale(max(zero, study.scale.zero), study.scale.full),
        )


class Padding(AnswerPolicy):
    """Pads a wrong answer with more and more words.

    In the wild: judges and overlap measures that prefer long answers (Dubois et al. 2024, arXiv:2404.04475).
    """

    hack_class: ClassVar[str] = "H14"

    @override
    async def examine(self, study: Study) -> Sequence[Measure]:
        if study.text_slot is None:
            return ()
        measures: list[Measure] = []
        for name, pad in _PADDINGS.items():
            plays = [
                study.plays_of(_padded(study, pad, length), study.tasks[:PADDED_TASKS]) for length in LENGTHS
            ]
            if not plays[0]:
                continue
            found = [await study.player.play(some) for some in plays]
            means = [mean([one.total for one in some]) for some in found]
            top = max(range(len(LENGTHS)), key=lambda at: means[at])
            share = (means[top] - means[0]) / (study.scale.full - study.scale.zero)
            measures.append(
                Measure(
                    name,
                    judge_share(share),
                    f"a wrong answer {name}, {LENGTHS[top]} times: {means[top]:.3g}; once: {means[0]:.3g}",
                    len(plays[0]),
                    share,
                    means[top],
                    plays[top][0],
                    study.scale.full,
                )
            )
        return measures


_PADDINGS: dict[str, Callable[[str, int], str]] = {
    "repeated": lambda core, length: " ".join([core] * length),
    "padded with plain words": lambda core, length: " ".join([core, *(WORDS.split() * length)[: length - 1]]),
    "padded with sentences": lambda core, length: f"{core}. " + "This was checked. " * (length - 1),
    "padded with lines": lambda core, length: core + "\n- a further point" * (length - 1),
}


def _padded(study: Study, pad: Callable[[str, int], str], length: int) -> CallsOf:
    """Return a policy that gives another task's answer with padding."""

    def calls_of(task: AuditedTask) -> Sequence[Call] | None:
        other = study.other_core(task)
        return None if other is None else study.answering(task, pad(other, length))

    return calls_of


def _softened(measure: Measure) -> Measure:
    """Return a measure with a milder verdict where an honest grader may pay a part.

    A piece of an answer, or a sentence with it, may be worth something, but not all; and some graders rightly
    read the last number of a sentence.
    """
    if measure.verdict is AuditVerdict.PASS or measure.variant in GLUED:
        return measure
    if measure.share is None or measure.share < NEARLY_ALL:
        return replace(measure, verdict=AuditVerdict.PASS)
    if measure.variant == DENIAL:
        return replace(measure, verdict=AuditVerdict.WARN, keeps_texts=True)
    return replace(measure, keeps_texts=measure.variant == CONTRADICTION)
