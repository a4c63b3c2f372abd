"""Plays a whole run: every attempt once, so many at a time, until all have ended or the budget is spent."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio

from ors_server.clock import Clock, SystemClock
from ors_server.errors import ClientError
from ors_server.evaluation.agents.base import EvaluationAgent
from ors_server.evaluation.attempt_runner import AttemptPlace, AttemptRules, AttemptRunner
from ors_server.evaluation.budgets import NO_BUDGET, RunMeter, UsageBudget
from ors_server.evaluation.folder import RunFolder, read_attempts
from ors_server.evaluation.runs import Attempt, AttemptStatus, Run
from ors_server.evaluation.targets import Target

LOGS = "logs"
"""Folder, inside a run's, of what agents left to read: a file for each attempt that left something."""


class RunError(ClientError):
    """A run cannot be played as it was asked for."""

    code = "run"


@dataclass(frozen=True, slots=True)
class RunControls:
    """How a run is played, as far as it does not change what is played: it may differ when a run goes on."""

    concurrency: int = 4
    """Attempts at a time, at least 1."""
    budget: UsageBudget = NO_BUDGET
    """Of the whole run; what is spent, was spent by the attempts of earlier sittings too, but for seconds."""
    most_errors: int | None = None
    """Attempts that may error one after another before the run stops."""
    retry_errored: bool = False
    """Whether attempts that errored in earlier sittings are played again; the later outcome then stands."""
    on_attempt: Callable[[Attempt, "Tally"], None] | None = None
    """Told of each attempt as it ends."""


@dataclass(slots=True)
class Tally:
    """How a run stands, in numbers that do not grow with it."""

    planned: int
    ended: int = 0
    errored: int = 0
    over_budget: int = 0
    succeeded: int = 0
    total: float = 0.0
    """Of the returns."""

    @property
    def mean(self) -> float | None:
        """The mean return so far; `None` while no attempt has one."""
        judged = self.ended - self.errored
        return self.total / judged if judged else None

    def add(self, attempt: Attempt) -> None:
        """Count an attempt that has ended.

        Args:
            attempt: The attempt.
        """
        self.ended += 1
        self.errored += attempt.status is AttemptStatus.ERRORED
        self.over_budget += attempt.status is AttemptStatus.OVER_BUDGET
        self.succeeded += attempt.success is True
        self.total += attempt.episode_return or 0.0

    def forget_errored(self) -> None:
        """Count an attempt that errored as one that is still to be played."""
        self.ended -= 1
        self.errored -= 1


_ENDED, _ERRORED = 1, 2


@dataclass(slots=True)
class _Progress:
    """What has been played: a byte for each attempt, whatever the run's length."""

    run: Run
    tally: Tally
    meter: RunMeter
    standing: bytearray
    positions: Mapping[int, int]

    def remaining(self) -> Iterator[AttemptPlace]:
        """Go through what is left, every task once before any is played again."""
        count = len(self.run.indices)
        for number in range(self.run.attempts):
            for position, index in enumerate(self.run.indices):
                if not self.standing[number * count + position]:
                    yield AttemptPlace(self.run.split, index, number + 1)

    def add(self, attempt: Attempt) -> None:
        """Count an attempt that has ended; one that errored gives way to a later one at the same place.

        Raises:
            RunError: If it is none of the run's, or was counted already.
        """
        position = self.positions.get(attempt.index)
        is_planned = attempt.split == self.run.split and 1 <= attempt.attempt <= self.run.attempts
        if position is None or not is_planned or attempt.run_id != self.run.run_id:
            raise RunError(f"the attempt at {attempt.place} is none of the run {self.run.run_id}")
        slot = (attempt.attempt - 1) * len(self.run.indices) + position
        if self.standing[slot] == _ENDED:
            raise RunError(f"the attempt at {attempt.place} is there twice")
        if self.standing[slot] == _ERRORED:
            self.tally.forget_errored()
        self.standing[slot] = _ERRORED if attempt.status is AttemptStatus.ERRORED else _ENDED
        self.tally.add(attempt)
        self.meter.add(attempt)

    def forget_errored(self) -> None:
        """Have what errored played again."""
        for slot, standing in enumerate(self.standing):
            if standing == _ERRORED:
                self.standing[slot] = 0
                self.tally.forget_errored()


