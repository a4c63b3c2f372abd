"""Agents that give every task the same answer."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import ClassVar

from typing_extensions import override

from ors_server.audit.answer_slot import AnswerSlot
from ors_server.audit.audit_context import MANY_ANSWERS_TASKS, AuditContext, CallsOf, VariantResult
from ors_server.audit.judgement import MIN_TASKS, AuditVerdict
from ors_server.audit.policy import AuditPolicy, NotJudgedError

PLAIN = (
    *("0", "1", "-1", "2", "10", "42", "100", "A", "B", "C", "D", "E", "a", "yes", "no", "Yes", "No"),
    *("true", "false", "True", "None", "null", "{}", "[]", "nan", "inf", "1e999", "()", "\\boxed{}"),
    *("I don't know", "unknown", "none of the above", "?", "N/A", "ok", "test", "TODO", "answer"),
)
"""Answers that graders of published tasks were seen to accept, or that are frequent in their data."""
MAX_GOLDS = 8
"""Answers of the tasks that are tried on all of them."""
MAX_LITERALS = 150
MAX_COMPARED_PROMPTS = 5
"""Prompts that are compared."""
MAX_FREQUENT_SHARE = 0.4
"""Share below which a constant answer may simply be the right one for many tasks."""


class ConstantAnswers(AuditPolicy):
    """Gives one answer to all tasks: plain ones, the most frequent gold answers, and every choice.

    In the wild: data with unbalanced answers, and graders that take an empty or unreadable answer for right
    (arXiv:2507.02825, task validity).
    """

    hack_class: ClassVar[str] = "H2"
    needs_answer: ClassVar[bool] = True

    @override
    async def examine(self, context: AuditContext) -> Sequence[VariantResult]:
        slot = context.slot
        assert slot is not None  # noqa: S101  (`needs_answer`)
        texts = dict.fromkeys([str(choice) for choice in slot.choices] or ["", *PLAIN])
        cores = Counter(core for core in context.cores.values() if core is not None)
        # With few tasks, a frequent gold answer may be right for all of them by accident.
        has_frequent = cores.total() >= MIN_TASKS
        if has_frequent and len(set(context.cores.values())) == 1:
            # Where all tasks ask the same, their one answer is right and no constant.
            plays = [
                replace(task.play(seed=context.seed), reads=True)
                for task in context.tasks[:MAX_COMPARED_PROMPTS]
            ]
            has_frequent = len({played.texts[:1] for played in await context.player.play(plays)}) != 1
        if has_frequent:
            texts |= dict.fromkeys(core for core, _ in cores.most_common(MAX_GOLDS))
        variants = _saying_each(context, slot, texts)
        results = await context.measure(variants, "{variant} for every task earns more than chance")
        # A constant may simply be the right answer of many tasks.
        return [
            replace(result, verdict=AuditVerdict.PASS)
            if result.verdict is AuditVerdict.WARN
            and result.share is not None
            and result.share < MAX_FREQUENT_SHARE
            else result
            for result in results
        ]


class SourceWords(AuditPolicy):
    """Tries the texts and numbers in the environment's source as answers.

    In the wild: answers of tests and debugging that stay in a grader (EvilGenie, arXiv:2511.21654, looks for
    special cases).
    """

    hack_class: ClassVar[str] = "H21"
    needs_answer: ClassVar[bool] = True

    @override
    async def examine(self, context: AuditContext) -> Sequence[VariantResult]:
        slot = context.slot
        assert slot is not None  # noqa: S101  (`needs_answer`)
        if context.server.process is None:
            raise NotJudgedError("the source is not here")
        golds = set(context.cores.values())
        # A gold answer in the source is the right answer of its task, not a back door.
        texts = [text for text in context.facts.literals if text not in golds][:MAX_LITERALS]
        variants = _saying_each(context, slot, texts)
        message = "{variant}, which stands in the source, earns more than chance"
        return await context.measure(
            variants, message, scale=context.wrong_scale, screened_tasks=MANY_ANSWERS_TASKS
        )


def _saying_each(context: AuditContext, slot: AnswerSlot, texts: Iterable[str]) -> dict[str, CallsOf]:
    """Return a variant for each text as the answer, plain and in the format of the gold answers."""
    answers = list(texts)
    if slot.has_format:
        answers += map(slot.wrapped, texts)
    return {f"the answer {text!r}": context.saying(text) for text in answers}
