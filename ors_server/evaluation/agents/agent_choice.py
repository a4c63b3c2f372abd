"""Creates the agent that the command line names.

Repeats the calls of a recorded episode.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeAlias

from ors_server.evaluation.agent_session import AgentSession
from ors_server.evaluation.agents.base import AgentError, AgentReport, AgentSettingsError, EvaluationAgent
from ors_server.evaluation.agents.baselines import NoopAgent, OracleAgent, RandomAgent
from ors_server.evaluation.agents.callable_agent import CallableAgent, find_callable, source_of
from ors_server.evaluation.agents.chat_agent import ChatAgent, ChatOptions
from ors_server.evaluation.agents.command_agent import CommandAgent
from ors_server.model.model_turn import recorded_turn
from ors_server.model.trajectory import EpisodeRecord
from ors_server.model.wire import JSONObject
from ors_server.recovery.recorded_episode import repeatable_steps
from ors_server.store.base import RecordReader
from ors_server.store.episode_filter import EpisodeFilter

EPISODES_AT_ONCE = 200
"""Episodes that are searched for one attempt, the newest first."""


class ReplayAgent:
    """Makes the calls of the newest recorded episode of the same task."""

    plays_outside = False

    def __init__(self, reader: RecordReader, location: str, run_id: str | None = None) -> None:
        """Keep the store, which is closed together with the agent, and its path or URL.

        With `run_id` only episodes with this label `run` are used, and an attempt repeats the one with its
        own number, if there is one.
        """
        self._reader = reader
        self._location = location
        self._run_id = run_id

    def describe(self) -> JSONObject:
        """Return the store's path or URL."""
        return {"kind": "replay", "name": "replay", "record": self._location, "run": self._run_id}

    async def play(self, session: AgentSession) -> AgentReport:
        """Make the recorded calls, without those that were withdrawn or that the machinery failed.

        Raises:
            AgentError: If no episode of the task is in the store.
        """
        record = await self._find(session)
        steps = await self._reader.steps(record.origin.episode_id)
        session.log.append(f"replays the episode {record.origin.episode_id}")
        for step in repeatable_steps(steps):
            if session.is_over:
                break
            await session.call(step.tool, step.arguments, model_turn=recorded_turn(step.metadata))
        return AgentReport()

    async def aclose(self) -> None:
        """Close the store."""
        await self._reader.aclose()

    async def _find(self, session: AgentSession) -> EpisodeRecord:
        labels = {} if self._run_id is None else {"run": self._run_id}
        filter_ = EpisodeFilter(
            environment=session.environment,
            split=session.split,
            index=session.index,
            labels=labels,
            closed=True,
        )
        records = await self._reader.page(filter_, limit=EPISODES_AT_ONCE)
        # An episode without steps is an attempt that failed at its start; repeating it would show nothing.
        chosen = _choose([record for record in records if record.summary.steps], session.attempt)
        if chosen is None:
            raise AgentError(
                f"{self._location} has no ended episode of task {session.index} of {session.environment!r}, "
                f"split {session.split!r}, so there is nothing to replay"
            )
        return chosen


def _choose(records: Sequence[EpisodeRecord], attempt: int) -> EpisodeRecord | None:
    # The same attempt number first, so that a replayed run repeats each attempt and not the newest one
    # several times.
    same = (record for record in records if record.origin.labels.get("attempt") == str(attempt))
    return next(same, records[0] if records else None)


OpenReader: TypeAlias = Callable[[str], Awaitable[RecordReader]]
BASELINES = ("oracle", "noop", "random")
KINDS = (
    "oracle, noop, random, replay:STORE, openai:MODEL, 'command: PROGRAM {url}', module:function, "
    "file.py:function"
)


async def choose_agent(spec: str, options: Mapping[str, Any], open_reader: OpenReader) -> EvaluationAgent:
    """Create the agent that `spec` names, as `KINDS` lists them.

    Raises:
        AgentSettingsError: If there is no such agent, or it has no such option.
    """
    kind, _, rest = spec.partition(":")
    match kind:
        case "openai":
            return ChatAgent(rest.strip(), ChatOptions.of(options))
        case "replay":
            settings = _only(spec, options, {"run": str})
            return ReplayAgent(await open_reader(rest), rest, settings.get("run"))
        case "command":
            return CommandAgent(
                rest, **_only(spec, options, {"name": str, "grace": (int, float), "variables": str})
            )
        case _ if rest:
            function = find_callable(spec)
            return CallableAgent(function, spec, options, source_of(function))
        case _:
            return _baseline(spec, options)


def _baseline(spec: str, options: Mapping[str, Any]) -> EvaluationAgent:
    match spec:
        case "oracle":
            _only(spec, options, {})
            return OracleAgent()
        case "noop":
            _only(spec, options, {})
            return NoopAgent()
        case "random":
            return RandomAgent(**_only(spec, options, {"steps": int}))
        case _:
            if spec.endswith(".py"):
                raise AgentSettingsError(
                    f"{spec!r} names a file without its function: write {spec}:FUNCTION, such as {spec}:solve"
                )
            near = get_close_matches(spec, BASELINES, n=1)
            hint = f"did you mean {near[0]!r}? Expected" if near else "expected"
            raise AgentSettingsError(f"unknown agent {spec!r}: {hint} one of {KINDS}")


def _only(spec: str, options: Mapping[str, Any], types: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in options.items():
        if name not in types:
            takes = ", ".join(types) or "no options"
            raise AgentSettingsError(f"the agent {spec.partition(':')[0]} takes {takes}, got {name!r}")
        # In Python `True` is an int, so that `steps=true` would mean one step.
        if not isinstance(value, types[name]) or isinstance(value, bool):
            raise AgentSettingsError(f"the option {name!r} has the wrong type: {value!r}")
    return dict(options)
