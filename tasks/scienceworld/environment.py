"""The environment: an elementary-school science task in a text world, played action by action."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from ors_server import (
    EpisodePolicy,
    IndexedTasks,
    JSONObject,
    ScienceWorldSpec,
    Split,
    ToolError,
    ToolOutput,
    Toolset,
    tool,
)
from ors_server.resources import LocalEnvResourceSpec, ResourceError
from ors_server_tasks.scienceworld.catalogue import (
    SCIENCEWORLD_VERSION,
    check_variation,
    gold_paths,
    list_variations,
)
from ors_server_tasks.scienceworld.game import Opening, ScienceWorldGame, Turn, find_package

TOOL = "scienceworld_explorer"
ACTION_LENGTH = 200
"""Longest action, in characters; the longest of a recorded path has fewer than 100."""
ACQUIRE_TIMEOUT = 1_500.0
"""Seconds that a session waits for a game."""
_FULL_SCORE = 100
_DIGEST_LENGTH = 16
_AMBIGUOUS = "Ambiguous request"
"""How the game begins when it numbers the possibilities of an action."""
_MIB = 1 << 20


class ValidActions(Toolset):
    """Lists the actions that are valid now: an option of a session."""

    @tool
    async def scienceworld_valid_actions(self) -> str:
        """List the actions that are possible now, one per line. This is not an action itself."""
        return await self.environment.list_valid_actions()  # type: ignore[no-any-return]


class ScienceWorld(IndexedTasks):
    """30 science tasks of ScienceWorld in 7,207 variations; the return is the best score, in [0, 1].

    A subclass may have other `simplifications`, or a `reward` such as `scienceworld_reward`, which then pays
    at the end of the task instead of the scores; its range belongs into the policy.
    """

    name = "scienceworld"
    version = f"{SCIENCEWORLD_VERSION}.1"
    """The version of the package, and that of the prompt and the tool's texts."""
    policy = EpisodePolicy(step_limit=200, reward_range=(0.0, 1.0), setup_time_limit=1800.0)
    prompts_may_repeat: ClassVar[bool] = True
    """ScienceWorld's splits have variations with the same prompt, which differ in what the house holds."""
    session_toolsets: ClassVar[Mapping[str, type[Toolset] | str]] = {"valid_actions": ValidActions}
    simplifications: ClassVar[str] = "easy"
    """ScienceWorld's, separated by commas; the recorded gold paths are for `easy`."""
    max_games: ClassVar[int] = 8
    """Most JVMs at once; further sessions wait for one in their setup."""
    heap_mib: ClassVar[int] = 128
    """Maximum number of mebibytes of a JVM's heap; it takes about 90 more."""
    action_timeout: ClassVar[float] = 60.0
    """Seconds that an action may take before its JVM is killed."""

    def __init__(self, task_spec: JSONObject, secrets: Mapping[str, str] | None = None) -> None:
        """Check the task.

        Raises:
            ValueError: There is no such task, or no such variation.
        """
        super().__init__(task_spec, secrets)
        self._variation = check_variation(task_spec.get("task_name"), task_spec.get("variation_idx"))
        self._history: list[tuple[str, str]] = []
        self._paid = 0.0
        self._opening: Opening | None = None
        self._is_open = False

    @override
    @classmethod
    def list_splits(cls) -> list[Split]:
        """Return the splits; raises `MissingRequirementError` without Java or the package."""
        find_package()
        return [
            Split(name="train", type="train"),
            Split(name="validation", type="validation"),
            Split(name="test", type="test"),
        ]

    @override
    @classmethod
    def num_tasks(cls, split: str) -> int:
        return len(list_variations(split))

    @override
    @classmethod
    def make_task(cls, split: str, index: int) -> JSONObject:
        task, variation = list_variations(split)[index]
        return {"id": f"scienceworld/{task}/{variation}", "task_name": task, "variation_idx": variation}

    @classmethod
    def gold_actions(cls, task_spec: JSONObject) -> Sequence[tuple[str, dict[str, Any]]] | None:
        """Return tool calls, as (name, arguments) in order, that reach the full score, if recorded."""
        variation = check_variation(task_spec.get("task_name"), task_spec.get("variation_idx"))
        path = gold_paths().get(variation) if cls.simplifications == "easy" else None
        return None if path is None else [(TOOL, {"action": action}) for action in path]

    @classmethod
    def blank_actions(cls, task_spec: JSONObject) -> Sequence[tuple[str, dict[str, Any]]]:
        """Return tool calls, as (name, arguments) in order, that do no work and earn the least return."""
        del task_spec  # looking changes nothing anywhere
        return [(TOOL, {"action": "look around"})]

    @override
    async def setup(self) -> None:
        self.context.bind_resource(ScienceWorldSpec, self._spec())
        await self._open_game()

    @override
    def get_prompt(self) -> str:
        opening = self._opening
        if opening is None:
            raise RuntimeError("the prompt comes from the game, so it is known after setup")
        return (
            f"{opening.task}\n\n"
            "You act in a house with a garden, by one action in words at a time, with the tool "
            f"{TOOL}. The forms of actions are: {'; '.join(opening.forms)}. OBJ is an object or a place "
            "that you see. Focus only on what the task tells you to focus on: to focus on anything "
            "else ends the task without success. If an action is ambiguous, the game numbers the "
            f"possibilities; answer with the number alone.\n\n{opening.look}"
        )

    @tool(name=TOOL)
    async def explore(self, action: str) -> ToolOutput:
        """Play one action in the world, such as: look around, open door to kitchen, focus on thermometer.

        Args:
            action: The action in words; at most 200 characters on one line.
        """
        if not action.strip() or not action.isprintable() or len(action) > ACTION_LENGTH:
            raise ToolError(f"An action is one line of 1 to {ACTION_LENGTH} printable characters.")
        turn = await self._play(action.strip())
        self._history.append((action.strip(), _digest(turn.observation)))
        return self._output(turn)

    async def list_valid_actions(self) -> str:
        """Return the actions that are possible now, one per line."""
        actions = await self._recovered("list_valid_actions")
        return "\n".join(actions)

    @override
    def save_state(self) -> JSONObject:
        return {"actions": [list(entry) for entry in self._history], "paid": self._paid}

    @override
    async def load_state(self, state: JSONObject) -> None:
        """Play the actions of the state again, in a game of this session's own; what was paid stays paid."""
        self._history = [(action, digest) for action, digest in state["actions"]]
        self._paid = max(self._paid, state["paid"])
        await self.setup()

    def _spec(self) -> LocalEnvResourceSpec:
        """Return the spec of the games of this class."""
        return LocalEnvResourceSpec(
            ScienceWorldGame,
            {
                "simplifications": self.simplifications,
                "heap_mib": self.heap_mib,
                "call_timeout": self.action_timeout,
            },
            category="scienceworld",
            max_global_num=self.max_games,
            start_timeout=300.0,
            max_uses=500,
            memory_limit=4 * self.heap_mib * _MIB,
        )

    async def _open_game(self) -> None:
        """Take a game, load the task, and play the actions so far, which must come to the same."""
        self._is_open = False
        game = await self._acquire_game()
        self._opening = await game.reset(*self._variation)
        for number, (action, digest) in enumerate(self._history, 1):
            turn: Turn = await game.act(action)
            if _digest(turn.observation) != digest:
                raise ResourceError(
                    f"a game of ScienceWorld that was replaced answers differently to action {number}, "
                    f"{action!r}: the episode cannot continue; create a new session"
                )
        self._is_open = True

    async def _play(self, action: str) -> Turn:
        turn: Turn = await self._recovered("act", action)
        return turn

    async def _recovered(self, method: str, *arguments: Any) -> Any:
        """Call a method of the game; if the game is lost, do so in another one that was played as far."""
        if self._is_open:
            try:
                return await (await self._acquire_game()).control(method, *arguments)
            except ResourceError:
                self._is_open = False
                await self.context.end_resource("global", spec=ScienceWorldSpec)
        await self._open_game()
        return await (await self._acquire_game()).control(method, *arguments)

    async def _acquire_game(self) -> Any:
        return await self.context.acquire_resource(
            spec=ScienceWorldSpec, scope="global", timeout=ACQUIRE_TIMEOUT
        )

    def _output(self, turn: Turn) -> ToolOutput:
        """Return a turn with what it adds to the best score; nothing if the class has its own reward."""
        earned = None
        if type(self).reward is None:
            earned = max(turn.score - self._paid, 0.0)
            self._paid += earned
        metadata: JSONObject = {"score": round(_FULL_SCORE * turn.score)}
        if turn.is_over:
            return ToolOutput.final(turn.observation, reward=earned, metadata=metadata)
        return ToolOutput.ongoing(turn.observation, reward=earned, metadata=metadata)


def _digest(observation: str) -> str:
    """Return a digest of the words, in any order: games list the objects of a place in an order of their own.

    The order of numbered possibilities counts, because the agent's answer is a number.
    """
    words = observation.split()
    if not observation.startswith(_AMBIGUOUS):
        words.sort()
    return hashlib.sha256(" ".join(words).encode()).hexdigest()[:_DIGEST_LENGTH]
