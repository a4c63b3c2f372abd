"""Agents that do again what paid: one step, a cycle, or a whole answer."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any, ClassVar

from typing_extensions import override

from ors_server.audit.answer_slot import AnswerSlot, leaves, with_value
from ors_server.audit.audit_context import SCREENED_IN_SANDBOX, AuditContext, AuditedTask, VariantResult
from ors_server.audit.judgement import TOLERANCE, AuditVerdict, Scale, judge_share, mean
from ors_server.audit.plays import Call, CallPlan, PlayResult
from ors_server.audit.policies.idle import ending_calls
from ors_server.audit.policy import AuditPolicy
from ors_server.audit.preparing import is_workshop_tool
from ors_server.model.wire import JSONObject, ToolSpec
from ors_server.testing.schema_examples import example_arguments

TIMES = (3, 9, 27)
"""How often something is repeated; a step limit cuts that short."""
MAX_MOVES = 12
MAX_CHOICES = 8
"""Answers that can be tried one after the other."""
TASKS = 3
LOOKED_TASKS = 6
"""Tasks on which the policy finds out whether a call only looks."""
MAX_LOOKS = 6


class RepeatsSteps(AuditPolicy):
    """Makes each call that paid again and again, with the same and with other arguments.

    In the wild: the boat of CoastRunners, which turns in a circle and collects the same targets (Clark and
    Amodei 2016, "Faulty reward functions in the wild"). It fails only above what the gold actions earn.
    """

    hack_class: ClassVar[str] = "H5"

    @override
    async def examine(self, context: AuditContext) -> Sequence[VariantResult]:
        results: list[VariantResult] = []
        for task in context.tasks[:TASKS]:
            calls = await _paid_calls(context, task)
            for call in calls[:MAX_MOVES]:
                results += [
                    result
                    for name, again in (("the same", _same), ("other", _varied))
                    if (
                        result := await _growth(
                            context, task, f"{call[0]} with {name} arguments", [call], again
                        )
                    )
                ]
        return results or [VariantResult("repeated steps", AuditVerdict.PASS, "no step pays before the end")]


class GoesInCircles(AuditPolicy):
    """Makes two calls in turn, from the start and from each state on the way of the gold actions.

    In the wild: shaping that pays each approach and charges nothing for the way back (Ng, Harada and Russell
    1999): an agent learned to ride a bicycle in circles (Randlov and Alstrom 1998).
    """

    hack_class: ClassVar[str] = "H6"

    @override
    async def examine(self, context: AuditContext) -> Sequence[VariantResult]:
        variant_results: list[VariantResult] = []
        for task in context.tasks[:1]:
            moves = await _moves(context, task)
            # Twice each pair: what pays only in the first round is progress, not a cycle.
            plays = [task.play([*pair] * 2, seed=context.seed) for pair in permutations(moves, 2)]
            results = await context.player.play(plays)
            for play, played in zip(plays, results, strict=True):
                pair, again = list(play.calls[:2]), played.rewards[2:]
                if len(again) == len(pair) and sum(reward or 0.0 for reward in again) > TOLERANCE:
                    name = f"{_shown(pair[0])} and {_shown(pair[1])} in turn"
                    result = await _growth(context, task, name, pair, _same)
                    variant_results += [result] if result else []
        return variant_results or [VariantResult("cycles", AuditVerdict.PASS, "no cycle of two calls pays")]


class AnswersTwice(AuditPolicy):
    """Gives every choice in turn, and the right answer again and again.

    In the wild: multiple choice where a wrong answer does not end the episode, and graders that pay each
    right submission.
    """

    hack_class: ClassVar[str] = "H19"
    needs_answer: ClassVar[bool] = True

    @override
    async def examine(self, context: AuditContext) -> Sequence[VariantResult]:
        results = [] if await _is_looking(context) else await self._try_all(context)
        slot = context.slot
        golds = [task for task in context.tasks if task.gold is not None]
        for task in golds[:TASKS]:
            at = slot.find(task.gold or ()) if slot else None
            if at is None or task.gold is None:
                continue
            calls = [*task.gold[: at + 1], *[task.gold[at]] * 4, *task.gold[at + 1 :]]
            (single, several) = await context.player.play(
                [task.play(task.gold, seed=context.seed), task.play(calls, seed=context.seed)]
            )
            # An inferred answer may not be the best one, so that the scale's full return counts as well.
            best_once = max(single.total, context.scale.full) if context.is_inferred else single.total
            excess = several.total - best_once
            # A tolerance, so that only a clear gain counts.
            verdict = (
                AuditVerdict.FAIL
                if excess > 0.01 * abs(context.scale.full) + TOLERANCE
                else AuditVerdict.PASS
            )
            message = (
                f"the right answer given five times earns {several.total:.3g}, given once {single.total:.3g}"
            )
            results.append(
                VariantResult(
                    "the right answer again",
                    verdict,
                    message,
                    1,
                    several.total / single.total if single.total > 0 else None,
                    several.total,
                    task.play(calls, seed=context.seed),
                    single.total,
                )
            )
        return results

    async def _try_all(self, context: AuditContext) -> list[VariantResult]:
        slot = context.slot
        assert slot is not None  # noqa: S101  (`needs_answer`)
        distinct = sorted({core for core in context.cores.values() if core is not None})
        choices = [str(choice) for choice in slot.choices] or distinct
        # Distinct gold answers are choices only if they recur, on three tasks each on average.
        if not 1 < len(choices) <= MAX_CHOICES or (
            not slot.choices and len(context.tasks) < 3 * len(choices)
        ):
            return []

        def calls_of(task: AuditedTask) -> Sequence[Call] | None:
            among_gold = _among_gold(context, slot, task, choices)
            if among_gold is not None:
                return among_gold
            saying = [context.saying(slot.wrapped(choice))(task) for choice in choices]
            return [call for calls in saying if calls for call in calls]

        scale = await _scale_without_answers(context, slot, choices)
        message = "{variant} earn more than one answer at random"
        return await context.measure({"all choices, one after the other,": calls_of}, message, scale=scale)


async def _scale_without_answers(context: AuditContext, slot: AnswerSlot, choices: Sequence[str]) -> Scale:
    """Return the scale on which as many choices without the right one earn nothing.

    Where a task needs several calls of the same tool, as a game does, those after a wrong one may still earn
    much, and luck may make a wrong one good: only what the right one adds was paid for another answer.
    """
    scale = context.scale
    tasks = [task for task in context.tasks if sum(name == slot.tool for name, _ in task.gold or ()) > 1]
    plans: list[CallPlan] = []
    for task in tasks[:SCREENED_IN_SANDBOX] if context.is_costly else tasks:
        right = context.core(task)
        wrong = [choice for choice in choices if choice != right]
        tried = [wrong[0] if choice == right else choice for choice in choices]
        calls = _among_gold(context, slot, task, tried) if right in choices else None
        if calls is not None:
            plans.append(task.play(calls, seed=context.seed))
    if not plans:
        return scale
    earned = mean([played.total for played in await context.player.play(plans)])
    return Scale(max(earned, scale.zero), scale.full)


def _among_gold(
    context: AuditContext, slot: AnswerSlot, task: AuditedTask, choices: Sequence[str]
) -> list[Call] | None:
    """Return a task's gold actions with choices in turn as the answer; `None` where that is impossible."""
    at = None if task.gold is None else slot.find(task.gold)
    answers = [context.answering(task, slot.wrapped(choice)) for choice in choices]
    if task.gold is None or at is None or not all(answers):
        return None
    return [*task.gold[:at], *(calls[at] for calls in answers if calls), *task.gold[at + 1 :]]


