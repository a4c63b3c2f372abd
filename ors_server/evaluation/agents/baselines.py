"""Baselines that need no model: the best actions, no actions, random actions.

Draws random arguments that a JSON Schema allows; simple and bounded, not for every schema.
"""

import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, cast

from typing_extensions import override

from ors_server.evaluation.agent_session import AgentSession
from ors_server.evaluation.agents.base import AgentError, AgentReport, AgentSettingsError, InSessionAgent
from ors_server.evaluation.targets import Actions, Target
from ors_server.model.wire import JSONObject, TerminalToolSpec, ToolListing

MAX_DEPTH = 8
"""Levels of nesting below which only required parts are drawn, and the shortest lists."""
MAX_ITEMS = 3
MAX_TEXT_CHARACTERS = 12
"""Characters of a text, if the schema does not require more."""
MAX_MAGNITUDE = 100
"""Numbers are drawn from [-100, 100], as far as the schema allows."""
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789 .,-"

Schema = Mapping[str, Any]


def draw_arguments(schema: JSONObject | None, rng: Random) -> JSONObject:
    """Draw a tool's arguments: all required ones, and each optional one every other time."""
    if schema is None:
        return {}
    drawn = _ArgumentSource(rng, schema.get("$defs", {})).value({"type": "object", **schema}, 0)
    return cast("JSONObject", drawn) if isinstance(drawn, dict) else {}


class _ArgumentSource:
    def __init__(self, rng: Random, definitions: Schema) -> None:
        self._rng = rng
        self._definitions = definitions

    def value(self, schema: Schema, depth: int) -> Any:
        if "$ref" in schema:
            return self.value(self._definitions.get(schema["$ref"].rpartition("/")[2], {}), depth + 1)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._rng.choice(schema["enum"])
        for word in ("anyOf", "oneOf"):
            if word in schema:
                return self.value(self._one_of(schema[word], depth), depth + 1)
        if "allOf" in schema:
            return self.value(
                {name: part for subschema in schema["allOf"] for name, part in subschema.items()}, depth + 1
            )
        return self._of_type(schema, depth)

    def _one_of(self, choices: Sequence[Schema], depth: int) -> Schema:
        # Below the limit a recursive schema must end: choices without a reference cannot lead back to it.
        plain = [choice for choice in choices if "$ref" not in choice]
        return self._rng.choice(plain or choices) if depth > MAX_DEPTH else self._rng.choice(choices)

    def _of_type(self, schema: Schema, depth: int) -> Any:
        named: Any = schema.get("type", "object" if "properties" in schema else "string")
        kind: str = named if isinstance(named, str) else self._rng.choice(list(named))
        match kind:
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, depth)
            case "integer" | "number":
                return self._number(schema, whole=kind == "integer")
            case "boolean":
                return self._rng.random() < 1 / 2
            case "null":
                return None
            case _:
                return self._text(schema)

    def _object(self, schema: Schema, depth: int) -> JSONObject:
        parts: Schema = schema.get("properties", {})
        required = set(schema.get("required", ()))
        names = [
            name for name in parts if name in required or (depth <= MAX_DEPTH and self._rng.random() < 1 / 2)
        ]
        names += sorted(required - set(parts))
        return {name: self.value(parts.get(name, {}), depth + 1) for name in names}

    def _array(self, schema: Schema, depth: int) -> list[Any]:
        least = int(schema.get("minItems", 0))
        max_count = least if depth > MAX_DEPTH else int(schema.get("maxItems", max(least, MAX_ITEMS)))
        count = self._rng.randint(least, max(least, min(max_count, least + MAX_ITEMS)))
        return [self.value(schema.get("items", {}), depth + 1) for _ in range(count)]

    def _number(self, schema: Schema, *, whole: bool) -> int | float:
        # Exclusive bounds are moved inwards: by 1 for integers, by a small margin for other numbers.
        low, high = _bounds(schema, whole=whole)
        if not whole:
            return low + (high - low) * self._rng.random()
        step = max(1, int(schema.get("multipleOf", 1)))
        first, last = math.ceil(low / step), math.floor(high / step)
        return self._rng.randint(first, max(first, last)) * step

    def _text(self, schema: Schema) -> str:
        least = int(schema.get("minLength", 0))
        max_length = int(schema.get("maxLength", max(least, MAX_TEXT_CHARACTERS)))
        length = self._rng.randint(least, max(least, min(max_length, least + MAX_TEXT_CHARACTERS)))
        return "".join(self._rng.choices(LETTERS, k=length))


