"""The class of a declared environment, which everything else sees as any author's class."""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, cast

from typing_extensions import override

from ors_server.environments.boundary import describe_authors
from ors_server.environments.declared.declaration import Declaration, SplitType, split_type
from ors_server.environments.declared.declared_rewards import (
    OF_THE_EPISODE,
    DeclaredReward,
    WeightedRewards,
    declared_fields,
    judges_text_alone,
    make_reward,
)
from ors_server.environments.declared.declared_tasks import ANSWER, TaskMaker
from ors_server.environments.declared.declared_user import declared_make_user
from ors_server.environments.declared.images import read_image
from ors_server.environments.declared.row_faults import RowFaultError, show_value
from ors_server.environments.declared.rows.choose_source import choose_source
from ors_server.environments.declared.rows.hugging_face import PREFIX, list_hub_splits, parse_address
from ors_server.environments.declared.rows.index_process import make_elsewhere
from ors_server.environments.declared.rows.index_summary import IndexSummary
from ors_server.environments.declared.rows.row_index import IndexRequest, RowIndex
from ors_server.environments.declared.rows.row_source import RowReader
from ors_server.environments.declared.rows.shards import split_named
from ors_server.environments.environment import Environment, Prompt
from ors_server.environments.episode_rewards import FIELDS_MARK
from ors_server.environments.tool import Toolset
from ors_server.environments.toolset_names import find_toolset
from ors_server.environments.toolsets.sandboxed import SandboxToolset
from ors_server.files.importing import import_file
from ors_server.model.errors import DeclarationError, EnvironmentDefinitionError
from ors_server.model.policy import EpisodePolicy
from ors_server.model.wire import JSONObject, Split
from ors_server.processes.offload import FunctionPath
from ors_server.rewards.result import RewardResult, RewardStatus
from ors_server.rewards.scoring import PROMPT, score

EDITION = "1"
"""Changes whenever the same declaration and data give other tasks or prompts than before."""
SUBMIT = "submit"
USER = "user"
VERSION_DIGITS = 16
MAX_JUDGED = 100
"""First rows of which each answer is judged in every case, and most shapes of answers after them."""
JUDGING_SECONDS = 10.0
"""Time in which the answers of further rows are judged when an index is made."""


@dataclass(frozen=True)
class DeclaredData:
    """The data behind the class of a declared environment."""

    maker: TaskMaker
    judge: "AnswerJudge"
    indices: Mapping[str, RowIndex]
    """By split, in order."""
    folder: str
    blank: str


class DeclaredEnvironment(Environment):
    """Base of the classes of declared environments."""

    _declared: ClassVar[DeclaredData]
    _split_types: ClassVar[Mapping[str, SplitType]] = {}
    __ors_fields__: ClassVar[frozenset[str]] = frozenset()
    """Fields of a task that the declaration makes for its rewards, in addition to those of the row."""
    hidden_files: ClassVar[Sequence[Path]] = ()
    """Files with answers, which no sandbox shows."""
    watched_files: ClassVar[Sequence[Path]] = ()
    """Files of data, whose change makes `serve --reload` reload the environment."""

    @classmethod
    def row_indices(cls) -> list[RowIndex]:
        """Return the index of each split."""
        return list(cls._declared.indices.values())

    @override
    @classmethod
    def list_splits(cls) -> list[Split]:
        return [Split(name=name, type=kind) for name, kind in cls._split_types.items()]

    @override
    @classmethod
    def num_tasks(cls, split: str) -> int:
        return len(cls._declared.indices[split])

    @override
    @classmethod
    def get_task(cls, split: str, index: int) -> JSONObject:
        rows = cls._declared.indices[split]
        number = index + len(rows) if index < 0 else index
        return cls._declared.maker.make(rows.read(number), split, number)

    @override
    @classmethod
    def get_task_range(
        cls, split: str, start: int | None = None, stop: int | None = None
    ) -> list[JSONObject]:
        return [
            cls.get_task(split, index) for index in range(*slice(start, stop).indices(cls.num_tasks(split)))
        ]

    @classmethod
    def gold_actions(cls, task_spec: JSONObject) -> list[tuple[str, dict[str, Any]]] | None:
        """Return tool calls that earn the most; `None` if the task has no answer."""
        maker = cls._declared.maker
        gold, written = cls._declared.judge.best_gold(task_spec), maker.gold_files(task_spec)
        if gold is None and not written:
            return None
        files = [("create", {"path": path, "content": content}) for path, content in written.items()]
        return [*files, (SUBMIT, {} if gold is None else {"answer": gold})]

    @classmethod
    def shown_at_start(cls, task_spec: JSONObject) -> JSONObject:
        """Return everything that an agent sees at the start or later meets, as JSON, to compare tasks.

        Raises:
            ValueError: If it cannot be made of the task.
        """
        maker = cls._declared.maker
        try:
            return {
                "prompt": maker.prompt(task_spec),
                "images": maker.images(task_spec),
                "files": maker.files(task_spec),
                "user": None if maker.user is None else repr(maker.user.script(task_spec)),
            }
        except RowFaultError as fault:
            raise ValueError(f"the task is not one of this environment's: {fault}") from fault

    @classmethod
    def blank_actions(cls, task_spec: JSONObject) -> list[tuple[str, dict[str, Any]]]:
        """Return tool calls that do no work."""
        del task_spec  # the same for every task
        return [(SUBMIT, {"answer": cls._declared.blank})]

    @override
    async def setup(self) -> None:
        for path, content in self._declared.maker.files(self.task_spec).items():
            await self.sandbox.write_file(path, content.encode())

    @override
    def save_state(self) -> JSONObject:
        return {}

    @override
    def load_state(self, state: JSONObject) -> None:
        """Restore nothing: an instance has no state except the task's."""

    @override
    def get_prompt(self) -> Prompt:
        declared = self._declared
        try:
            text = declared.maker.prompt(self.task_spec)
            images = [
                read_image(value, declared.folder, "images")
                for value in declared.maker.images(self.task_spec)
            ]
        except RowFaultError as fault:
            raise ValueError(f"the task is not one of this environment's: {fault}") from fault
        return [text, *images] if images else text