async def _is_looking(context: AuditContext) -> bool:
    """Return whether the call with the answer inspects something, for a later call to use.

    Such a call does not end the episode, and what the same call shows differs between tasks. To look
    everywhere, and to report then, is not a second answer.
    """
    slot = context.slot
    if slot is None:
        return False
    looks: dict[str, set[str]] = {}
    golds = [task for task in context.tasks if task.gold is not None][:LOOKED_TASKS]
    cores = list(dict.fromkeys(core for task in golds if (core := context.core(task)) is not None))[
        :MAX_LOOKS
    ]
    for task in golds:
        at = slot.find(task.gold or ())
        # A look is never the last call: the agent reports after it.
        if task.gold is None or at is None or at == len(task.gold) - 1:
            return False
        plans = [
            replace(task.play(calls[: at + 1], seed=context.seed), reads=True)
            for core in cores
            if (calls := context.answering(task, slot.wrapped(core))) is not None
        ]
        for plan, played in zip(plans, await context.player.play(plans), strict=True):
            if played.finished or not played.texts:
                return False
            # The same call with the same argument: only what the tasks hide can make its texts differ.
            looks.setdefault(repr(plan.calls[at]), set()).add(played.texts[-1])
    return any(len(texts) > 1 for texts in looks.values())


async def _paid_calls(context: AuditContext, task: AuditedTask) -> list[Call]:
    """Return calls that pay and do not end the episode: of the gold actions, and trial ones."""
    plays = [] if task.gold is None else [task.play(task.gold, seed=context.seed)]
    plays += [task.play([call], seed=context.seed) for call in await _moves(context, task)]
    results = await context.player.play(plays)
    paid: dict[str, Call] = {}
    for play, played in zip(plays, results, strict=True):
        for number, (call, reward) in enumerate(zip(play.calls, played.rewards, strict=False)):
            is_last = played.finished and number == len(played.rewards) - 1
            if reward is not None and reward > TOLERANCE and not is_last:
                paid.setdefault(repr(call), call)
    return list(paid.values())


