"""The same calls again: do they earn the same, and does one session change another?"""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from typing_extensions import override

from ors_server.audit.audited_server import open_audited
from ors_server.audit.closed_network import VARIABLE
from ors_server.audit.judgement import AuditVerdict, is_same
from ors_server.audit.plays import CallPlan, PlayResult
from ors_server.audit.policy import SEED, AuditPolicy, NotJudgedError
from ors_server.audit.side_by_side import run_both
from ors_server.audit.study import AuditedTask, AuditPlayer, Measure, Study

HASH_SEED = 1
"""`PYTHONHASHSEED` of the second process."""
TASKS = 12
TASKS_IN_SANDBOX = 3
REPEATS = 4
STEADY = 10
"""Plays in a row that must earn the same before another session is to blame for a difference."""


class DependsOnLuck(AuditPolicy):
    """Plays the gold actions again with the same seed; also in another process without a network.

    In the wild: graders that sample, that iterate over sets, or that look at the clock.
    """

    hack_class: ClassVar[str] = "H17"
    needs_scale: ClassVar[bool] = False

    @override
    async def examine(self, study: Study) -> Sequence[Measure]:
        if not study.server.has_seeds:
            why = "this server's sessions have no seed, so that any game of chance may differ"
            raise NotJudgedError(why, missing=SEED)
        plays = [_answer(study, task) for task in _some(study)]
        repeats, away = await run_both(
            partial(self._play_here, study, plays), partial(self._play_away, study, plays)
        )
        found = _difference(plays, repeats, "played again with the same seed")
        if found is None and away:
            found = _difference(plays, [repeats[0], away], "played in a process without a network")
            if found is not None:
                hashed = await self._play_away(study, plays, has_network=True)
                why = "played in a process with another PYTHONHASHSEED"
                found = _difference(plays, [repeats[0], hashed], why) or found
        return [found or Measure("the same calls again", AuditVerdict.PASS, "", len(plays))]

    async def _play_here(self, study: Study, plays: Sequence[CallPlan]) -> list[list[PlayResult]]:
        """Play in turn and at once, forwards and backwards."""
        repeats = [await study.player.play_in_turn(plays) for _ in range(2)]
        repeats += [await study.player.play(plays, again=True) for _ in range(REPEATS - 2)]
        repeats.append((await study.player.play(plays[::-1], again=True))[::-1])
        return repeats

    async def _play_away(
        self, study: Study, plays: Sequence[CallPlan], *, has_network: bool = False
    ) -> list[PlayResult]:
        """Play in another process; nothing for a server elsewhere."""
        if not study.server.is_own:
            return []
        variables = {} if has_network else {VARIABLE: "1"}
        server = study.server
        async with open_audited(
            server.reference, server.name, hash_seed=HASH_SEED, variables=variables
        ) as other:
            return await AuditPlayer(other, study.player.deadline).play(plays)


class RemembersOthers(AuditPolicy):
    """Plays wrong answers before and after the gold actions, and two sessions in turn.

    In the wild: caches, counters and lists of solved tasks that belong to the class.
    """

    hack_class: ClassVar[str] = "H22"
    has_own_process: ClassVar[bool] = True
    needs_gold: ClassVar[bool] = True
    needs_scale: ClassVar[bool] = False

    @override
    async def examine(self, study: Study) -> Sequence[Measure]:
        if not study.server.is_own:
            return await self._compare(study, study.player)
        async with open_audited(study.server.reference, study.server.name) as fresh:
            return await self._compare(study, AuditPlayer(fresh, study.player.deadline))

    async def _compare(self, study: Study, player: AuditPlayer) -> list[Measure]:
        tasks = _some(study)
        wrong = [_wrong(study, task) for task in tasks]
        gold = [task.play(task.gold or (), seed=study.seed) for task in tasks]
        idle = [task.play((), seed=study.seed) for task in tasks]
        before = await player.play_in_turn([*wrong, *idle])
        first = await player.play_in_turn(gold)
        after = await player.play_in_turn([*wrong, *idle])
        again = await player.play_in_turn(gold)
        mixed = await player.play([*gold, *wrong], again=True)
        for plays, repeats, how in (
            ([*wrong, *idle], [before, after], "after other sessions were played"),
            (gold, [first, again], "after other sessions were played"),
            ([*gold, *wrong], [[*first, *before[: len(wrong)]], mixed], "beside other sessions"),
        ):
            found = _difference(plays, repeats, how)
            if found is not None:
                steady = await player.play_in_turn([found.play] * STEADY) if found.play is not None else []
                if len({one.total for one in steady}) <= 1:
                    return [found]
                raise NotJudgedError("the same calls earn different rewards by themselves (see H17)")
        return [Measure("other sessions", AuditVerdict.PASS, "", len(tasks))]


def _some(study: Study) -> Sequence[AuditedTask]:
    return study.tasks[: TASKS_IN_SANDBOX if study.is_costly else TASKS]


def _answer(study: Study, task: AuditedTask) -> CallPlan:
    if task.gold is not None:
        return task.play(task.gold, seed=study.seed)
    return task.play(study.saying("1")(task) or (), seed=study.seed)


def _wrong(study: Study, task: AuditedTask) -> CallPlan:
    calls = study.answering_wrongly(task)
    return task.play(calls if calls is not None else (task.gold or ())[:-1], seed=study.seed)


def _difference(
    plays: Sequence[CallPlan], repeats: Sequence[Sequence[PlayResult]], how: str
) -> Measure | None:
    """Return the first play that earned different rewards in two repeats."""
    for number, play in enumerate(plays):
        totals = [played[number].total for played in repeats if played[number].is_answered]
        for total in totals[1:]:
            if not is_same(total, totals[0]):
                message = f"the same calls earn {totals[0]:.3g}, and {total:.3g} {how}"
                return Measure(how, AuditVerdict.FAIL, message, len(plays), None, total, play, totals[0])
    return None
