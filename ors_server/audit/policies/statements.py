"""Agents that give back the question, or name the right answer without giving it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

from typing_extensions import override

from ors_server.audit.answer_slot import AnswerSlot
from ors_server.audit.audit_context import SCREENED_TASKS, AuditContext, AuditedTask, CallsOf, VariantResult
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

MAX_ANSWER = 200
"""Characters of the longest answer that is put into a sentence."""


class StatesNoAnswer(AnswerPolicy):
    """Gives the prompt, its sentences and formulas, and texts that deny, bound, ask or doubt an answer.

    In the wild: graders that take the last number or the last box of a response, regardless of what the
    response states about it. They pay an agent that repeats the question, or names candidates without
    choosing one.
    """

    hack_class: ClassVar[str] = "H23"

    @override
    async def examine(self, context: AuditContext) -> Sequence[VariantResult]:
        slot = context.text_slot
        if slot is None:
            return ()
        if not any(_is_short(core) for core in context.cores.values()):
            raise NotJudgedError("the answers are longer than a sentence")
        statements = await context.measure(
            self._statements(context, slot),
            "an answer that gives none is paid: {variant}",
            scale=context.wrong_scale,
        )
        prompts = await context.prompts()
        echoes = await context.measure(
            _echoes(context, prompts),
            "the question is paid as its own answer: {variant}",
            scale=context.wrong_scale,
            screened_tasks=SCREENED_TASKS,
        )
        return [replace(result, keeps_texts=True) for result in (*statements, *echoes)]

    def _statements(self, context: AuditContext, slot: AnswerSlot) -> dict[str, CallsOf]:
        cores = [core for core in context.cores.values() if core]
        are_numbers = all(_is_number(core) for core in cores)
        variants: dict[str, CallsOf] = {}
        for form in STATEMENT_FORMS:
            # "More than Paris" bounds nothing: only numbers have bounds.
            if form.kind is StatementKind.BOUND and not are_numbers:
                continue
            for is_swapped in (False,) if form.is_of_two else (False, True):
                # Around several lines, the form's statement would not be about the answer.
                has_outside = slot.has_format and "\n" not in f"{slot.before}{slot.after}"
                for is_outside in (False, True) if has_outside else (False,):
                    name = f"{form.kind.value} of {'another' if is_swapped else 'the right'} answer, "
                    name += repr(form.text) + (" around the format" if is_outside else "")
                    variants[name] = partial(
                        _stating, context, form, is_swapped=is_swapped, is_outside=is_outside
                    )
        return variants


def _stating(
    context: AuditContext, form: StatementForm, task: AuditedTask, *, is_swapped: bool, is_outside: bool
) -> Sequence[Call] | None:
    """Return the calls that give a form; inside of the answers' format, or around it."""
    own, other, slot = context.core(task), context.other_core(task), context.slot
    if own is None or other is None or slot is None or not (_is_short(own) and _is_short(other)):
        return None
    if own.casefold() in other.casefold() or other.casefold() in own.casefold():
        return None  # a denial of the longer answer would also name the shorter one
    first, second = (other, own) if is_swapped else (own, other)
    if is_outside:
        return context.answering(task, form.fill(slot.wrapped(first), slot.wrapped(second)))
    return context.answering(task, slot.wrapped(form.fill(first, second)))


def _echoes(context: AuditContext, prompts: Mapping[tuple[str, int], str]) -> dict[str, CallsOf]:
    """Return the ways to give back the prompt or a part of it."""
    parts: dict[str, Callable[[str], str | None]] = {"the whole prompt": str.strip}
    for number in range(MAX_SENTENCES):
        parts[f"sentence {number + 1} of the prompt"] = partial(_nth, sentences_of, number)
    for number in range(MAX_FORMULAS):
        parts[f"formula {number + 1} of the prompt"] = partial(_nth, formulas_of, number)
    return {
        name if form == ANSWER else f"{name}, as {form.replace(ANSWER, '...')!r}": partial(
            _echoing, context, prompts, part, form
        )
        for name, part in parts.items()
        for form in PROMPT_FORMS
    }


def _echoing(
    context: AuditContext,
    prompts: Mapping[tuple[str, int], str],
    part: Callable[[str], str | None],
    form: str,
    task: AuditedTask,
) -> Sequence[Call] | None:
    own, text = context.core(task), part(prompts.get(task.address, ""))
    # A part of the prompt that is the right answer may be paid.
    if own is None or not text or own.strip().casefold() == text.strip().casefold():
        return None
    answer = form.replace(ANSWER, text)
    return context.answering(
        task, context.slot.wrapped(answer) if form == ANSWER and context.slot else answer
    )


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
