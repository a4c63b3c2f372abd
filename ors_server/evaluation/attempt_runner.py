"""Plays one attempt from the order for a session to the record of what came of it."""

import sysconfig
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import anyio

from ors_server.clock import Clock
from ors_server.errors import OrsServerError
from ors_server.evaluation.agent_session import AgentSession
from ors_server.evaluation.agents.base import EvaluationAgent
from ors_server.evaluation.attempt_result import AttemptEnd, AttemptFacts, Ending, judge
from ors_server.evaluation.budgets import NO_BUDGET, BudgetSpentError, Limit, Meter, UsageBudget
from ors_server.evaluation.runs import Attempt
from ors_server.evaluation.seeds import seed_of
from ors_server.evaluation.targets import EpisodeFigures, Target, TargetEpisode, TaskOrder

MOST_NAME = 128
"""Characters of an agent's name that label its episodes."""
_LIBRARIES = (
    *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    str(Path(__file__).parents[1]),
    "<frozen ",
)
"""How the paths of code begin that is not the agent's."""


@dataclass(frozen=True, slots=True)
class AttemptPlace:
    """Which attempt is meant."""

    split: str
    index: int
    attempt: int
    """From 1."""


@dataclass(frozen=True, slots=True)
class AttemptRules:
    """How every attempt of a run is played."""

    run_id: str
    seed: int
    """The run's."""
    success_at: float = 1.0
    budget: UsageBudget = NO_BUDGET
    """Of each attempt."""
    policy: Mapping[str, Any] = field(default_factory=dict[str, Any])
    counts_tokens: bool = False
    """Whether tokens have to be told, though the attempts have no budget of them."""


class AttemptRunner:
    """Plays attempts of one run; each call of `play` is one, and many may run at the same time."""

    def __init__(self, target: Target, agent: EvaluationAgent, manner: AttemptRules, clock: Clock) -> None:
        """Keep what every attempt needs.

        Args:
            target: Where it is played.
            agent: Who plays.
            manner: How.
            clock: The source of time.
        """
        self.target = target
        self.agent = agent
        self.manner = manner
        self.clock = clock

    async def play(self, place: AttemptPlace) -> tuple[Attempt, list[str]]:
        """Play one attempt; whatever fails in it is its outcome, not an error.

        Args:
            place: Which one.

        Returns:
            What came of it, and what the agent left to read, in lines.
        """
        play = _RunningAttempt(self, place)
        await play.run()
        return play.outcome(), play.log


class _RunningAttempt:
    """One attempt under way."""

    def __init__(self, player: AttemptRunner, place: AttemptPlace) -> None:
        self._player = player
        self._clock = player.clock
        self._manner = player.manner
        self._place = place
        self._seed = seed_of(self._manner.seed, place.split, place.index, place.attempt)
        self._started_at = self._clock.now()
        self._started = self._clock.monotonic()
        self._meter = Meter(self._manner.budget, counts_tokens=self._manner.counts_tokens)
        self._episode: TargetEpisode | None = None
        self._session: AgentSession | None = None
        self._figures: EpisodeFigures | None = None
        self._ending: Ending | None = None
        self._own_step_limit: int | None = None
        self.log: list[str] = []

    async def run(self) -> None:
        order = TaskOrder(
            split=self._place.split,
            index=self._place.index,
            attempt=self._place.attempt,
            seed=self._seed,
            labels=self._labels(),
            policy=self._policy(),
        )
        try:
            async with self._player.target.episode(order) as episode:
                self._episode = episode
                self._session = AgentSession(self._player.target, order, episode, self._meter)
                self._session.log = self.log
                await self._play_in_time(self._session)
            self._figures = await episode.figures()
        except Exception as error:  # noqa: BLE001  (a foreign server may fail in any way)
            self._fail(error)

    def _labels(self) -> Mapping[str, str]:
        name = str(self._player.agent.describe().get("name", ""))[:MOST_NAME]
        return {
            "run": self._manner.run_id,
            "attempt": str(self._place.attempt),
            **({"agent": name} if name else {}),
        }

    def _policy(self) -> Mapping[str, Any]:
        """Have the episode keep a budget of steps that the session cannot; a policy is only made stricter."""
        most, policy = self._manner.budget.steps, self._manner.policy
        if most is None or not self._player.agent.plays_outside:
            return policy
        others = (policy.get("step_limit"), self._player.target.step_limit)
        is_kept = any(limit is not None and limit <= most for limit in others)
        if is_kept:
            return policy
        self._own_step_limit = most
        return {**policy, "step_limit": most}

    async def _play_in_time(self, session: AgentSession) -> None:
        seconds = self._manner.budget.seconds
        if seconds is None:
            await self._play(session)
            return
        async with anyio.create_task_group() as group:
            group.start_soon(self._alarm, seconds, group.cancel_scope)
            await self._play(session)
            group.cancel_scope.cancel()

    async def _alarm(self, seconds: float, scope: anyio.CancelScope) -> None:
        await self._clock.sleep(seconds)
        self._end(Ending.over_budget(Limit.SECONDS))
        scope.cancel()

    async def _play(self, session: AgentSession) -> None:
        try:
            await session.messages()  # so that the record says what the task was, whoever plays
            report = await self._player.agent.play(session)
            self._meter.spend(report.tokens_in, report.tokens_out, report.cost)
            self._end(Ending(report.stop_reason))
        except Exception as error:  # noqa: BLE001  (an agent is anybody's code)
            self._fail(error)

    def _end(self, ending: Ending) -> None:
        """Keep the first ending: what follows follows from it."""
        self._ending = self._ending or ending

    def _fail(self, failure: Exception) -> None:
        error = first_of(failure)
        if isinstance(error, BudgetSpentError):
            self._end(Ending.over_budget(error.limit))
            return
        self._end(Ending.failed(describe(error)))
        if not isinstance(error, OrsServerError):
            self.log += traceback.format_exception(error)

    def outcome(self) -> Attempt:
        episode, session, meter = self._episode, self._session, self._meter
        standing = AttemptEnd(
            ending=self._ending or Ending("agent"),
            figures=self._figures,
            own_sum=None if session is None else session.own_sum,
            own_last=None if session is None else session.last_reward,
            own_steps=meter.calls,
            is_over=session is not None and session.is_over,
            is_unjudged=session is not None and session.is_unjudged,
            own_step_limit=self._own_step_limit,
        )
        story = AttemptFacts(
            run_id=self._manner.run_id,
            environment=self._player.target.environment,
            split=self._place.split,
            index=self._place.index,
            task_hash="" if episode is None else episode.task_hash,
            attempt=self._place.attempt,
            seed=self._seed,
            started_at=self._started_at,
            seconds=self._clock.monotonic() - self._started,
            episode_id=None if episode is None else episode.episode_id,
            session_id=None if episode is None else episode.session_id,
            tokens_in=meter.tokens_in,
            tokens_out=meter.tokens_out,
            cost=meter.cost,
        )
        return judge(story, standing, self._manner.success_at)


def first_of(error: Exception) -> Exception:
    """Return what failed first, where several things did together.

    Args:
        error: An exception, or a group of them.
    """
    while isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    return error


def describe(error: BaseException) -> str:
    """Say in a line what failed.

    Args:
        error: One of ours says it itself; of any other the type is named, and the line of the agent's code.
    """
    text = " ".join(str(error).split())
    if isinstance(error, OrsServerError) and text:
        return text
    return f"{type(error).__name__}: {text}{_place_of(error)}"


def _place_of(error: BaseException) -> str:
    """Return ` (file.py:12)`: the last line of code that is neither ours nor an installed package's."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)]
    return f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""
