"""Environments whose tasks are a prompt and an answer, which another package scores in a worker process."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

from typing_extensions import override

from ors_server.adapters.worker_package import WorkerPackage
from ors_server.authoring.environment import Environment
from ors_server.authoring.sources import Source, served_name
from ors_server.authoring.tool import ToolError, tool
from ors_server.errors import UnknownEnvironmentError
from ors_server.policy import EpisodePolicy
from ors_server.resources.resource_errors import ResourceCallError, ResourceError
from ors_server.wire import JSONObject, Message, Split, TextBlock, ToolOutput

STEP_LIMIT = 5
MOST_LETTERS = 200_000
"""Longest answer that is scored, in characters."""
WIDEST = (-1e6, 1e6)
"""Range of rewards: the package's scorers state none."""
MOST_COMPLAINT = 2000
"""Most characters of an error that is kept of a scorer that an answer broke."""
MOST_WORKERS = 4
SCORE_SECONDS = 120.0
"""Seconds that the scoring of one answer may take before its process is killed."""


class ScoredAnswer(Environment):
    """A question; `submit` takes the answer and ends the episode with the score of the package's scorers."""

    policy = EpisodePolicy(step_limit=STEP_LIMIT, reward_range=WIDEST)
    package: ClassVar[WorkerPackage]
    reference: ClassVar[str]
    """Where the package's task is, as the program of the package reads it."""
    tasks: ClassVar[Sequence[JSONObject]]
    """Each with `id`, `messages` (role, text), `choices` and `answer` (`None` if unknown)."""

    def __init__(self, task_spec: JSONObject, secrets: Mapping[str, str] | None = None) -> None:
        """Find the task; ValueError if it is not one of this environment's."""
        super().__init__(task_spec, secrets)
        self._place, self._found = self._find(task_spec)

    @override
    @classmethod
    def list_splits(cls) -> list[Split]:
        return [Split(name="test", type="test")]

    @override
    @classmethod
    def list_tasks(cls, split: str) -> list[JSONObject]:
        return [{"index": place, **task} for place, task in enumerate(cls.tasks)]

    @classmethod
    def gold_actions(cls, task_spec: JSONObject) -> list[tuple[str, JSONObject]] | None:
        """Return the submission of the task's answer; `None` if it is not known."""
        _, task = cls._find(task_spec)
        return None if task["answer"] is None else [("submit", {"answer": task["answer"]})]

    @classmethod
    def blank_actions(cls, task_spec: JSONObject) -> list[tuple[str, JSONObject]]:
        """Return an empty submission."""
        cls._find(task_spec)
        return [("submit", {"answer": ""})]

    @override
    def get_messages(self) -> list[Message]:
        said = [
            Message(role=each["role"], blocks=[TextBlock(text=each["text"])])
            for each in self._found["messages"]
        ]
        choices = self._found["choices"]
        listed = "".join(f"\n{chr(ord('A') + place)}) {text}" for place, text in enumerate(choices))
        wanted = "its letter, or the letters separated by commas" if choices else "the answer"
        help_text = f"{listed}\n\nCall submit with {wanted}; only the first submission counts.".strip("\n")
        return [*said, Message(role="user", blocks=[TextBlock(text=help_text)])]

    @override
    def save_state(self) -> JSONObject:
        return {}

    @override
    def load_state(self, state: JSONObject) -> None:
        del state  # the task is everything

    @tool
    async def submit(self, answer: str) -> ToolOutput:
        """Submit the answer, which ends the episode.

        Args:
            answer: The whole answer; at most 200,000 characters.
        """
        if len(answer) > MOST_LETTERS:
            raise ToolError(f"the answer has {len(answer):,} characters; at most {MOST_LETTERS:,} are scored")
        try:
            figures = await self._score(answer)
        except (ResourceCallError, ResourceError) as error:
            least = await self._blame(answer)
            if least is None:
                raise
            metadata: JSONObject = {"scores": {}, "broke_its_scorer": str(error)[:MOST_COMPLAINT]}
            return ToolOutput.final("Submitted.", reward=least, metadata=metadata)
        return ToolOutput.final("Submitted.", reward=_reward(figures), metadata={"scores": figures})

    async def _score(self, answer: str) -> dict[str, float | None]:
        spec = self.package.spec(
            {"reference": self.reference}, call_timeout=SCORE_SECONDS, max_global_num=MOST_WORKERS
        )
        worker = await self.context.acquire_resource(spec=spec, scope="global")
        try:
            scored = await worker.score(self._place, answer)
        finally:
            await self.context.release_resource(scope="global", spec=spec)
        return cast("dict[str, float | None]", scored["figures"])

    async def _blame(self, answer: str) -> float | None:
        """Return what an answer earns that breaks its scorer; `None` if the scorer is broken without it.

        The scorer must score an empty answer, and fail at this one again.
        """
        try:
            blank = _reward(await self._score(""))
        except (ResourceCallError, ResourceError):
            return None
        try:
            await self._score(answer)
        except (ResourceCallError, ResourceError):
            return min(0.0, blank or 0.0)
        return None

    @classmethod
    def _find(cls, task_spec: JSONObject) -> tuple[int, JSONObject]:
        place = task_spec.get("index")
        if (
            isinstance(place, int)
            and 0 <= place < len(cls.tasks)
            and cls.tasks[place]["id"] == task_spec.get("id")
        ):
            return place, cls.tasks[place]
        raise ValueError(
            f"expected index and id of a task of {cls.name}, which has {len(cls.tasks)}, "
            f"came {place!r:.80} and {task_spec.get('id')!r:.80}; use get_task"
        )


def _reward(figures: Mapping[str, float | None]) -> float | None:
    """Return the first figure; `None` for one that is not finite."""
    first = next(iter(figures.values()))
    return first if first is not None and math.isfinite(first) else None


def make_scored(source: Source, package: WorkerPackage, reference: str) -> type[ScoredAnswer]:
    """Make the environment of a package's task.

    Raises:
        UnknownEnvironmentError: If the reference names a file that does not exist.
        EnvironmentDefinitionError: If the package is not installed, or its task cannot be served.
    """
    source.check_installed()
    place = _absolute(source.name, reference)
    (tasks,) = package.ask({"reference": place}, "list_tasks")
    members: dict[str, Any] = {
        "__doc__": ScoredAnswer.__doc__,
        "__module__": __name__,
        "name": served_name(source.name, _short(reference)),
        "version": f"{package.version}-1",
        "package": package,
        "reference": place,
        "tasks": tasks,
    }
    return type("ScoredTasks", (ScoredAnswer,), members)


def _absolute(source: str, reference: str) -> str:
    """Return a reference whose file, if it has one, is absolute: workers start elsewhere."""
    file, colon, name = reference.partition(".py")
    if not colon and not reference.endswith(".py"):
        return reference
    path = Path(f"{file}.py").expanduser()
    if not path.is_file():
        raise UnknownEnvironmentError(
            f"{source}/{reference}: expected a Python file at {path}; there is none"
        )
    return f"{path.resolve()}{name}"


def _short(reference: str) -> str:
    """Return the file's name and the task's, without folders."""
    return reference.rpartition("/")[2].replace(".py", "")
