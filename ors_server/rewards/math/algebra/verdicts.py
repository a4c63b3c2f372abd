"""Verdicts after a comparison by algebra."""

from dataclasses import replace

from ors_server.rewards.math.algebra.second_opinions import restates, second_opinion
from ors_server.rewards.math.boxes import boxed, find_boxes, unbox
from ors_server.rewards.math.math_options import MathOptions, MathVerdict

_UNEVALUATED = "equal, but left unevaluated"


def reconsider(verdict: MathVerdict, gold: str, response: str, options: MathOptions) -> MathVerdict:
    """Return the verdict, or another one that algebra reached.

    An answer that the fast comparison found equal stays equal, unless it is unevaluated and the task forbids
    that.

    Raises:
        WorkerLostError: The machine failed.
    """
    if verdict.is_equal:
        return verdict if options.takes_unevaluated else _checked(verdict, gold, verdict.forms[1])
    answers = () if options.choices else _answers(verdict, response, options)
    second = second_opinion(gold, answers)
    if second is None or (second.opinion.is_equal is None and not second.is_over):
        return verdict
    forms = (gold, second.answer)
    if second.is_gold_beyond:
        reason = f"the gold exceeds a limit: {second.opinion.why}"
        return MathVerdict(is_equal=False, reason=reason, status="bad_gold", forms=forms, method="algebra")
    if second.is_over:
        return MathVerdict(
            is_equal=False, reason=second.opinion.why, status="limit", forms=forms, method="algebra"
        )
    is_equal = bool(second.opinion.is_equal)
    reason = f"{'equal' if is_equal else 'different'} ({second.opinion.rule}, by algebra)"
    reconsidered = MathVerdict(is_equal=is_equal, reason=reason, status="ok", forms=forms, method="algebra")
    return reconsidered if options.takes_unevaluated else _checked(reconsidered, gold, second.answer)


def _checked(verdict: MathVerdict, gold: str, answer: str) -> MathVerdict:
    if verdict.is_equal and gold != answer and restates(gold, answer):
        return replace(verdict, is_equal=False, reason=_UNEVALUATED)
    return verdict


def _answers(verdict: MathVerdict, response: str, options: MathOptions) -> tuple[str, ...]:
    """Return the possible answers: the box, or a bare response, or the text that was extracted."""
    boxes = find_boxes(response)
    candidates = () if verdict.status == "limit" else (verdict.forms[1],)
    if len(boxes) > 1 and options.boxes == "agree":
        return candidates if verdict.status == "ok" else ()
    if boxes:
        content = boxed(response)
        return () if content is None else (unbox(content),)
    return (response, *candidates)
