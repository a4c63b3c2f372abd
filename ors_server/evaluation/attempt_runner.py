"""Plays one attempt, from the request for a session to its result."""

import sysconfig
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from ors_server.client.session_summary import Summary
from ors_server.clock import Clock
from ors_server.errors import OrsServerError, first_of
from ors_server.evaluation.agent_session import AgentSession
from ors_server.evaluation.agents.base import EvaluationAgent
from ors_server.evaluation.attempt_result import AttemptEnd, Ending, judge
from ors_server.evaluation.budgets import NO_BUDGET, BudgetSpentError, Limit, Meter, UsageBudget
from ors_server.evaluation.runs import Attempt, AttemptPlace
from ors_server.evaluation.seeds import seed_of
from ors_server.evaluation.targets import Target

MAX_NAME = 128
"""Characters of an agent's name that label its episodes."""
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
    counts_tokens: bool = False
    """Whether the run has a budget of tokens or cost, so that agents must report them."""


class AttemptRunner:
    """Plays attempts of one run; each call of `play` is one, and many may run at the same time."""

    def __init__(self, target: Target, agent: EvaluationAgent, rules: AttemptRules, clock: Clock) -> None:
        self.target = target
        self.agent = agent
        self.rules = rules
        self.clock = clock

    async def play(self, place: AttemptPlace) -> tuple[Attempt, list[str]]:
        """Play one attempt, and return its result and the lines that the agent logged.

        A failure is a result, not an exception.
        """
        running = _RunningAttempt(self, place)
        await running.run()
        return running.result(), [encodable(line) for line in running.log]


class _RunningAttempt:
    """One attempt in progress."""

    def __init__(self, runner: AttemptRunner, place: AttemptPlace) -> None:
        self._target = runner.target
        self._agent = runner.agent
        self._clock = runner.clock
        self._rules = runner.rules
        self._place = place
        self._seed = seed_of(self._rules.seed, place)
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
                self._place.split,
                self._place.index,
                seed=self._seed,
                labels=self._labels(),
                policy=self._policy(),
            ) as episode:
                session = AgentSession(self._target, self._place, self._seed, episode, self._meter)
                self._session, session.log = session, self.log
                await self._play_in_time(session)
            self._summary = await session.summary()
        except Exception as error:  # noqa: BLE001  (a foreign server may fail in any way)
            self._fail(error)

    def _labels(self) -> Mapping[str, str]:
        name = str(self._agent.describe().get("name", ""))[:MAX_NAME]
        labels = {"run": self._rules.run_id, "attempt": str(self._place.attempt)}
        return {**labels, "agent": name} if name else labels

    def _policy(self) -> Mapping[str, Any]:
        """Let the episode enforce a step budget that the session cannot; a policy only becomes stricter."""
        most, policy = self._rules.budget.steps, self._rules.policy
        if most is None or not self._agent.plays_outside:
            return policy
        others = (policy.get("step_limit"), self._target.step_limit)
        if any(limit is not None and limit <= most for limit in others):
            return policy
        self._own_step_limit = most
        return {**policy, "step_limit": most}

    async def _play_in_time(self, session: AgentSession) -> None:
        seconds = self._rules.budget.seconds
        if seconds is None:
            await self._play(session)
            return
        async with anyio.create_task_group() as group:
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
            self._meter.spend(report.tokens_in, report.tokens_out, report.cost)
            self._end(Ending(report.stop_reason))
        except Exception as error:  # noqa: BLE001  (an agent is anybody's code)
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
            split=self._place.split,
            index=self._place.index,
            task_hash="" if session is None else session.task_hash,
            attempt=self._place.attempt,
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
    """Return a text that a file can hold: half of a surrogate pair, from anybody's code, becomes `?`."""
    return text.encode(errors="replace").decode()


def describe(error: BaseException) -> str:
    """Return one line: our own errors' message; of others the type too, and the line of the agent's code."""
    text = encodable(" ".join(str(error).split()))
    if isinstance(error, OrsServerError) and text:
        return text
    return f"{type(error).__name__}: {text}{_place_of(error)}"


def _place_of(error: BaseException) -> str:
    """Return ` (file.py:12)`: the last line of code that is neither ours nor an installed package's."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)]
    return f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""
