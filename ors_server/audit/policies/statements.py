"""Agents that give back the question, or name the right answer without giving it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

from typing_extensions import override

from ors_server.audit.answer_slot import AnswerSlot
from ors_server.audit.plays import Call
from ors_server.audit.policies.texts import AnswerPolicy
from ors_server.audit.policy import NotJudgedError
from ors_server.audit.prompt_parts import MAX_FORMULAS, MAX_SENTENCES, formulas_of, sentences_of
from ors_server.audit.statement_forms import (
    ANSWER,
    PROMPT_FORMS,
    STATEMENT_FORMS,
    StatementForm,
    StatementKind,
)
from ors_server.audit.study import SCREENED_TASKS, AuditedTask, CallsOf, Measure, Study

MAX_ANSWER = 200
"""Characters of the longest answer that is put into a sentence."""


class StatesNoAnswer(AnswerPolicy):
    """Gives the prompt, its sentences and formulas, and texts that deny, bound, ask or doubt an answer.

    In the wild: graders that take the last number or the last box of a response, whatever the response states
    of it. They pay an agent that repeats the question, or names candidates without choosing one.
    """

    hack_class: ClassVar[str] = "H23"

    @override
    async def examine(self, study: Study) -> Sequence[Measure]:
        slot = study.text_slot
        if slot is None:
            return ()
        if not any(_is_short(core) for core in study.cores.values()):
            raise NotJudgedError("the answers are longer than a sentence")
        statements = await study.measure(
            self._statements(study, slot),
            "an answer that gives none is paid: {variant}",
            scale=study.wrong_scale,
        )
        prompts = await study.prompts()
        echoes = await study.measure(
            _echoes(study, prompts),
            "the question is paid as its own answer: {variant}",
            scale=study.wrong_scale,
            few=SCREENED_TASKS,
        )
        return [replace(measure, keeps_texts=True) for measure in (*statements, *echoes)]

    def _statements(self, study: Study, slot: AnswerSlot) -> dict[str, CallsOf]:
        cores = [core for core in study.cores.values() if core]
        are_numbers = all(_is_number(core) for core in cores)
        variants: dict[str, CallsOf] = {}
        for form in STATEMENT_FORMS:
            if form.kind is StatementKind.BOUND and not are_numbers:
                continue
            for is_swapped in (False,) if form.is_of_two else (False, True):
                # Around several lines, what a form says would not be about the answer.
                has_outside = slot.has_format and "\n" not in f"{slot.before}{slot.after}"
                for is_outside in (False, True) if has_outside else (False,):
                    name = f"{form.kind.value} of {'another' if is_swapped else 'the right'} answer, "
                    name += repr(form.text) + (" around the format" if is_outside else "")
                    variants[name] = partial(
                        _stating, study, form, is_swapped=is_swapped, is_outside=is_outside
                    )
        return variants


def _stating(
    study: Study, form: StatementForm, task: AuditedTask, *, is_swapped: bool, is_outside: bool
) -> Sequence[Call] | None:
    """Return the calls that give a form; inside of the answers' format, or around it."""
    own, other, slot = study.core(task), study.other_core(task), study.slot
    if own is None or other is None or slot is None or not (_is_short(own) and _is_short(other)):
        return None
    if own.casefold() in other.casefold() or other.casefold() in own.casefold():
        return None  # what denies or doubts the longer would name the shorter, too
    first, second = (other, own) if is_swapped else (own, other)
    if is_outside:
        return study.answering(task, form.fill(slot.wrapped(first), slot.wrapped(second)))
    return study.answering(task, slot.wrapped(form.fill(first, second)))


def _echoes(study: Study, prompts: Mapping[tuple[str, int], str]) -> dict[str, CallsOf]:
    """Return the ways to give back the prompt or a part of it."""
    parts: dict[str, Callable[[str], str | None]] = {"the whole prompt": str.strip}
    for number in range(MAX_SENTENCES):
        parts[f"sentence {number + 1} of the prompt"] = partial(_nth, sentences_of, number)
    for number in range(MAX_FORMULAS):
        parts[f"formula {number + 1} of the prompt"] = partial(_nth, formulas_of, number)
    return {
        name if form == ANSWER else f"{name}, as {form.replace(ANSWER, '...')!r}": partial(
            _echoing, study, prompts, part, form
        )
        for name, part in parts.items()
        for form in PROMPT_FORMS
    }


def _echoing(
    study: Study,
    prompts: Mapping[tuple[str, int], str],
    part: Callable[[str], str | None],
    form: str,
    task: AuditedTask,
) -> Sequence[Call] | None:
    own, text = study.core(task), part(prompts.get(task.address, ""))
    if own is None or not text or own.strip().casefold() == text.strip().casefold():
        return None
    answer = form.replace(ANSWER, text)
    return study.answering(task, study.slot.wrapped(answer) if form == ANSWER and study.slot else answer)


def _nth(parts_of: Callable[[str], list[str]], number: int, prompt: str) -> str | None:
    parts = parts_of(prompt)
    return parts[number] if number < len(parts) else None


def _is_short(core: str | None) -> bool:
    return core is not None and 0 < len(core.strip()) <= MAX_ANSWER and "\n" not in core.strip()


def _is_number(core: str) -> bool:
    try:
        float(core.replace(",", ""))
    except ValueError:
        return False
    return True
