"""Plays one attempt, from the request for a session to its result.

Also decides the result of an attempt from what its agent, its session and its server report (`judge`, a pure
function), and derives the seeds of a run's attempts.

Invariants:

- `play` returns a result for every failure; only cancellation and errors of this process leave it.
- The first ending counts. A budget that runs out cancels the agent, and the errors that follow from that are
  not the reason.
- An attempt either has a return or an error, never both. The return comes from the server, and a sum of
  received rewards that contradicts it makes the attempt errored.
"""

import hashlib
import math
import sysconfig
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from ors_server.client.session_summary import Summary
from ors_server.evaluation.agent_session import AgentSession
from ors_server.evaluation.agents.base import EvaluationAgent
from ors_server.evaluation.budgets import NO_BUDGET, BudgetSpentError, Limit, Meter, UsageBudget
from ors_server.evaluation.runs import Attempt, AttemptKey, AttemptStatus
from ors_server.evaluation.targets import Target
from ors_server.export.episodes import is_played_out
from ors_server.model.clock import Clock
from ors_server.model.errors import OrsServerError, first_of

TOLERANCE = 1e-9
"""Relative and absolute: by which two sums of the same rewards in another order may differ."""


@dataclass(frozen=True, slots=True)
class Ending:
    """Why the agent stopped."""

    stop_reason: str
    limit: Limit | None = None
    """The budget that was spent."""
    error: str | None = None
    """What failed."""


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """What agent, session and server report at the end of an attempt."""

    ending: Ending
    summary: Summary | None
    """The server's figures; `None` without an episode, or from a server that keeps none."""
    own_sum: float | None = None
    """The sum of the rewards that the session received; `None` if there may be others."""
    own_last: float | None = None
    own_steps: int = 0
    is_over: bool = False
    """Whether a call of the session ended the episode."""
    is_unjudged: bool = False
    """Whether that call had no reward."""
    own_step_limit: int | None = None
    """The step limit that the episode was given because of a budget."""

    @property
    def server_reason(self) -> str | None:
        """The server's stop reason."""
        return None if self.summary is None else self.summary.stop_reason

    @property
    def is_played_out(self) -> bool:
        """Whether the environment or its policy ended the episode."""
        return self.summary is not None and is_played_out(self.summary)

    @property
    def last_reward(self) -> float | None:
        """The last reward, as the server has it, else as the session received it; `None` if unjudged."""
        if self.summary is not None and self.summary.unjudged_steps:
            return None
        server_reward = None if self.summary is None else self.summary.last_reward
        return self.own_last if server_reward is None else server_reward


def judge(end: AttemptEnd, success_at: float) -> dict[str, Any]:
    """Return the fields of an `Attempt` that follow from its end.

    The server's return counts. Without one, the session's sum does. If both exist and differ, the attempt has
    errored.
    """
    summary = end.summary
    paid = end.own_sum if summary is None else summary.episode_return
    error, limit = _error(end, paid), _limit(end)
    fields: dict[str, Any] = {
        "last_reward": end.last_reward,
        "finished": end.is_played_out or (end.server_reason is None and end.is_over),
        "stop_reason": "error" if end.ending.error is not None else _stop_reason(end, limit),
        "steps": end.own_steps if summary is None else summary.steps,
        "penalties": 0.0 if summary is None else summary.penalty_sum,
        "metrics": {} if summary is None else dict(summary.metrics),
    }
    if error is not None:
        return {**fields, "status": AttemptStatus.ERRORED, "error": error}
    status = AttemptStatus.DONE if limit is None else AttemptStatus.OVER_BUDGET
    success = paid is not None and paid >= success_at
    return {**fields, "status": status, "episode_return": paid, "success": success}


def _limit(end: AttemptEnd) -> Limit | None:
    is_own = end.own_step_limit is not None and end.server_reason == "step_limit"
    # The server ended the episode at the limit that this run set because of its budget: that is a spent
    # budget, not the environment's own limit.
    if is_own and end.summary is not None and end.summary.steps >= (end.own_step_limit or 0):
        return Limit.STEPS
    # An episode that ended by itself counts fully, even if the budget ran out with its last call.
    return None if end.is_played_out else end.ending.limit


def _stop_reason(end: AttemptEnd, limit: Limit | None) -> str:
    if limit is not None:
        return limit.value
    # `deleted` and `shutdown` say how the session ended, not why the agent stopped.
    if end.server_reason not in {None, "deleted", "shutdown"}:
        return str(end.server_reason)
    return "completed" if end.is_over else end.ending.stop_reason


