"""Creates the agent that the command line names."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from ors_server.evaluation.agents.base import AgentSettingsError, EvaluationAgent
from ors_server.evaluation.agents.baselines import NoopAgent, OracleAgent, RandomAgent
from ors_server.evaluation.agents.callable_agent import CallableAgent, find_callable
from ors_server.evaluation.agents.chat_agent import ChatAgent, ChatOptions
from ors_server.evaluation.agents.command_agent import CommandAgent
from ors_server.evaluation.agents.replay_agent import ReplayAgent
from ors_server.store.base import RecordReader

OpenReader: TypeAlias = Callable[[str], Awaitable[RecordReader]]
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
            known = _only(spec, options, {"run": str})
            return ReplayAgent(await open_reader(rest), rest, known.get("run"))
        case "command":
            return CommandAgent(
                rest, **_only(spec, options, {"name": str, "grace": (int, float), "variables": str})
            )
        case _ if rest:
            return CallableAgent(find_callable(spec), spec, options)
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
            raise AgentSettingsError(f"there is no agent {spec!r}; expected one of {KINDS}")


def _only(spec: str, options: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in options.items():
        if name not in known:
            takes = ", ".join(known) or "no options"
            raise AgentSettingsError(f"the agent {spec.partition(':')[0]} takes {takes}, not {name!r}")
        if not isinstance(value, known[name]) or isinstance(value, bool):
            raise AgentSettingsError(f"the option {name!r} has the wrong type: {value!r}")
    return dict(options)
