"""Environments whose tasks are a prompt and an answer, which another package scores in a worker process.

When a scorer raises, either the answer or the scorer may be at fault, and only the first may cost reward:

1. A failure that looks like an outage (`is_outage`) is retried, then raised: the step is ungraded.
2. Otherwise the answer is blamed only if it breaks the scorer `PROOFS` times in the same way, while an empty
   answer is scored each time in between (`_blame`). Then it earns what the empty answer earned, at most 0.
3. In every other case the error is raised.
"""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

from typing_extensions import override

from ors_server.adapters.worker_package import WorkerPackage
from ors_server.environments.environment import Environment
from ors_server.environments.episode_rewards import noting_judgement
from ors_server.environments.sources import Source, served_name
from ors_server.environments.tool import ToolError, tool
from ors_server.model.errors import UnknownEnvironmentError
from ors_server.model.policy import EpisodePolicy
from ors_server.model.trajectory import REWARD_REASON, REWARD_STATUS
from ors_server.model.wire import JSONObject, Message, Split, TextBlock, ToolOutput
from ors_server.resources.resource_errors import ResourceCallError

STEP_LIMIT = 5
MAX_LETTERS = 200_000
"""Longest answer that is scored, in characters."""
WIDEST = (-1e6, 1e6)
"""Range of rewards: the package's scorers state none."""
MAX_COMPLAINT = 2000
"""Maximum number of characters kept of the error of a scorer that an answer broke."""
MAX_WORKERS = 4
TRIES = 3
"""How often a scorer is called whose endpoint is not available."""
PROOFS = 4
"""Times that an answer must break its scorer in the same way, while an empty answer does not."""
_RAISED = re.compile(r"^([A-Za-z_][\w.]*)(?::|$)", re.MULTILINE)
"""Types of exceptions in a traceback, as Python writes them."""
_OUTAGE = re.compile(
    r"connect|timeout|timedout|http|socket|ssl|proxy|network|dns|gaierror|brokenpipe|incompleteread|endpoint"
    r"|ratelimit|toomany|quota|overload|throttl|unavailable|gateway|internalserver|apierror|apistatus|apiresponse"
    r"|authentication|permissiondenied|^OSError$|^IOError$|urlerror|protocolerror|pool|grpc|judge|retry",
    re.IGNORECASE,
)
"""Names of exceptions of networks, endpoints, time limits and pools."""
_NETWORK = re.compile(
    r"[/\\](?:openai|anthropic|litellm|google|boto3|botocore|httpx2?|httpcore2?|requests|urllib3|aiohttp|grpc"
    r"|tenacity|websockets|socket\.py|ssl\.py|http[/\\]client\.py|urllib[/\\]request\.py)\b"
)
"""Files of code that talks to other machines."""
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")

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
        self._index, self._task = self._find(task_spec)

    @override
    @classmethod
    def list_splits(cls) -> list[Split]:
        return [Split(name="test", type="test")]

    @override
    @classmethod
    def list_tasks(cls, split: str) -> list[JSONObject]:
        return [{"index": index, **task} for index, task in enumerate(cls.tasks)]

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
        messages = [
            Message(role=message["role"], blocks=[TextBlock(text=message["text"])])
            for message in self._task["messages"]
        ]
        choices = self._task["choices"]
        listed = "".join(f"\n{chr(ord('A') + index)}) {text}" for index, text in enumerate(choices))
        wanted = "its letter, or the letters separated by commas" if choices else "the answer"
        help_text = f"{listed}\n\nCall submit with {wanted}; only the first submission counts.".strip("\n")
        return [*messages, Message(role="user", blocks=[TextBlock(text=help_text)])]

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
        if len(answer) > MAX_LETTERS:
            raise ToolError(f"the answer has {len(answer):,} characters; at most {MAX_LETTERS:,} are scored")
        with noting_judgement(self):
            figures, complaint = await self._judge(answer)
        metadata: JSONObject = {"scores": figures}
        reward = _reward(figures)
        if complaint is not None:
            metadata["broke_its_scorer"] = complaint[:MAX_COMPLAINT]
        elif reward is None:
            metadata |= {REWARD_STATUS: "error", REWARD_REASON: "the scorers gave no finite number"}
        return ToolOutput.final("Submitted.", reward=reward, metadata=metadata)

    async def _judge(self, answer: str) -> tuple[dict[str, float | None], str | None]:
        """Return the figures; for an answer that breaks its scorer, also the scorer's error.

        A failure that does not depend on the answer is never the answer's fault: a scorer whose endpoint is
        not available is called again, and then the error is raised.

        Raises:
            ResourceError: If the worker failed or was too slow.
            ResourceCallError: If the scorer failed, and not because of the answer.
        """
        for number in range(1, TRIES + 1):
            try:
                return await self._score(answer), None
            except ResourceCallError as error:
                if not is_outage(error):
                    return await self._blame(answer, error), str(error)
                if number == TRIES:
                    raise
        raise AssertionError("the last try returned or raised")  # pragma: no cover

    async def _score(self, answer: str) -> dict[str, float | None]:
        spec = self.package.spec(
            {"reference": self.reference}, call_timeout=SCORE_SECONDS, max_global_num=MAX_WORKERS
        )
        # Acquired for one scoring only, so that a few workers serve all sessions.
        worker = await self.context.acquire_resource(spec=spec, scope="global")
        try:
            scored = await worker.score(self._index, answer)
        finally:
            await self.context.release_resource(scope="global", spec=spec)
        return cast("dict[str, float | None]", scored["figures"])

    async def _blame(self, answer: str, error: ResourceCallError) -> dict[str, float | None]:
        """Return the figures of an answer that breaks its scorer; raises if the scorer may be at fault.

        Several times in turn, the scorer must score an empty answer, and raise the same for this one.
        """
        blank: float | None = None
        for _ in range(PROOFS):
            blank = _reward(await self._score(""))
            try:
                figures = await self._score(answer)
            except ResourceCallError as repeated:
                if _cause(repeated) != _cause(error):
                    raise
            else:
                return figures
        return {"broke its scorer": min(0.0, blank or 0.0)}

    @classmethod
    def _find(cls, task_spec: JSONObject) -> tuple[int, JSONObject]:
        index = task_spec.get("index")
        if (
            isinstance(index, int)
            and 0 <= index < len(cls.tasks)
            and cls.tasks[index]["id"] == task_spec.get("id")
        ):
            return index, cls.tasks[index]
        raise ValueError(
            f"expected index and id of a task of {cls.name}, which has {len(cls.tasks)}, "
            f"got {index!r:.80} and {task_spec.get('id')!r:.80}; use get_task"
        )


