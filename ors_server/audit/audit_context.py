"""The data that all policies share: tasks, gold actions and their returns, and all plays."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import TypeAlias

from ors_server.audit.answer_slot import AnswerSlot
from ors_server.audit.audited_facts import Facts
from ors_server.audit.audited_server import AuditedServer
from ors_server.audit.file_tools import PROGRAM_ENDS, named_files
from ors_server.audit.judgement import (
    HOSTILE_WARN_SHARE,
    WARN_SHARE,
    AuditVerdict,
    Scale,
    chance_of,
    judge_share,
    mean,
)
from ors_server.audit.plays import CONCURRENT_SESSIONS, Call, CallPlan, PlayResult
from ors_server.model.wire import JSONObject, ToolSpec
from ors_server.testing.environment_subject import spread

SCREENED_TASKS = 6
"""Tasks on which a variant is tried first; the others only if it earned something."""
SCREENED_IN_SANDBOX = 2
MANY_ANSWERS_TASKS = 2
"""Tasks on which each of many answers is tried first, where one is right for every task or for none."""
MAX_VARIANTS_IN_SANDBOX = 24
"""Variants of one policy that are tried where each session has a sandbox or a resource: the first ones."""
_MIN_PROMISING_SHARE = 0.1
"""Share of the greatest return on the first tasks from which on a variant is tried on all."""
_BATCH = 256
_BATCH_IN_SANDBOX = 16
"""Plays after which the time is checked and progress is reported."""
BATCH_SECONDS = 120.0
"""Seconds in which some play of a batch must end, or its process is killed; waits for a processor do not
count."""
ALONE_SECONDS = 20.0
"""The same for one play that is played alone."""


@dataclass(frozen=True, slots=True)
class AuditedTask:
    """A task of the audit."""

    split: str
    index: int
    spec: JSONObject
    gold: tuple[Call, ...] | None = None

    @property
    def address(self) -> tuple[str, int]:
        """The split and the index."""
        return self.split, self.index

    def play(self, calls: Sequence[Call] = (), *, seed: int = 0) -> CallPlan:
        """Return a play of calls on the task."""
        return CallPlan(self.split, self.index, tuple(calls), seed)


CallsOf: TypeAlias = Callable[[AuditedTask], Sequence[Call] | None]
"""Gives the calls of a policy on a task; `None` where it does not play."""


@dataclass(frozen=True, slots=True)
class VariantResult:
    """What one variant of a policy earned."""

    variant: str
    verdict: AuditVerdict
    message: str
    tasks: int = 0
    """How many tasks it played."""
    share: float | None = None
    """Of the gold actions' return, or of what a policy compares with."""
    earned: float | None = None
    """Mean return."""
    play: CallPlan | None = None
    """The play that shows the hole best."""
    compared: float | None = None
    """The return of the gold actions, or of what that play is compared with."""
    keeps_texts: bool = False
    """Whether the texts of the calls make the finding, so that only whole calls may be left out."""
    still_shows: Callable[[CallPlan], bool] = lambda _: True
    """Whether shorter calls still show what the finding says."""


class BudgetOverError(Exception):
    """The audit's time is over."""


