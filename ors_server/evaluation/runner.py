"""Plays a run: its attempts, some at a time, until all have ended or the budget is spent.

Invariants:

- An attempt counts only after its line is on the disk (`_turn` serialises the writes), so that a run that is
  killed and resumed has neither a gap nor a double.
- Each slot of `_Progress.states` goes from 0 to errored or ended; only an errored attempt is played again,
  and then the later result counts.
- The budget is checked before an attempt begins; running attempts are never cut short by the run's budget.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio

from ors_server.evaluation.agents.base import EvaluationAgent
from ors_server.evaluation.attempt_runner import AttemptRules, AttemptRunner
from ors_server.evaluation.budgets import NO_BUDGET, RunMeter, UsageBudget
from ors_server.evaluation.folder import RunFolder, read_attempts
from ors_server.evaluation.runs import Attempt, AttemptKey, AttemptStatus, Run
from ors_server.evaluation.targets import Target
from ors_server.files.atomic_file import open_private
from ors_server.model.clock import Clock, SystemClock
from ors_server.model.errors import ClientError

LOGS = "logs"
"""Folder, inside a run's, with a file for each attempt whose agent logged something."""


class RunError(ClientError):
    """A run cannot be played as requested."""

    code = "run"


@dataclass(frozen=True, slots=True)
class RunControls:
    """Settings of a run that do not change what is played, so that they may differ when it is resumed."""

    concurrency: int = 4
    """Attempts at a time, at least 1."""
    budget: UsageBudget = NO_BUDGET
    """Of the whole run; what earlier starts used counts too, except seconds."""
    most_errors: int | None = None
    """Attempts that may error one after another before the run stops."""
    retry_errored: bool = False
    """Whether attempts that errored before are played again; the later result then counts."""
    on_attempt: Callable[[Attempt, "Tally"], None] | None = None
    """Called with each attempt as it ends."""


@dataclass(slots=True)
class Tally:
    """The progress of a run, in numbers that do not grow with it."""

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

    @property
    def headline(self) -> str:
        """The progress in a few words."""
        parts = ["no return yet" if self.mean is None else f"mean {self.mean:.3f}"]
        parts.append(f"{self.succeeded} succeeded")
        if self.errored:
            parts.append(f"{self.errored} errored")
        if self.over_budget:
            parts.append(f"{self.over_budget} over budget")
        return ", ".join(parts)

    def add(self, attempt: Attempt) -> None:
        """Count an attempt that has ended."""
        self.ended += 1
        self.errored += attempt.status is AttemptStatus.ERRORED
        self.over_budget += attempt.status is AttemptStatus.OVER_BUDGET
        self.succeeded += attempt.success is True
        self.total += attempt.episode_return or 0.0

    def forget_errored(self) -> None:
        """Count one errored attempt as not played."""
        self.ended -= 1
        self.errored -= 1


_ENDED, _ERRORED = 1, 2


@dataclass(slots=True)
class _Progress:
    """What has been played, with one byte for each attempt."""

    run: Run
    tally: Tally
    meter: RunMeter
    states: bytearray
    positions: Mapping[int, int]
    hashes: dict[int, str] = field(default_factory=dict[int, str])
    """Of the tasks that were played before, by index, as far as they are known."""

    def remaining(self) -> Iterator[AttemptKey]:
        """Yield what is left: each task once before any task again."""
        # All tasks once before any task again: an interrupted run then has figures of as many tasks as
        # possible.
        count = len(self.run.indices)
        for number in range(self.run.attempts):
            for position, index in enumerate(self.run.indices):
                if not self.states[number * count + position]:
                    yield AttemptKey(self.run.split, index, number + 1)

    def add(self, attempt: Attempt) -> None:
        """Count an attempt that has ended; a later one with the same key replaces one that errored."""
        position = self.positions.get(attempt.index)
        is_planned = attempt.split == self.run.split and 1 <= attempt.attempt <= self.run.attempts
        if position is None or not is_planned or attempt.run_id != self.run.run_id:
            raise RunError(f"{attempt.key} is not part of the run {self.run.run_id}")
        slot = (attempt.attempt - 1) * len(self.run.indices) + position
        if self.states[slot] == _ENDED:
            raise RunError(f"{attempt.key} is recorded twice in the run {self.run.run_id}")
        if self.states[slot] == _ERRORED:
            self.tally.forget_errored()
        if attempt.task_hash:
            self.hashes[attempt.index] = attempt.task_hash
        self.states[slot] = _ERRORED if attempt.status is AttemptStatus.ERRORED else _ENDED
        self.tally.add(attempt)
        self.meter.add(attempt)

    def forget_errored(self) -> None:
        """Mark errored attempts as not played."""
        for slot, state in enumerate(self.states):
            if state == _ERRORED:
                self.states[slot] = 0
                self.tally.forget_errored()