def declare(declaration: Declaration, folder: Path, *, name: str, location: str) -> type[DeclaredEnvironment]:
    """Return the class of a declared environment; its rows are indexed first if they never were.

    Args:
        folder: Where relative paths start.
        name: The environment's name, if the declaration does not set one.
        location: What errors name.

    Raises:
        EnvironmentDefinitionError: If the declaration or its data breaks a rule; `BadRowsError` for rows.
    """
    try:
        return _Declared(declaration, folder, name).make()
    except EnvironmentDefinitionError as error:
        if not str(error).startswith((location, str(Path(location).resolve()))):
            error.args = (f"{location}: {error}", *error.args[1:])
        raise


@dataclass(frozen=True)
class IndexJob:
    """An index that another process makes."""

    declaration: Declaration
    folder: Path
    name: str
    split: str
    data: str


def make_index(job: IndexJob) -> IndexSummary:
    """Make the index of a split in this process; raises what `IndexRequest.make` does."""
    source = choose_source(job.data, job.folder, job.declaration.records)
    return _Declared(job.declaration, job.folder, job.name).request_index(source, job.split).make()


_MAKE_INDEX = FunctionPath(f"{__name__}:{make_index.__name__}")


class _Declared:
    """Everything that the class of a declaration needs."""

    def __init__(self, declaration: Declaration, folder: Path, name: str) -> None:
        self._declaration = declaration
        self._folder = folder
        self._name = declaration.name or name
        if not declaration.prompt:
            raise DeclarationError(
                'prompt: expected a field or a template, such as prompt = "question" or --prompt question'
            )
        if USER in declaration.toolsets and declaration.user is None:
            raise EnvironmentDefinitionError(
                "user: expected a table [user] with goal, facts, refusals or answers, because toolsets has "
                "'user'; add it"
            )
        own = () if declaration.user is None else (USER,)
        toolsets = (*(item for item in declaration.toolsets if item not in {SUBMIT, USER}), *own, SUBMIT)
        self._toolsets = tuple(_find_declared_toolset(item, folder) for item in toolsets)
        # The Python files that the declaration names, for its rewards and tools.
        items = [*(reward.name for reward in declaration.reward), *declaration.toolsets]
        modules = (item.rpartition(":")[0] for item in items)
        self._code = sorted({folder / module for module in modules if module.endswith(".py")})
        states_sandbox = declaration.sandbox is not None or declaration.sandbox_image is not None
        has_sandbox = states_sandbox or any(
            issubclass(find_toolset(item, "toolsets"), SandboxToolset) for item in self._toolsets
        )
        if declaration.files and not has_sandbox:
            raise EnvironmentDefinitionError(
                'files: expected a toolset with a sandbox, whose work dir has them; add toolsets = ["bash"]'
            )
        self._reward = make_reward(declaration, folder, has_sandbox=has_sandbox)
        self._maker = TaskMaker(declaration, str(folder))
        self._judge = AnswerJudge(self._maker, self._reward, declared_fields(declaration), declaration.blank)

    def make(self) -> type[DeclaredEnvironment]:
        declaration = self._declaration
        splits = _expand_splits(declaration)
        sources = ", ".join(data for data, _ in splits.values())
        indices = {name: self._open(name, data) for name, (data, _) in splits.items()}
        body: dict[str, Any] = {
            "__doc__": declaration.description or f"Tasks of {sources}.",
            "__module__": DeclaredEnvironment.__module__,
            "name": self._name,
            "version": self._version(indices),
            "policy": self._policy(),
            "visibility": declaration.visibility,
            "toolsets": self._toolsets,
            "sandbox_limits": declaration.sandbox,
            "sandbox_image": declaration.sandbox_image,
            "sandbox_network": declaration.sandbox_network,
            "return_range": declaration.return_range,
            "reward": self._reward,
            FIELDS_MARK: declared_fields(declaration),
            "hidden_files": tuple(path for index in indices.values() for path in index.files),
            "watched_files": (
                *(path for index in indices.values() for path in index.source_files),
                *self._code,
            ),
            "_split_types": {name: kind for name, (_, kind) in splits.items()},
            "_declared": DeclaredData(
                self._maker, self._judge, indices, str(self._folder), declaration.blank
            ),
        }
        if not declaration.files:
            body["setup"] = Environment.setup  # a session is ready at once
        if self._maker.user is not None:
            body["make_user"] = declared_make_user(self._maker.user)
        title = "".join(part.title() for part in self._name.replace("-", "_").split("_")) or "Declared"
        return type(title, (DeclaredEnvironment,), body)

    def _open(self, split: str, data: str) -> RowIndex:
        source = choose_source(data, self._folder, self._declaration.records)
        job = IndexJob(self._declaration, self._folder, self._name, split, data)
        return self.request_index(source, split).open(partial(make_elsewhere, source, _MAKE_INDEX, job))

    def request_index(self, source: RowReader, split: str) -> IndexRequest:
        """Return the request for the index of a split's rows."""
        skip_bad = self._declaration.skip_bad
        # Which rows are left out must not depend on the machine's speed: it decides the tasks' numbers.
        seconds = 0.0 if skip_bad else JUDGING_SECONDS
        checker = _RowChecker(
            self._maker, self._reward, self._judge, RowPlace(split, str(self._folder)), seconds
        )
        # Without what does not decide whether a row is a valid task: an index is kept when only that changes.
        relevant = self._declaration.model_dump(
            mode="json", exclude={"data", "splits", "policy", "visibility"}
        )
        key = json.dumps([EDITION, relevant], sort_keys=True)
        return IndexRequest(source, checker.check, key, skip_bad=skip_bad)

    def _version(self, indices: Mapping[str, RowIndex]) -> str:
        whole = self._declaration.model_dump(mode="json", exclude={"schema_", "data", "splits", "skip_bad"})
        if self._declaration.policy is not None:  # a set, whose order differs from process to process
            whole["policy"]["overridable"].sort()
        # The rows' content, not the files' names or times: the same data on another machine has the same
        # version.
        contents = {name: [index.summary.digest, len(index)] for name, index in indices.items()}
        code = [[hashlib.sha256(file.read_bytes()).hexdigest() for file in self._code]] if self._code else []
        text = json.dumps([EDITION, whole, contents, *code], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:VERSION_DIGITS]

    def _policy(self) -> EpisodePolicy:
        declared = self._declaration.policy or EpisodePolicy()
        if declared.reward_range is None and self._reward.range is not None:
            return declared.model_copy(update={"reward_range": self._reward.range})
        return declared