class Runner:
    """Plays one run; what has ended already, in the run's folder, is not played again."""

    def __init__(
        self,
        target: Target,
        agent: EvaluationAgent,
        folder: RunFolder,
        conduct: RunControls | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Keep what a run needs.

        Args:
            target: Where it is played.
            agent: Who plays.
            folder: The run's folder, which holds a run that was begun.
            conduct: How it is played.
            clock: The source of time.

        Raises:
            RunError: If nothing could be played at a time.
        """
        self._target = target
        self._agent = agent
        self._folder = folder
        self._conduct = conduct or RunControls()
        self._clock = clock or SystemClock()
        self._turn = anyio.Lock()
        if self._conduct.concurrency < 1:
            raise RunError(f"at least 1 attempt is played at a time, not {self._conduct.concurrency}")

    async def play(
        self, run: Run, budget: UsageBudget = NO_BUDGET, policy: Mapping[str, Any] | None = None
    ) -> Run:
        """Play what is left of a run.

        When this is cancelled, the attempts under way are given up and leave nothing, and those that have
        ended stay; the run can go on later.

        Args:
            run: The run, as it stands in its folder.
            budget: What each attempt may use up.
            policy: Overrides of the environment's policy for each attempt.

        Returns:
            The run with its end, as it now stands in its folder.

        Raises:
            RunError: If the folder holds attempts of something else, or a budget cannot be kept.
            RecordError: If what the folder holds cannot be read, or somebody else plays there.
            OSError: If an outcome cannot be written; the run can go on once it can.
        """
        self._check(budget)
        with self._folder:
            return await self._go_on(run, budget, policy or {})

    async def _go_on(self, run: Run, budget: UsageBudget, policy: Mapping[str, Any]) -> Run:
        progress = await anyio.to_thread.run_sync(self._progress, run)
        if progress.tally.ended == run.planned and run.ended_at is not None:
            return run
        run = replace(run, ended_at=None, stop_reason=None)
        await anyio.to_thread.run_sync(self._folder.write, run)
        whole = self._conduct.budget
        manner = AttemptRules(
            run.run_id,
            run.seed,
            run.success_at,
            budget,
            policy,
            counts_tokens=whole.tokens is not None or whole.cost is not None,
        )
        player = AttemptRunner(self._target, self._agent, manner, self._clock)
        spent = await self._play_all(player, progress)
        is_complete = progress.tally.ended == run.planned
        ended = replace(
            run,
            ended_at=self._clock.now(),
            stop_reason=None if is_complete or spent is None else str(spent),
        )
        await anyio.to_thread.run_sync(self._folder.write, ended)
        return ended

    def _check(self, budget: UsageBudget) -> None:
        """Refuse a budget of cost that nobody could keep.

        Raises:
            RunError: If the agent has no prices.
        """
        is_asked = budget.cost is not None or self._conduct.budget.cost is not None
        if is_asked and not getattr(self._agent, "tells_cost", True):
            raise RunError("a budget of cost needs the agent's prices: the options price_in and price_out")

    def _progress(self, run: Run) -> _Progress:
        progress = _Progress(
            run,
            Tally(run.planned),
            RunMeter(self._conduct.budget, self._conduct.most_errors),
            bytearray(run.planned),
            {index: position for position, index in enumerate(run.indices)},
        )
        for attempt in read_attempts(self._folder.path):
            progress.add(attempt)
        progress.meter.forgive()
        if self._conduct.retry_errored:
            progress.forget_errored()
        return progress

    async def _play_all(self, player: AttemptRunner, progress: _Progress) -> str | None:
        started = self._clock.monotonic()
        slots = anyio.Semaphore(self._conduct.concurrency)
        async with anyio.create_task_group() as group:
            for place in progress.remaining():
                await slots.acquire()
                spent = progress.meter.spent(self._clock.monotonic() - started)
                if spent is not None:
                    return spent
                group.start_soon(self._play_one, player, place, progress, slots)
        return None

    async def _play_one(
        self, player: AttemptRunner, place: AttemptPlace, progress: _Progress, slots: anyio.Semaphore
    ) -> None:
        try:
            attempt, log = await player.play(place)
            async with self._turn:  # on the disk before it counts, in the order of the record
                await anyio.to_thread.run_sync(self._write, place, attempt, log)
            progress.add(attempt)
            if self._conduct.on_attempt is not None:
                self._conduct.on_attempt(attempt, progress.tally)
        finally:
            slots.release()

    def _write(self, place: AttemptPlace, attempt: Attempt, log: list[str]) -> None:
        if log:
            self._keep(place, log)
        self._folder.append(attempt)

    def _keep(self, place: AttemptPlace, log: list[str]) -> None:
        path = log_path(self._folder.path, place)
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(line if line.endswith("\n") else f"{line}\n" for line in log))


def log_path(folder: Path, place: AttemptPlace) -> Path:
    """Return where the log of an attempt is, if it left one.

    Args:
        folder: The run's.
        place: The attempt.
    """
    safe = "".join(sign if sign.isalnum() or sign in "-_" else "_" for sign in place.split)
    return folder / LOGS / f"{safe}-{place.index}-{place.attempt}.log"