@dataclass
class AuditPlayer:
    """Plays on the audited server, and plays nothing twice."""

    server: AuditedServer
    deadline: float = float("inf")
    """Of the audit, on the monotonic clock."""
    turn_ends: float = float("inf")
    """Of the policy that plays now; the policy stops between two batches, and the process keeps running."""
    on_progress: Callable[[int], None] = lambda _: None
    """Called with the number of plays so far."""
    played: int = 0
    killed: list[CallPlan] = field(default_factory=list[CallPlan])
    """Plays that hung the process or ended it."""
    _known: dict[str, PlayResult] = field(default_factory=dict[str, PlayResult])

    async def play(self, plays: Sequence[CallPlan], *, again: bool = False) -> list[PlayResult]:
        """Play each, and return the results, in order.

        Args:
            again: Whether to repeat plays that have been played.

        Raises:
            BudgetOverError: If the time is over before all were played.
        """
        keys = [plan.key for plan in plays]
        # A dictionary, so that equal plays of one batch are played once, too.
        wanted = {key: plan for key, plan in zip(keys, plays, strict=True) if again or key not in self._known}
        todo = list(wanted.items())
        # A batch is what is lost when the process is killed, and costs most where each play has a sandbox.
        size = _BATCH_IN_SANDBOX if self.server.facts.is_costly else _BATCH
        for start in range(0, len(todo), size):
            batch = todo[start : start + size]
            results = await self._play_some([plan for _, plan in batch])
            for (key, _), result in zip(batch, results, strict=True):
                self._known[key] = result
            self.played += len(batch)
            self.on_progress(self.played)
        return [self._known[key] for key in keys]

    def recall(self, plan: CallPlan) -> PlayResult | None:
        """Return the result of a play, if it has been played."""
        return self._known.get(plan.key)

    async def play_alone(self, plan: CallPlan, seconds: float | None = None) -> PlayResult:
        """Play one alone."""
        self._check_time()
        results = await self.server.play([plan], ALONE_SECONDS if seconds is None else seconds)
        if results:
            return results[0]
        self.killed.append(plan)
        return PlayResult(failure="the environment hung or ended", blame="slow")

    async def play_in_turn(self, plays: Sequence[CallPlan]) -> list[PlayResult]:
        """Play one after the other, in this order, also plays that have been played."""
        return await self._play_some(plays, 1)

    async def _play_some(
        self, plays: Sequence[CallPlan], at_once: int = CONCURRENT_SESSIONS
    ) -> list[PlayResult]:
        results: dict[int, PlayResult] = {}
        while left := [index for index in range(len(plays)) if index not in results]:
            self._check_time()
            batch = [plays[index] for index in left]
            batch_results = await self.server.play(batch, BATCH_SECONDS, at_once)
            suspects = self.server.suspects
            results |= {left[index]: played for index, played in batch_results.items()}
            # A play that kills the process takes the others of its batch along: each suspect is played alone
            # to tell which one it was. Without a suspect the first play is tried, so that each round makes
            # progress.
            for index in sorted(suspects or ({0} if not batch_results else ())):
                results[left[index]] = await self.play_alone(batch[index])
        return [results[index] for index in range(len(plays))]

    def _check_time(self) -> None:
        if time.monotonic() > min(self.deadline, self.turn_ends):
            raise BudgetOverError