def _reward(figures: Mapping[str, float | None]) -> float | None:
    """Return the first figure; `None` for one that is not finite."""
    first = next(iter(figures.values()))
    return first if first is not None and math.isfinite(first) else None


def is_outage(error: ResourceCallError) -> bool:
    """Return whether a scorer failed for a reason that no answer causes, such as a broken connection.

    The types of the exceptions and the code that they passed through decide, causes included.
    """
    raised = [error.kind, *_RAISED.findall(error.remote_traceback)]
    return any(_OUTAGE.search(name) for name in raised) or bool(_NETWORK.search(error.remote_traceback))


def _cause(error: ResourceCallError) -> tuple[str, str]:
    """Return what two failures for the same reason have in common."""
    # Addresses of objects differ from one failure to the next.
    return error.kind, _ADDRESS.sub("", str(error))


def make_scored(source: Source, package: WorkerPackage, reference: str) -> type[ScoredAnswer]:
    """Make the environment of a package's task.

    Raises:
        UnknownEnvironmentError: If the reference names a file that does not exist.
        EnvironmentDefinitionError: If the package is not installed, or its task cannot be served.
    """
    source.check_installed()
    location = _absolute(source.name, reference)
    (tasks,) = package.ask({"reference": location}, "list_tasks")
    members: dict[str, Any] = {
        "__doc__": ScoredAnswer.__doc__,
        "__module__": __name__,
        "name": served_name(source.name, _short(reference)),
        "version": f"{package.version}-1",
        "package": package,
        "reference": location,
        "tasks": tasks,
    }
    return type("ScoredTasks", (ScoredAnswer,), members)


def _absolute(source: str, reference: str) -> str:
    """Return a reference whose file, if it has one, is absolute: workers start elsewhere."""
    # A colon may follow the file, or nothing; without `.py` it is a module.
    file, colon, name = reference.partition(".py")
    if not colon and not reference.endswith(".py"):
        return reference
    path = Path(f"{file}.py").expanduser()
    if not path.is_file():
        raise UnknownEnvironmentError(
            f"{source}/{reference}: expected a Python file at {path}, which does not exist"
        )
    return f"{path.resolve()}{name}"


def _short(reference: str) -> str:
    """Return the file's name and the task's, without folders."""
    return reference.rpartition("/")[2].replace(".py", "")