class Runner:
    """Plays one run; attempts that are in its folder already are not played again."""

    def __init__(
        self,
        target: Target,
        agent: EvaluationAgent,
        folder: RunFolder,
        controls: RunControls | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Prepare a run that `folder.begin` has started; raises `RunError` if the concurrency is below 1."""
        self._target = target
        self._agent = agent
        self._folder = folder
        self._controls = controls or RunControls()
        self._clock = clock or SystemClock()
        self._turn = anyio.Lock()
        if self._controls.concurrency < 1:
            raise RunError(f"expected at least 1 attempt at a time, got {self._controls.concurrency}")

    async def play(
        self,
        run: Run,
        budget: UsageBudget = NO_BUDGET,
        policy: Mapping[str, Any] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Run:
        """Play what is left of a run, and return it with its end, as its folder has it.

        If this is cancelled, ended attempts stay and the others leave nothing; the run can be resumed.

        Args:
            run: The run, as its folder has it.
            budget: Of each attempt.
            policy: Overrides of the environment's policy, for each attempt.
            labels: Labels of every episode, in addition to those that the run sets itself.

        Raises:
            RunError: If the folder has attempts of another run, or a budget cannot be kept.
            RecordError: If the folder cannot be read, or another process plays the run.
            OSError: If a result cannot be written; the run can be resumed later.
        """
        self._check(budget)
        with self._folder:
            return await self._resume(run, budget, policy or {}, labels or {})

    async def _resume(
        self, run: Run, budget: UsageBudget, policy: Mapping[str, Any], labels: Mapping[str, str]
    ) -> Run:
        # In a thread: a folder of many attempts takes seconds to read.
        progress = await anyio.to_thread.run_sync(self._progress, run)
        # A complete run is not played again, and its end stays as it was.
        if progress.tally.ended == run.planned and run.ended_at is not None:
            return run
        await self._check_tasks(progress)
        run = replace(run, ended_at=None, stop_reason=None)
        await anyio.to_thread.run_sync(self._folder.write, run)
        whole = self._controls.budget
        counts_tokens = whole.tokens is not None or whole.cost is not None
        rules = AttemptRules(run.run_id, run.seed, run.success_at, budget, policy, labels, counts_tokens)
        spent = await self._play_all(AttemptRunner(self._target, self._agent, rules, self._clock), progress)
        stop_reason = None if spent is None or progress.tally.ended == run.planned else str(spent)
        ended = replace(run, ended_at=self._clock.now(), stop_reason=stop_reason)
        await anyio.to_thread.run_sync(self._folder.write, ended)
        return ended

    async def _check_tasks(self, progress: _Progress) -> None:
        """Check that the tasks that were played before are still the same, which a summary cannot tell."""
        if not progress.hashes:
            return
        run = progress.run
        hashes = await self._target.task_hashes(run.split, sorted(progress.hashes))
        changed = [index for index, task_hash in progress.hashes.items() if hashes.get(index) != task_hash]
        if changed:
            raise RunError(
                f"the run {run.run_id} has played other tasks than those here: {len(changed)} of "
                f"{len(progress.hashes)} have another hash, the first at {run.split}/{min(changed)}: begin a "
                "new run"
            )

    def _check(self, budget: UsageBudget) -> None:
        has_cost = budget.cost is not None or self._controls.budget.cost is not None
        # Only a model tells the prices; other agents report a cost or have none.
        if has_cost and not getattr(self._agent, "tells_cost", True):
            raise RunError("a budget of cost needs the agent's prices: the options price_in and price_out")

    def _progress(self, run: Run) -> _Progress:
        progress = _Progress(
            run,
            Tally(run.planned),
            RunMeter(self._controls.budget, self._controls.most_errors),
            # One byte each: a run may have a million attempts.
            bytearray(run.planned),
            {index: position for position, index in enumerate(run.indices)},
        )
        for attempt in read_attempts(self._folder.path):
            progress.add(attempt)
        # A resumed run gets a new chance: the errors may have been the endpoint's.
        progress.meter.forget_errors()
        if self._controls.retry_errored:
            progress.forget_errored()
        return progress

    async def _play_all(self, runner: AttemptRunner, progress: _Progress) -> str | None:
        started = self._clock.monotonic()
        slots = anyio.Semaphore(self._controls.concurrency)
        async with anyio.create_task_group() as group:
            for key in progress.remaining():
                # A slot first, so that the budget is looked at when an attempt could really begin.
                await slots.acquire()
                spent = progress.meter.spent(self._clock.monotonic() - started)
                if spent is not None:
                    return spent
                group.start_soon(self._play_one, runner, key, progress, slots)
        return None

    async def _play_one(
        self, runner: AttemptRunner, key: AttemptKey, progress: _Progress, slots: anyio.Semaphore
    ) -> None:
        try:
            attempt, log = await runner.play(key)
            async with self._turn:  # written before it counts, one after another
                await anyio.to_thread.run_sync(self._write, key, attempt, log)
            progress.add(attempt)
            if self._controls.on_attempt is not None:
                self._controls.on_attempt(attempt, progress.tally)
        finally:
            slots.release()

    def _write(self, key: AttemptKey, attempt: Attempt, log: list[str]) -> None:
        # The log first: an attempt that is recorded has its log, even if the process is killed in between.
        if log:
            path = log_path(self._folder.path, key)
            path.parent.mkdir(exist_ok=True, mode=0o700)
            with open(path, "w", opener=open_private) as file:
                file.writelines(line if line.endswith("\n") else f"{line}\n" for line in log)
        self._folder.append(attempt)


def log_path(folder: Path, key: AttemptKey) -> Path:
    """Return the path of an attempt's log in the folder of its run."""
    safe = "".join(sign if sign.isalnum() or sign in "-_" else "_" for sign in key.split)
    return folder / LOGS / f"{safe}-{key.index}-{key.attempt}.log"