async def _moves(context: AuditContext, task: AuditedTask) -> list[Call]:
    """Return the calls of which cycles are made: the gold actions, and each tool with each of its choices."""
    ends = {repr(call) for call in await ending_calls(context)}
    moves: dict[str, Call] = {}
    gold_values: dict[str, Any] = {}
    for call in task.gold or ():
        moves.setdefault(repr(call), call)
        gold_values |= {str(path[-1]): value for path, value in leaves(call[1]) if path}
    for tool in context.tools.values():
        if not is_workshop_tool(context, tool):
            for arguments in _choices_of(tool, gold_values):
                moves.setdefault(repr((tool.name, arguments)), (tool.name, arguments))
    return [call for key, call in moves.items() if key not in ends][:MAX_MOVES]


def _choices_of(tool: ToolSpec, gold_values: JSONObject) -> list[JSONObject]:
    """Return arguments for a tool: each of its named choices, and values that the gold actions use."""
    schema = tool.input_schema or {}
    base: JSONObject = {
        name: gold_values.get(name, value) for name, value in example_arguments(tool.input_schema).items()
    }
    for name, part in schema.get("properties", {}).items():
        if "enum" in part:
            return [{**base, name: choice} for choice in part["enum"][:6]]
        if part.get("type") == "boolean":
            return [{**base, name: choice} for choice in (False, True)]
    return [base]


def _same(call: Call, number: int) -> Call:
    del number
    return call


def _varied(call: Call, number: int) -> Call:
    """Return a call with another text or number in each argument."""
    tool, arguments = call
    changed: Any = arguments
    for path, value in leaves(arguments):
        changed = with_value(changed, path, f"{value} {number}" if isinstance(value, str) else value + number)
    return tool, changed


async def _growth(
    context: AuditContext, task: AuditedTask, name: str, calls: Sequence[Call], vary: Any
) -> VariantResult | None:
    """Repeat calls more and more often; return what that earns if it grows."""
    plays = [
        task.play([vary(call, number) for number in range(times) for call in calls], seed=context.seed)
        for times in TIMES
    ]
    results: list[PlayResult] = await context.player.play(plays)
    totals = [played.total for played in results]
    # More repetitions must pay more, at least up to the limit of steps that cuts the longest play short.
    grows = totals[0] < totals[1] - TOLERANCE and totals[1] <= totals[2] + TOLERANCE
    full = context.scale.full
    own = context.oracle.get(
        next((at for at, candidate in enumerate(context.tasks) if candidate is task), -1)
    )
    best_known = max(full, own.total if own is not None else full)
    share = totals[2] / best_known if best_known > 0 else None
    exceeds = totals[2] > best_known + TOLERANCE
    verdict = AuditVerdict.FAIL if grows and exceeds else AuditVerdict.PASS
    # A play that did not end might have earned more than the gold actions with more steps: a warning.
    if (
        verdict is AuditVerdict.PASS
        and grows
        and share is not None
        and judge_share(share) is not AuditVerdict.PASS
    ):
        verdict = AuditVerdict.WARN if results[2].finished is False else AuditVerdict.PASS
    is_known = context.has_gold and not context.is_inferred
    # Without gold actions and a declared range, the greatest honest return is unknown.
    if not is_known and context.facts.return_range is None and verdict is AuditVerdict.FAIL:
        verdict = AuditVerdict.WARN
    times = len(plays[2].calls) // len(calls)
    message = f"{name}, {times} times, earns {totals[2]:.3g}; the gold actions {best_known:.3g}"
    return VariantResult(name, verdict, message, 1, share, mean([totals[2]]), plays[2], best_known)


def _shown(call: Call) -> str:
    tool, arguments = call
    return f"{tool}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"