def _bounds(schema: Schema, *, whole: bool) -> tuple[float, float]:
    margin = 1 if whole else 1e-9
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is None and "exclusiveMinimum" in schema:
        low = schema["exclusiveMinimum"] + margin
    if high is None and "exclusiveMaximum" in schema:
        high = schema["exclusiveMaximum"] - margin
    if low is None:
        low = -MAX_MAGNITUDE if high is None else min(-MAX_MAGNITUDE, high - MAX_MAGNITUDE)
    if high is None:
        high = max(MAX_MAGNITUDE, low + MAX_MAGNITUDE)
    return low, high


GOLD = "gold_actions"
BLANK = "blank_actions"
RANDOM_STEPS = 10
"""Maximum number of calls of the random agent by default."""


class _Baseline(InSessionAgent):
    """The base of the baselines."""

    kind = ""

    def describe(self) -> JSONObject:
        """Return the baseline's name."""
        return {"kind": self.kind, "name": self.kind}


class OracleAgent(_Baseline):
    """Makes the calls of `gold_actions` of the environment's class, which earn the most."""

    kind = "oracle"

    async def check(self, target: Target) -> None:
        """Raise `AgentSettingsError` if the gold actions are not known here."""
        if not target.knows_actions(GOLD):
            raise AgentSettingsError(self._lack(target.environment, target.name))

    def _lack(self, environment: str, name: str, index: int | None = None) -> str:
        if name.startswith(("http://", "https://")):
            return (
                f"the oracle agent plays environments of this process, and {name} is a server, which does "
                f"not send its gold actions: evaluate the environment by its name, module or path"
            )
        if index is not None:
            return f"`{GOLD}(task_spec)` of {environment} has no actions for the task with the index {index}"
        return f"the oracle agent needs `{GOLD}(task_spec)`, and {environment} does not define it"

    async def play(self, session: AgentSession) -> AgentReport:
        """Make the gold calls; raises `AgentError` if they are not known here."""
        actions = await session.known_actions(GOLD)
        if actions is None:
            raise AgentError(self._lack(session.environment, session.target_name, session.index))
        return await make_calls(session, actions)


class NoopAgent(_Baseline):
    """Does no work.

    It makes the calls of the class's `blank_actions`, such as a blank submission. Without that method it
    sends an empty message to the terminal tool; without such a tool it makes no call.
    """

    kind = "noop"

    async def play(self, session: AgentSession) -> AgentReport:
        """Do no work."""
        actions = await session.known_actions(BLANK)
        if actions is None:
            last = (await session.tools()).terminal_tool
            actions = [] if last is None else [(last.name, final_message(last, ""))]
        return await make_calls(session, actions)


class RandomAgent(_Baseline):
    """Calls random tools with random arguments that their schemas allow, drawn from the attempt's seed."""

    kind = "random"

    def __init__(self, steps: int = RANDOM_STEPS) -> None:
        """Set the most calls; raises `AgentSettingsError` if that is less than 1."""
        if steps < 1:
            raise AgentSettingsError(f"the random agent must make at least 1 call, got {steps}")
        self._steps = steps

    @override
    def describe(self) -> JSONObject:
        return {**super().describe(), "steps": self._steps}

    async def play(self, session: AgentSession) -> AgentReport:
        """Play random tools with random arguments."""
        rng, listing = session.rng, await session.tools()
        for _ in range(self._steps):
            action = _draw(listing, rng)
            if action is None or session.is_over:
                break
            await session.call(*action)
        return AgentReport()


async def make_calls(
    session: AgentSession, actions: Actions | Sequence[tuple[str, JSONObject]]
) -> AgentReport:
    """Make calls in order until the episode is over."""
    for tool, arguments in actions:
        if session.is_over:
            break
        await session.call(tool, arguments)
    return AgentReport()


def final_message(tool: TerminalToolSpec, text: str) -> JSONObject:
    """Return the arguments with which a terminal tool receives an agent's last message."""
    return {} if tool.arg is None else {tool.arg: text}


def _draw(listing: ToolListing, rng: Random) -> tuple[str, JSONObject] | None:
    # A terminal tool takes part in the draw, so that random play ends episodes, too.
    choices = [(tool.name, tool.input_schema) for tool in listing.tools]
    if listing.terminal_tool is not None:
        last = listing.terminal_tool
        part = final_message(last, "")
        schema = {"properties": {name: {"type": "string"} for name in part}, "required": list(part)}
        choices.append((last.name, {"type": "object", **schema}))
    if not choices:
        return None
    name, schema_or_none = rng.choice(choices)
    return name, draw_arguments(schema_or_none, rng)