class AnswerJudge:
    """Judges answers by the reward of a declaration, as an episode with one `submit` would."""

    def __init__(
        self,
        maker: TaskMaker,
        reward: DeclaredReward | WeightedRewards,
        fields: frozenset[str],
        blank: str,
    ) -> None:
        self._maker, self._reward, self._fields, self._blank = maker, reward, fields, blank
        self._judges = judges_text_alone(reward)

    def best_gold(self, task: JSONObject) -> str | None:
        """Return the answer that earns the most, the first of several; `None` if the task has no answer."""
        golds = list(dict.fromkeys(self._maker.golds(task)))
        if len(golds) < 2 or not self._judges:  # noqa: PLR2004  (there is nothing to choose)
            return golds[0] if golds else None
        best, best_reward = golds[0], float("-inf")
        for gold in golds:
            earned = self._judge(task, gold).reward
            if earned is not None and earned > best_reward:
                best, best_reward = gold, earned
            # Judging may be slow; nothing can earn more than the range's end.
            if self._reward.range is not None and best_reward >= self._reward.range[1]:
                break
        return best

    def check(self, task: JSONObject) -> None:
        """Raise `RowFaultError` if the reward cannot judge any answer to a task."""
        if not self._judges:
            return
        golds = self._maker.golds(task)
        result = self._judge(task, golds[0] if golds else self._blank)
        if result.status in {RewardStatus.ERROR, RewardStatus.BAD_GOLD}:
            answer = task.get(ANSWER)
            hint = (
                "" if isinstance(answer, str) else f'; answer = "{{{{ {ANSWER} | string }}}}" makes it text'
            )
            expected = f"an answer that {self._reward.name} can judge"
            raise RowFaultError(ANSWER, expected, f"{show_value(answer)} ({result.reason}){hint}")

    def _judge(self, task: JSONObject, response: str) -> RewardResult:
        prompt = task[PROMPT] if PROMPT in self._fields else self._maker.prompt(task)
        # A column may have the name of something that only an episode has, such as SWE-agent's `trajectory`.
        fields = {name: value for name, value in task.items() if name not in OF_THE_EPISODE}
        return score(self._reward, **{**fields, PROMPT: prompt, "final_response": response})