def _error(end: AttemptEnd, paid: float | None) -> str | None:
    if end.ending.error is not None:
        return end.ending.error
    if end.server_reason in {"failed", "expired"}:
        return f"the episode {end.server_reason} at the server"
    if end.server_reason == "shutdown":
        return "the server stopped before the episode ended"
    if end.summary is not None and end.summary.failed_steps:
        return f"the environment's own code failed in {end.summary.failed_steps} of {end.summary.steps} calls"
    if end.summary is not None and end.summary.unjudged_steps:
        return end.summary.why_unjudged
    return _doubt(end, paid)


def _doubt(end: AttemptEnd, paid: float | None) -> str | None:
    """Return why the return cannot be trusted."""
    if paid is None:
        return "the return is not known: the server keeps no figures, and not every reward was received"
    if end.own_sum is not None and not math.isclose(end.own_sum, paid, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
        return f"the received rewards add up to {end.own_sum!r}, but the server's return is {paid!r}"
    # A server that ended the episode without a reward graded nothing: 0 would be a wrong return.
    has_ended = end.server_reason == "completed" or (end.server_reason is None and end.is_over)
    if has_ended and (end.is_unjudged or end.last_reward is None):
        return "the environment ended the episode without a reward: it could not be graded"
    return None


def seed_of(run_seed: int, key: AttemptKey) -> int:
    """Return an attempt's seed in [0, 2**53): the first 53 bits of a SHA-256.

    It depends on the run's seed and the attempt's key only, so it is the same in every such run.
    """
    text = f"{run_seed}/{key.split}/{key.index}/{key.attempt}"
    # 53 bits, because JSON numbers above 2**53 are not exact in every reader.
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 11


MAX_NAME = 128
"""Characters of an agent's name that label its episodes."""
RUN_LABELS = frozenset({"run", "attempt", "agent"})
"""Labels that every episode of a run has: its id, the number of the attempt, and the agent's name."""
_LIBRARIES = (
    *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    str(Path(__file__).parents[1]),
    "<frozen ",
)
"""Beginnings of the paths of code that is not the agent's."""


@dataclass(frozen=True, slots=True)
class AttemptRules:
    """What is the same for every attempt of a run."""

    run_id: str
    seed: int
    """The run's."""
    success_at: float = 1.0
    budget: UsageBudget = NO_BUDGET
    """Of each attempt."""
    policy: Mapping[str, Any] = field(default_factory=dict[str, Any])
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """Labels of every episode, in addition to `RUN_LABELS`."""
    counts_tokens: bool = False
    """Whether the run has a budget of tokens or cost, so that agents must report them."""


class AttemptRunner:
    """Plays attempts of one run; each call of `play` is one, and many may run at the same time."""

    def __init__(self, target: Target, agent: EvaluationAgent, rules: AttemptRules, clock: Clock) -> None:
        self.target = target
        self.agent = agent
        self.rules = rules
        self.clock = clock

    async def play(self, key: AttemptKey) -> tuple[Attempt, list[str]]:
        """Play one attempt, and return its result and the lines that the agent logged.

        A failure is a result, not an exception.
        """
        running = _RunningAttempt(self, key)
        await running.run()
        return running.result(), [encodable(line) for line in running.log]


class _RunningAttempt:
    """One attempt in progress."""

    def __init__(self, runner: AttemptRunner, key: AttemptKey) -> None:
        self._target = runner.target
        self._agent = runner.agent
        self._clock = runner.clock
        self._rules = runner.rules
        self._key = key
        self._seed = seed_of(self._rules.seed, key)
        self._started_at = self._clock.now()
        self._started = self._clock.monotonic()
        self._meter = Meter(self._rules.budget, counts_tokens=self._rules.counts_tokens)
        self._session: AgentSession | None = None
        self._summary: Summary | None = None
        self._ending: Ending | None = None
        self._own_step_limit: int | None = None
        self.log: list[str] = []

    async def run(self) -> None:
        try:
            async with self._target.episode(
                self._key.split,
                self._key.index,
                seed=self._seed,
                labels=self._labels(),
                policy=self._policy(),
            ) as episode:
                session = AgentSession(self._target, self._key, self._seed, episode, self._meter)
                self._session, session.log = session, self.log
                await self._play_in_time(session)
            # The context has ended the session, so that the figures are final.
            self._summary = await session.summary()
        except Exception as error:  # noqa: BLE001  (a foreign server may fail in any way)
            self._fail(error)

    def _labels(self) -> Mapping[str, str]:
        name = str(self._agent.describe().get("name", ""))[:MAX_NAME]
        labels = {**self._rules.labels, "run": self._rules.run_id, "attempt": str(self._key.attempt)}
        return {**labels, "agent": name} if name else labels

    def _policy(self) -> Mapping[str, Any]:
        """Let the episode enforce a step budget that the session cannot; a policy only becomes stricter."""
        max_steps, policy = self._rules.budget.steps, self._rules.policy
        if max_steps is None or not self._agent.plays_outside:
            return policy
        limits = (policy.get("step_limit"), self._target.step_limit)
        # A stricter limit of the environment or the run ends the episode first, so that it is not a budget.
        if any(limit is not None and limit <= max_steps for limit in limits):
            return policy
        self._own_step_limit = max_steps
        return {**policy, "step_limit": max_steps}

    async def _play_in_time(self, session: AgentSession) -> None:
        seconds = self._rules.budget.seconds
        if seconds is None:
            await self._play(session)
            return
        async with anyio.create_task_group() as group:
            # A task on the run's clock and not `move_on_after`, so that tests can move the time.
            group.start_soon(self._alarm, seconds, group.cancel_scope)
            await self._play(session)
            group.cancel_scope.cancel()

    async def _alarm(self, seconds: float, scope: anyio.CancelScope) -> None:
        await self._clock.sleep(seconds)
        self._end(Ending(Limit.SECONDS.value, Limit.SECONDS))
        scope.cancel()

    async def _play(self, session: AgentSession) -> None:
        try:
            await session.messages()  # so that the record has the prompt, also if the agent does not read it
            report = await self._agent.play(session)
            # Also a report beyond the budget ends the attempt; it raises here.
            self._meter.spend(report.tokens_in, report.tokens_out, report.cost)
            self._end(Ending(report.stop_reason))
        except Exception as error:  # noqa: BLE001  (the boundary to an author's agent)
            self._fail(error)

    def _end(self, ending: Ending) -> None:
        """Keep the first ending, which caused the others."""
        self._ending = self._ending or ending

    def _fail(self, failure: Exception) -> None:
        error = first_of(failure)
        if isinstance(error, BudgetSpentError):
            self._end(Ending(error.limit.value, error.limit))
            return
        self._end(Ending("error", error=describe(error)))
        if not isinstance(error, OrsServerError):
            self.log += traceback.format_exception(error)

    def result(self) -> Attempt:
        session, meter = self._session, self._meter
        end = AttemptEnd(
            ending=self._ending or Ending("agent"),
            summary=self._summary,
            own_sum=None if session is None else session.own_sum,
            own_last=None if session is None else session.last_reward,
            own_steps=meter.calls,
            is_over=session is not None and session.is_over,
            is_unjudged=session is not None and session.is_unjudged,
            own_step_limit=self._own_step_limit,
        )
        return Attempt(
            run_id=self._rules.run_id,
            environment=self._target.environment,
            split=self._key.split,
            index=self._key.index,
            task_hash="" if session is None else session.task_hash,
            attempt=self._key.attempt,
            seed=self._seed,
            started_at=self._started_at,
            seconds=self._clock.monotonic() - self._started,
            episode_id=None if session is None else session.episode_id,
            session_id=None if session is None else session.session_id,
            tokens_in=meter.tokens_in,
            tokens_out=meter.tokens_out,
            cost=meter.cost,
            retries=meter.retries,
            retry_seconds=meter.retry_seconds,
            **judge(end, self._rules.success_at),
        )


def encodable(text: str) -> str:
    """Return a text that can be written as UTF-8: half of a surrogate pair becomes `?`."""
    return text.encode(errors="replace").decode()


def describe(error: BaseException) -> str:
    """Return one line: our own errors' message; for others also the type and the line of the agent's code."""
    text = encodable(" ".join(str(error).split()))
    if isinstance(error, OrsServerError) and text:
        return text
    # The last line of code that is neither ours nor an installed package's is probably the agent's mistake.
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)]
    location = f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""
    return f"{type(error).__name__}: {text}{location}"
