"""BFCL's multi-turn tasks: a scripted user, simulated services as tools, and BFCL's own checks of each turn.

The services run in a worker process for each session: they change settings of the whole process, and an agent
chooses how long they compute.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from ors_server.adapters.worker_package import WorkerPackage
from ors_server.environments.environment import Environment, TaskTool
from ors_server.environments.sources import Source, served_name
from ors_server.environments.tool import tool, tool_from_schema
from ors_server.model.policy import EpisodePolicy
from ors_server.model.wire import JSONObject, Split, ToolOutput

CATEGORIES = ("multi_turn_base", "multi_turn_long_context", "multi_turn_miss_param")
"""Categories whose tools are the same in every turn; `multi_turn_miss_func` adds tools in the middle."""
STEP_LIMIT = 200
"""Calls of an episode. BFCL stops a model after 20 steps in one turn; tasks have up to seven turns."""
MAX_WORKERS = 48
_HELP = """\
Help the user with the tools. Call reply when you are done with a request, or need to know something: it \
sends your message, and returns the user's next one. The user sees only what you reply."""

PACKAGE = WorkerPackage(
    distribution="bfcl-eval",
    version="2026.3.23",
    variable="ORS_BFCL_PYTHON",
    program="bfcl_program.py:BfclSession",
    options="--no-deps",
)


class BfclConversation(Environment):
    """A user's requests, turn by turn; the reward is 1 if services and results are right after every turn."""

    policy = EpisodePolicy(step_limit=STEP_LIMIT, reward_range=(0.0, 1.0))
    return_range = (0.0, 1.0)
    prompts_may_repeat: ClassVar[bool] = True
    """The prompt is only the first request: two conversations may begin alike and continue differently."""
    category: ClassVar[str]
    tasks: ClassVar[Sequence[JSONObject]]
    """Each with `id`, `turns`, `solution` (calls by turn) and `classes`, in BFCL's order."""
    tools: ClassVar[Mapping[str, Sequence[JSONObject]]]
    """Tools of each class: name, description, JSON Schema."""

    def __init__(self, task_spec: JSONObject, secrets: Mapping[str, str] | None = None) -> None:
        """Find the task; ValueError if it is not one of this category's."""
        super().__init__(task_spec, secrets)
        self._index, self._task = self._find(task_spec)
        self._turn = 0
        self._calls: list[tuple[str, JSONObject]] = []
        self._worker: Any = None

    @override
    @classmethod
    def list_splits(cls) -> list[Split]:
        return [Split(name="test", type="test")]

    @override
    @classmethod
    def list_tasks(cls, split: str) -> list[JSONObject]:
        return [
            {"id": task["id"], "turns": task["turns"], "solution": task["solution"]} for task in cls.tasks
        ]

    @classmethod
    def gold_actions(cls, task_spec: JSONObject) -> list[tuple[str, JSONObject]]:
        """Return the calls of the reference solution, with a reply after each turn."""
        _, task = cls._find(task_spec)
        actions: list[tuple[str, JSONObject]] = []
        for turn in task["solution"]:
            actions += [(name, arguments) for name, arguments in turn]
            actions.append(("reply", {"message": "Done."}))
        return actions

    @classmethod
    def blank_actions(cls, task_spec: JSONObject) -> list[tuple[str, JSONObject]]:
        """Return a reply to every turn, without a call."""
        _, task = cls._find(task_spec)
        return [("reply", {"message": "No."})] * len(task["turns"])

    @override
    async def setup(self) -> None:
        await self._begin([])

    @override
    def get_prompt(self) -> str:
        return f"{self._task['turns'][0]}\n\n{_HELP}"

    @override
    def list_task_tools(self) -> list[TaskTool]:
        return [
            tool_from_schema(_caller(schema["name"]), **schema)
            for name in self._task["classes"]
            for schema in self.tools[name]
        ]

    @override
    def save_state(self) -> JSONObject:
        # The services cannot be copied: the state is the calls, which are made again in a fresh worker.
        return {"calls": [list(call) for call in self._calls], "turn": self._turn}

    @override
    async def load_state(self, state: JSONObject) -> None:
        await self._begin(state["calls"])
        self._calls = [(name, arguments) for name, arguments in state["calls"]]
        self._turn = state["turn"]

    async def call_service(self, name: str, arguments: JSONObject) -> ToolOutput:
        """Call a method of the services."""
        text = await self._worker.call(name, arguments)
        self._calls.append((name, arguments))
        return ToolOutput.ongoing(text)

    @tool
    async def reply(self, message: str) -> ToolOutput:
        """Send a message to the user, which ends your turn, and return the user's next message.

        Args:
            message: What the user reads.
        """
        verdict = await self._worker.end_turn()
        self._calls.append(("reply", {"message": message}))
        self._turn = verdict["turn"]
        if verdict["is_over"]:
            return ToolOutput.final("The conversation is over.", reward=float(verdict["is_right"]))
        return ToolOutput.ongoing(self._task["turns"][self._turn])

    async def _begin(self, calls: Sequence[Any]) -> None:
        """Start the task in the session's worker, and repeat earlier calls."""
        if self._worker is None:
            # Global, so that workers are shared by sessions in turn: starting one imports the package, which
            # takes seconds.
            spec = PACKAGE.spec({"category": self.category}, max_global_num=MAX_WORKERS)
            self._worker = await self.context.acquire_resource(spec=spec, scope="global")
        await self._worker.begin(self._index, calls)

    @classmethod
    def _find(cls, task_spec: JSONObject) -> tuple[int, JSONObject]:
        for index, task in enumerate(cls.tasks):
            if task["id"] == task_spec.get("id"):
                return index, task
        raise ValueError(
            f"expected the id of a task of bfcl/{cls.category}, such as {cls.tasks[0]['id']!r}, "
            f"got {task_spec.get('id')!r:.80}"
        )


def from_bfcl(category: str = "multi_turn_base") -> type[BfclConversation]:
    """Make the environment of a category of BFCL.

    Raises:
        EnvironmentDefinitionError: If bfcl-eval is not installed, or another version.
    """
    SOURCE.check_installed()
    tasks, tools = PACKAGE.ask({"category": category}, "list_tasks", "list_tools")
    members = {
        "__doc__": BfclConversation.__doc__,
        "__module__": __name__,
        "name": served_name("bfcl", category),
        "version": f"{PACKAGE.version}-1",
        "category": category,
        "tasks": tasks,
        "tools": tools,
    }
    return type("BfclTasks", (BfclConversation,), members)


def _caller(name: str) -> Callable[..., Any]:
    async def call(self: BfclConversation, arguments: JSONObject) -> ToolOutput:
        return await self.call_service(name, arguments)

    return call


SOURCE = Source(
    name="bfcl",
    requires=(PACKAGE.requirement,),
    licence="Apache-2.0",
    homepage="https://github.com/ShishirPatil/gorilla",
    list_names=lambda: CATEGORIES,
    make=from_bfcl,
    install=f"pip install --no-deps {PACKAGE.requirement}",
    find_version=PACKAGE.find_version,
)
"""BFCL, for the command line."""