@dataclass
class AuditContext:
    """An environment under audit."""

    server: AuditedServer
    player: AuditPlayer
    tasks: Sequence[AuditedTask]
    tools: Mapping[str, ToolSpec]
    is_thorough: bool = False
    """Whether every task is played, and more random answers are given."""
    is_inferred: bool = False
    """Whether a field of the tasks was taken for the answer, and something else may earn more."""
    slot: AnswerSlot | None = None
    """Where the answer is in the gold actions."""
    seed: int = 0
    oracle: Mapping[int, PlayResult] = field(default_factory=dict[int, PlayResult])
    """Results of the gold actions, by the task's position in `tasks`."""
    scale: Scale = field(default_factory=lambda: Scale(0.0, 0.0))
    """From nothing to the gold actions' mean return, or to the declared maximum."""
    notes: Sequence[str] = ()
    """What a reader of the report should know about the gold actions."""
    wrong: float = 0.0
    """Mean return of another task's answer."""
    _prompts: dict[tuple[str, int], str] = field(default_factory=dict[tuple[str, int], str])

    @property
    def facts(self) -> Facts:
        """What is known about the class."""
        return self.server.facts

    @property
    def has_gold(self) -> bool:
        """Whether there are gold actions to compare with."""
        return bool(self.oracle)

    @property
    def is_ungraded(self) -> bool:
        """Whether there are gold actions, and none of them earned a number."""
        return self.has_gold and all(
            reward is None for played in self.oracle.values() for reward in played.rewards
        )

    @property
    def wrong_scale(self) -> Scale:
        """From what another task's answer earns to the gold actions' mean return."""
        return Scale(max(self.wrong, self.scale.zero), self.scale.full)

    @property
    def is_assumed(self) -> bool:
        """Whether the greatest return is not known, so that a share of it is not proof."""
        return not self.has_gold and self.facts.return_range is None and self.facts.reward_range is None

    @property
    def is_costly(self) -> bool:
        """Whether each session has a sandbox or a resource, so that fewer are played."""
        return self.facts.is_costly

    @property
    def is_program(self) -> bool:
        """Whether the answer is a file of several lines, or a program."""
        if self.slot is None or not self.slot.is_file:
            return False
        names = {
            name for task in self.tasks for call in task.gold or () for name in named_files(str(call[1]))
        }
        has_lines = any(core is not None and "\n" in core.strip() for core in self.cores.values())
        return has_lines or any(name.endswith(PROGRAM_ENDS) for name in names)

    @property
    def chance(self) -> float:
        """The share that guessing earns."""
        cores = [core for core in self.cores.values() if core is not None]
        choices = len(self.slot.choices) if self.slot else 0
        return chance_of(self.facts.chance, choices, len(set(cores)), len(cores))

    @property
    def open_slot(self) -> AnswerSlot | None:
        """The slot, where its answers are not choices."""
        return None if self.slot is None or self.slot.choices else self.slot

    @property
    def text_slot(self) -> AnswerSlot | None:
        """The slot, where any text may be the answer."""
        return self.open_slot if self.slot is not None and self.slot.is_text else None

    @cached_property
    def cores(self) -> dict[int, str | None]:
        """Each task's answer, by its place in `tasks`; the slot is found before the first look."""
        slot = self.slot
        if slot is None:
            return {}
        return {at: slot.core(task.gold) for at, task in enumerate(self.tasks) if task.gold is not None}

    def core(self, task: AuditedTask) -> str | None:
        """Return a task's answer."""
        return None if self.slot is None or task.gold is None else self.slot.core(task.gold)

    def other_core(self, task: AuditedTask, step: int = 1) -> str | None:
        """Return the answer of another task, which is a different one."""
        own = self.core(task)
        candidates = [core for core in self._distinct if core != own]
        # A fixed choice that depends on the task, so that the wrong answers vary and each run has the same.
        return candidates[(task.index * 7 + step) % len(candidates)] if candidates else None

    @cached_property
    def _distinct(self) -> list[str]:
        """All answers, once each."""
        return list(dict.fromkeys(core for core in self.cores.values() if core is not None))

    def is_dishonest(self, plan: CallPlan) -> bool:
        """Return whether a play does not simply give the right answer."""
        task = next(
            (task for task in self.tasks if (task.split, task.index) == (plan.split, plan.index)), None
        )
        own = None if task is None else self.core(task)
        answer = None if self.slot is None else self.slot.core(plan.calls)
        # White space and a full stop do not make a right answer wrong.
        return (
            own is None or answer is None or answer.strip(" .\n").casefold() != own.strip(" .\n").casefold()
        )

    def answering(self, task: AuditedTask, text: str) -> Sequence[Call] | None:
        """Return a task's gold actions with another text as the answer; `None` where that is impossible."""
        if self.slot is None or task.gold is None:
            return None
        return self.slot.replaced(task.gold, text)

    def answering_wrongly(self, task: AuditedTask) -> Sequence[Call] | None:
        """Return a task's gold actions with another task's answer, in the format of the gold answers."""
        other = self.other_core(task)
        return None if other is None or self.slot is None else self.answering(task, self.slot.wrapped(other))

    async def prompts(self) -> Mapping[tuple[str, int], str]:
        """Return the tasks' prompts, by split and index; without those of sessions that do not start."""
        if not self._prompts:
            plays = [replace(task.play(seed=self.seed), reads=True) for task in self.tasks]
            for task, played in zip(self.tasks, await self.player.play(plays), strict=True):
                if played.texts:
                    self._prompts[task.address] = played.texts[0]
        return self._prompts

    def plays_of(self, calls_of: CallsOf, tasks: Sequence[AuditedTask] | None = None) -> list[CallPlan]:
        """Return the plays of a policy, on all tasks by default, without those on which it does not play."""
        chosen = self.tasks if tasks is None else tasks
        return [task.play(calls, seed=self.seed) for task in chosen if (calls := calls_of(task)) is not None]

    def saying(self, text: str) -> CallsOf:
        """Return a policy that gives the same answer to every task, and makes no other call."""

        def calls_of(task: AuditedTask) -> Sequence[Call] | None:
            slot = self.slot
            calls = self.answering(task, text) if task.gold is not None else None
            if calls is not None and slot is not None:
                at = slot.find(calls) or 0
                # A written file is judged by a later call, which ends the episode.
                return calls[at:] if slot.is_file else calls[at : at + 1]
            value = None if slot is None else slot.as_value(text)
            if slot is None or value is None or len(slot.path) != 1:
                return None
            return [(slot.tool, {str(slot.path[0]): value})]

        return calls_of

    async def measure(
        self,
        variants: Mapping[str, CallsOf],
        message: str,
        *,
        scale: Scale | None = None,
        chance: float | None = None,
        screened_tasks: int = SCREENED_TASKS,
    ) -> list[VariantResult]:
        """Play variants of a policy on some tasks, and on all if they earned something there.

        Args:
            message: The finding if a variant earned much; `{variant}` stands for its name.
            scale: On which returns are measured; `AuditContext.scale` by default.
            chance: The share that guessing earns; `AuditContext.chance` by default.
            screened_tasks: On how many tasks each variant is tried first.
        """
        chosen = self.scale if scale is None else scale
        # Without a scale a share means nothing; `AuditPolicy.check` tells why.
        if not chosen.is_usable:
            return []
        first = self._spread(min(screened_tasks, SCREENED_IN_SANDBOX) if self.is_costly else screened_tasks)
        if self.is_costly:
            variants = dict(islice(variants.items(), MAX_VARIANTS_IN_SANDBOX))
        # A variant that earns nothing on the first tasks rarely earns anything on the others: leaving those
        # out saves most of the plays.
        screened = await self._totals(variants, first)
        promising = {
            name: calls_of
            for name, calls_of in variants.items()
            if screened[name]
            and max(chosen.share(mean(list(screened[name].values()))), 0.0) >= _MIN_PROMISING_SHARE
        }
        whole = await self._totals(promising, self.tasks)
        guess = self.chance if chance is None else chance
        warn_at = HOSTILE_WARN_SHARE if screened_tasks == MANY_ANSWERS_TASKS else WARN_SHARE
        # Against an assumed maximum, a share proves nothing.
        worst = AuditVerdict.WARN if self.is_assumed else AuditVerdict.FAIL
        results: list[VariantResult] = []
        for name, calls_of in variants.items():
            totals = whole.get(name) or screened[name]
            if not totals:
                continue
            earned = mean(list(totals.values()))
            share = chosen.share(earned)
            tasks = self.tasks if name in whole else first
            # Of equal returns, the first task: the report stays the same from run to run.
            best = max(totals, key=lambda at: (totals[at], -at))
            calls = calls_of(tasks[best])
            results.append(
                VariantResult(
                    name,
                    min(
                        judge_share(share, guess, warn_at) if name in promising else AuditVerdict.PASS,
                        worst,
                        key=lambda verdict: verdict.weight,
                    ),
                    message.format(variant=name),
                    len(totals),
                    share,
                    earned,
                    tasks[best].play(calls or (), seed=self.seed),
                    chosen.full,
                )
            )
        return results

    def _spread(self, count: int) -> list[AuditedTask]:
        """Return some tasks, from the first to the last."""
        return [self.tasks[at] for at in spread(len(self.tasks), count)]

    async def _totals(
        self, variants: Mapping[str, CallsOf], tasks: Sequence[AuditedTask]
    ) -> dict[str, dict[int, float]]:
        """Return the return of each variant on each task, by the task's position."""
        rows = [
            (name, at, task.play(calls, seed=self.seed))
            for name, calls_of in variants.items()
            for at, task in enumerate(tasks)
            if (calls := calls_of(task)) is not None
        ]
        results = await self.player.play([plan for _, _, plan in rows])
        totals: dict[str, dict[int, float]] = {name: {} for name in variants}
        for (name, at, _), played in zip(rows, results, strict=True):
            totals[name][at] = played.total
        return totals
