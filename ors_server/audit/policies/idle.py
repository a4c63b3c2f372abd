"""Agents that do nothing, or give up."""

from collections.abc import Sequence
from typing import ClassVar

from typing_extensions import override

from ors_server.audit.audit_context import AuditContext, CallsOf, VariantResult
from ors_server.audit.judgement import AuditVerdict, judge_share, mean
from ors_server.audit.plays import Call
from ors_server.audit.policy import AuditPolicy
from ors_server.audit.preparing import is_workshop_tool
from ors_server.testing.schema_examples import example_arguments


class DoesNothing(AuditPolicy):
    """Ends the episode at once: with no call, with each call that ends it, or with an empty answer.

    In the wild: an agent that does nothing passes 38 % of the airline tasks of tau-bench (arXiv:2507.02825).
    """

    hack_class: ClassVar[str] = "H1"

    @override
    async def examine(self, context: AuditContext) -> Sequence[VariantResult]:
        variants = await idle_variants(context)
        if context.slot is not None and not context.slot.choices:
            variants["an empty answer"] = context.saying("")
        message = "{variant} earns what the gold actions earn"
        return await context.measure(variants, message, chance=0.0)


class GivesUp(AuditPolicy):
    """Compares giving up with the gold actions, and with attempts that fail.

    In the wild: agents in games with a cost per step learn to end the game at once. It fails if giving
    up earns at least half as much as success, and more than an attempt that fails.
    """

    hack_class: ClassVar[str] = "H20"
    needs_gold: ClassVar[bool] = True
    needs_scale: ClassVar[bool] = False  # gold actions that earn nothing are what it looks for

    @override
    async def examine(self, context: AuditContext) -> Sequence[VariantResult]:
        variants = await idle_variants(context)
        honest = await _failed_attempt(context)
        results: list[VariantResult] = []
        full = context.scale.full
        for name, calls_of in variants.items():
            plays = [task.play(calls_of(task) or (), seed=context.seed) for task in context.tasks]
            totals = [played.total for played in await context.player.play(plays)]
            earned = mean(totals)
            # Gold actions that earn nothing have no share: 2 counts as more than all, 0 as nothing.
            share = earned / full if full > 0 else (2.0 if earned > full else 0.0)
            verdict = judge_share(share) if earned > honest or full <= 0 else AuditVerdict.PASS
            # Of equal returns, the first task: the report stays the same from run to run.
            best = max(range(len(totals)), key=lambda at: (totals[at], -at))
            results.append(
                VariantResult(
                    name,
                    verdict,
                    f"{name} earns {earned:.3g}, a failed attempt {honest:.3g}, the gold actions {full:.3g}",
                    len(totals),
                    share,
                    earned,
                    plays[best],
                    full,
                )
            )
        return results


async def idle_variants(context: AuditContext) -> dict[str, CallsOf]:
    """Return the ways to do nothing: no call, and each call that ends an episode by itself."""
    variants: dict[str, CallsOf] = {"no call": lambda _: ()}
    for call in await ending_calls(context):
        variants[f"{call[0]} at once"] = _always(call)
    return variants


async def ending_calls(context: AuditContext) -> list[Call]:
    """Return calls of tools without an answer that end the episode, with the simplest arguments."""
    answering = context.slot.tool if context.slot else None
    calls: list[Call] = [
        (tool.name, example_arguments(tool.input_schema))
        for tool in context.tools.values()
        if tool.name != answering and not is_workshop_tool(context, tool)
    ]
    task = context.tasks[0]
    results = await context.player.play([task.play([call], seed=context.seed) for call in calls])
    return [call for call, played in zip(calls, results, strict=True) if played.finished]


async def closing_calls(context: AuditContext) -> list[Call]:
    """Return calls that end the episode without an answer: trial ones, and the last of the gold actions."""
    calls = await ending_calls(context)
    for task in context.tasks:
        # A closing call such as `submit` without arguments may need the steps before it, so that trying it
        # alone ends nothing.
        if task.gold and not task.gold[-1][1] and task.gold[-1] not in calls:
            return [*calls, task.gold[-1]]
    return calls


async def _failed_attempt(context: AuditContext) -> float:
    """Return the mean return of attempts that fail: half of the gold actions, or another task's answer."""
    plays = [
        task.play(task.gold[: len(task.gold) // 2], seed=context.seed)
        for task in context.tasks
        if task.gold is not None and len(task.gold) > 1
    ]
    halves = [played.total for played in await context.player.play(plays)]
    return max(mean(halves) if halves else context.wrong, context.wrong if context.slot else -1e300)


def _always(call: Call) -> CallsOf:
    return lambda _: (call,)