class RowPlace(NamedTuple):
    """Where the rows of a split come from."""

    split: str
    folder: str


class _RowChecker:
    """Checks rows, and judges their answers within a time; after it only the first of each further shape.

    The answers of the first rows are judged in every case.
    """

    def __init__(
        self,
        maker: TaskMaker,
        reward: DeclaredReward | WeightedRewards,
        judge: AnswerJudge,
        place: RowPlace,
        seconds: float,
    ) -> None:
        self._maker, self._reward, self._judge, self._place = maker, reward, judge, place
        self._seconds = seconds
        self._judged = 0
        self._shapes: set[str] = set()

    def check(self, row: JSONObject) -> None:
        task = self._maker.make(row, self._place.split, 0)
        self._maker.check(task, self._place.folder)
        self._reward.check_task(task)
        shape = _shape(task.get(ANSWER))
        is_known = shape in self._shapes or len(self._shapes) >= MAX_JUDGED
        if self._judged >= MAX_JUDGED and is_known and self._seconds <= 0:
            return
        self._shapes.add(shape)
        self._judged += 1
        began = time.monotonic()
        try:
            self._judge.check(task)
        finally:
            self._seconds -= time.monotonic() - began


def _shape(value: Any) -> str:
    """Return the types of an answer, on which it depends whether a reward can read it."""
    if isinstance(value, list):
        return f"list of {sorted({type(item).__name__ for item in cast('Sequence[Any]', value)})}"
    if isinstance(value, dict):
        return f"object of {sorted(cast('JSONObject', value))}"
    return type(value).__name__


def _expand_splits(declaration: Declaration) -> dict[str, tuple[str, SplitType]]:
    if declaration.data is None and not declaration.splits:
        raise EnvironmentDefinitionError(
            'data: expected a data file, such as data = "train.jsonl", or a table [splits]; add one of them'
        )
    if declaration.splits:
        return {
            name: (split.data, split.type or split_type(name)) for name, split in declaration.splits.items()
        }
    data = declaration.data or ""
    if data.startswith(PREFIX):
        address = parse_address(data)
        names = [address.split] if address.split else list_hub_splits(address)
        stem = data if address.split is None else data.rpartition(":")[0]
        return {name: (f"{stem}:{name}", split_type(name)) for name in names}
    name = split_named(data) or "train"
    return {name: (data, split_type(name))}


def _find_declared_toolset(item: str, folder: Path) -> str | type[Toolset]:
    """Return a toolset's name, or its class for `module:Class` and `file.py:Class`.

    Raises:
        EnvironmentDefinitionError: If it does not exist.
    """
    module, colon, name = item.rpartition(":")
    if not colon:
        find_toolset(item, "toolsets")
        return item
    toolset: object = getattr(_load_toolsets(item, module, folder), name, None)
    if isinstance(toolset, type) and issubclass(toolset, Toolset):
        return toolset
    actual = "nothing" if toolset is None else f"{toolset!r:.80}"
    raise EnvironmentDefinitionError(
        f"toolsets: expected a subclass of Toolset named {name!r} in {module}, got {actual}"
    )


def _load_toolsets(item: str, module: str, folder: Path) -> Any:
    file = (folder / module).resolve() if module.endswith(".py") else None
    if file is not None and not file.is_file():
        raise EnvironmentDefinitionError(f"toolsets: expected a Python file at {file}, which does not exist")
    try:
        if file is None:
            return import_module(module)
        # A name for each path, so that two declarations may have files of one name.
        return import_file(file, f"ors_toolsets_{hashlib.sha256(str(file).encode()).hexdigest()[:16]}")
    except Exception as error:  # the author's code may raise anything
        raise EnvironmentDefinitionError(
            f"toolsets: {item!r} cannot be loaded: {describe_authors(error)}"
        ) from error
