"""The same calls again: do they earn the same, and does one session change another?"""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from typing_extensions import override

from ors_server.audit.audit_context import AuditContext, AuditedTask, AuditPlayer, VariantResult
from ors_server.audit.audited_server import open_audited
from ors_server.audit.closed_network import CLOSED_NETWORK_VARIABLE
from ors_server.audit.judgement import AuditVerdict, is_same
from ors_server.audit.plays import CallPlan, PlayResult
from ors_server.audit.policy import SEED, AuditPolicy, NotJudgedError
from ors_server.audit.side_by_side import run_both

HASH_SEED = 1
"""`PYTHONHASHSEED` of the second process."""
MAX_TASKS = 12
MAX_TASKS_IN_SANDBOX = 3
SEQUENTIAL_RUNS = 2
CONCURRENT_RUNS = 2
"""Runs of all tasks at once in their order; one more plays them in reverse order."""
STEADY_RUNS = 10
"""Plays in a row that must earn the same before another session is to blame for a difference."""


class DependsOnLuck(AuditPolicy):
    """Plays the gold actions again with the same seed; also in another process without a network.

    In the wild: graders that sample, that iterate over sets, or that look at the clock.
    """

    hack_class: ClassVar[str] = "H17"
    needs_scale: ClassVar[bool] = False

    @override
    async def examine(self, context: AuditContext) -> Sequence[VariantResult]:
        if not context.server.has_seeds:
            why = "this server's sessions have no seed, so that any game of chance may differ"
            raise NotJudgedError(why, missing=SEED)
        plays = [_answer(context, task) for task in _some(context)]
        repeats, away = await run_both(
            partial(self._play_here, context, plays), partial(self._play_away, context, plays)
        )
        # Two runs in turn, two concurrent ones, and one concurrent run in reverse order: the order of the
        # sessions must not matter either.
        difference = _difference(plays, repeats, "played again with the same seed")
        if difference is None and away:
            difference = _difference(plays, [repeats[0], away], "played in a process without a network")
            if difference is not None:
                # The other process differs in two ways. A second run with the network open tells which one is
                # to blame.
                hashed = await self._play_away(context, plays, has_network=True)
                why = "played in a process with another PYTHONHASHSEED"
                difference = _difference(plays, [repeats[0], hashed], why) or difference
        return [difference or VariantResult("the same calls again", AuditVerdict.PASS, "", len(plays))]

    async def _play_here(self, context: AuditContext, plays: Sequence[CallPlan]) -> list[list[PlayResult]]:
        """Play in turn and at once, forwards and backwards."""
        repeats = [await context.player.play_in_turn(plays) for _ in range(SEQUENTIAL_RUNS)]
        repeats += [await context.player.play(plays, again=True) for _ in range(CONCURRENT_RUNS)]
        repeats.append((await context.player.play(plays[::-1], again=True))[::-1])
        return repeats

    async def _play_away(
        self, context: AuditContext, plays: Sequence[CallPlan], *, has_network: bool = False
    ) -> list[PlayResult]:
        """Play in another process; nothing for a server elsewhere."""
        if context.server.process is None:
            return []
        variables = {} if has_network else {CLOSED_NETWORK_VARIABLE: "1"}
        server = context.server
        async with open_audited(
            server.reference, server.name, hash_seed=HASH_SEED, variables=variables
        ) as other:
            return await AuditPlayer(other, context.player.deadline).play(plays)


class RemembersOthers(AuditPolicy):
    """Plays wrong answers before and after the gold actions, and two sessions in turn.

    In the wild: caches, counters and lists of solved tasks that belong to the class.
    """

    hack_class: ClassVar[str] = "H22"
    has_own_process: ClassVar[bool] = True
    needs_gold: ClassVar[bool] = True
    needs_scale: ClassVar[bool] = False

    @override
    async def examine(self, context: AuditContext) -> Sequence[VariantResult]:
        if context.server.process is None:
            return await self._compare(context, context.player)
        async with open_audited(context.server.reference, context.server.name) as fresh:
            return await self._compare(context, AuditPlayer(fresh, context.player.deadline))

    async def _compare(self, context: AuditContext, player: AuditPlayer) -> list[VariantResult]:
        tasks = _some(context)
        wrong = [
            # Without a wrong answer to give, the task is left unfinished.
            task.play(
                calls if (calls := context.answering_wrongly(task)) is not None else (task.gold or ())[:-1],
                seed=context.seed,
            )
            for task in tasks
        ]
        gold = [task.play(task.gold or (), seed=context.seed) for task in tasks]
        idle = [task.play((), seed=context.seed) for task in tasks]
        before = await player.play_in_turn([*wrong, *idle])
        first = await player.play_in_turn(gold)
        after = await player.play_in_turn([*wrong, *idle])
        again = await player.play_in_turn(gold)
        mixed = await player.play([*gold, *wrong], again=True)
        for plays, repeats, how in (
            ([*wrong, *idle], [before, after], "after other sessions were played"),
            (gold, [first, again], "after other sessions were played"),
            ([*gold, *wrong], [[*first, *before[: len(wrong)]], mixed], "while other sessions are played"),
        ):
            difference = _difference(plays, repeats, how)
            if difference is not None:
                # A reward that differs by itself depends on luck (H17), which is not another session's doing.
                steady = (
                    await player.play_in_turn([difference.play] * STEADY_RUNS)
                    if difference.play is not None
                    else []
                )
                if len({repeat.total for repeat in steady}) <= 1:
                    return [difference]
                raise NotJudgedError("the same calls earn different rewards by themselves (see H17)")
        return [VariantResult("other sessions", AuditVerdict.PASS, "", len(tasks))]


def _some(context: AuditContext) -> Sequence[AuditedTask]:
    return context.tasks[: MAX_TASKS_IN_SANDBOX if context.is_costly else MAX_TASKS]


def _answer(context: AuditContext, task: AuditedTask) -> CallPlan:
    if task.gold is not None:
        return task.play(task.gold, seed=context.seed)
    return task.play(context.saying("1")(task) or (), seed=context.seed)


def _difference(
    plays: Sequence[CallPlan], repeats: Sequence[Sequence[PlayResult]], how: str
) -> VariantResult | None:
    """Return the first play that earned different rewards in two repeats."""
    for number, play in enumerate(plays):
        totals = [played[number].total for played in repeats if played[number].is_answered]
        for total in totals[1:]:
            if not is_same(total, totals[0]):
                message = f"the same calls earn {totals[0]:.3g}, and {total:.3g} {how}"
                return VariantResult(
                    how, AuditVerdict.FAIL, message, len(plays), None, total, play, totals[0]
                )
    return None
