"""The program in which an audited environment is played: a process that may hang, crash or be killed.

`AuditedProcess` runs it as a worker. It plays one environment with the client that plays on servers, and
answers questions that need the author's class.

Finds the rewards of this library that judge an environment's answers, with their documented hazards.

What is in an environment's source: texts that its grader may accept, judges, resources.
"""

import ast
import inspect
import math
import os
import re
import resource
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import ExitStack, asynccontextmanager, closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal

from ors_server.audit.broken_parts import InjectedFault, with_broken_parts
from ors_server.audit.closed_network import CLOSED_NETWORK_VARIABLE, close_network
from ors_server.audit.plays import (
    BUSY_PLAY_SECONDS,
    CONCURRENT_SESSIONS,
    Journal,
    PlayResult,
    play_all,
    read_play,
    to_json,
)
from ors_server.audit.task_findings import task_texts
from ors_server.environments.definition import EnvironmentDefinition
from ors_server.evaluation.local_target import choose_definition, open_local_target
from ors_server.evaluation.targets import Target
from ors_server.model.policy import PenaltyCause
from ors_server.model.wire import JSONObject
from ors_server.processes.garbage_collector import collect_rarely
from ors_server.resources.resource_pool import ResourcePool
from ors_server.rewards.catalogue import describe_reward, home_of, reward_names
from ors_server.rewards.define import Reward
from ors_server.store.memory import MemoryStore
from ors_server.store.open import open_store
from ors_server.store.store_options import StoreOptions
from ors_server.testing.task_survey import survey_tasks

REWARDS_URL = "https://github.com/ors-server/ors-server/blob/main/docs/reference/rewards.md"
_NAME = re.compile(r"\b[A-Za-z]\w*\b")


def library_rewards(definition: EnvironmentDefinition) -> list[JSONObject]:
    """Return the library's rewards that an environment's class has or names, as fields of `LibraryReward`."""
    names = dict.fromkeys(_own_names(definition.reward)) if definition.reward is not None else {}
    names |= dict.fromkeys(_named_in_source(definition.source))
    entries = [describe_reward(name) for name in names]
    return [{"name": entry.name, "hazards": entry.hazards, "page": REWARDS_URL} for entry in entries]


def _own_names(reward: Reward) -> Iterator[str]:
    """Yield the names of the library's rewards of which a reward is made."""
    parts: tuple[Reward, ...] = getattr(reward, "parts", ())
    # A composite reward is named by its parts, as its own function only combines them.
    for part in parts:
        yield from _own_names(part)
    home = home_of(reward.name)
    # An author may give a reward of theirs a name of the catalogue, so its module decides.
    if not parts and home is not None and inspect.unwrap(reward.function).__module__ == home:
        yield reward.name


def _named_in_source(cls: type) -> Iterator[str]:
    """Yield the library's rewards whose names are in the source of a class, or of what it inherits."""
    reward_catalogue = frozenset(reward_names())
    for base in cls.__mro__:
        # These modules name every reward of the catalogue, although the author uses none of them.
        if base.__module__.partition(".")[0] in {"builtins", "abc", "typing", "ors_server"}:
            continue
        try:
            source = inspect.getsource(base)
        except (OSError, TypeError):
            continue
        yield from (word for word in _NAME.findall(source) if word in reward_catalogue)


MAX_LITERAL_CHARACTERS = 80
"""Characters of a text that may be tried as an answer."""
_JUDGE = re.compile(r"judge_|_judge|Judge\b|openai|chat[./]completions|litellm")
"""Names of this package's judges, and of the packages with which others ask models."""
_OTHERS = frozenset({"ors_server", "builtins", "abc", "typing"})
"""Packages whose classes are not the author's."""


def literals_of(cls: type) -> list[str]:
    """Return the short texts and the numbers in the source of a class and its bases, without docstrings."""
    literals: dict[str, None] = {}
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] not in _OTHERS:
            for node in _class_nodes(base):
                literals |= dict.fromkeys(_constants(node))
    return list(literals)


def mentions_judge(cls: type, reference: str) -> bool:
    """Return whether an author's file, or the declaration at a reference, mentions a model that judges."""
    declared = {file for file in (Path(reference, "environment.toml"), Path(reference)) if file.is_file()}
    own = (base for base in cls.__mro__ if base.__module__.partition(".")[0] not in _OTHERS)
    return any(_JUDGE.search(_text(file)) for file in declared | _files(own))


def mentions_resources(cls: type) -> bool:
    """Return whether the files of a class and its bases acquire resources, so that a session is costly."""
    return any("acquire_resource(" in _text(file) for file in _files(cls.__mro__))


def _files(classes: Iterable[type]) -> set[Path]:
    """Return the files of classes, where they have any."""
    files: set[Path] = set()
    for cls in classes:
        try:
            file = inspect.getsourcefile(cls)
        except (OSError, TypeError):
            continue
        files |= set() if file is None else {Path(file)}
    return files


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _class_nodes(cls: type) -> Iterator[ast.ClassDef]:
    try:
        file = inspect.getsourcefile(cls)
        tree = ast.parse(Path(file).read_text(encoding="utf-8")) if file else ast.Module([], [])
    except (OSError, TypeError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == cls.__name__:
            yield node


def _constants(node: ast.ClassDef) -> Iterator[str]:
    # A docstring explains the class to readers; its words would only be useless answers to try.
    docstrings = {
        id(definition.body[0].value)
        for definition in ast.walk(node)
        if isinstance(definition, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and isinstance(definition.body[0], ast.Expr)
    }
    for child in ast.walk(node):
        if not isinstance(child, ast.Constant) or id(child) in docstrings or isinstance(child.value, bool):
            continue
        if isinstance(child.value, str | int | float) and 0 < len(str(child.value)) <= MAX_LITERAL_CHARACTERS:
            yield str(child.value)


_KIB = 1024


class AuditedProgram:
    """One environment, and an event loop in a thread on which it is played."""

    def __init__(self, reference: str, name: str | None, store: str | None = None) -> None:
        """Load the environment.

        Args:
            reference: As for the command line.
            name: Its name, where the reference leads to several.
            store: Where episodes are recorded; in memory by default.
        """
        collect_rarely()
        # Before the author's module is imported, as importing it may already open connections.
        if os.environ.get(CLOSED_NETWORK_VARIABLE):
            close_network()
        self._reference = reference
        self._definition = choose_definition(reference, name)
        self._store = store
        self._ends = ExitStack()
        self._portal: BlockingPortal | None = None
        self._target: Target | None = None

    def start(self) -> None:
        """Open the environment on an event loop in a separate thread."""
        # Python's own loop where the network is closed: only its connections raise the audit events that
        # close it. Elsewhere the loop of a server, with which a play takes a tenth less processor time.
        has_quick_loop = not os.environ.get(CLOSED_NETWORK_VARIABLE) and find_spec("uvloop") is not None
        opening = start_blocking_portal(backend_options={"use_uvloop": has_quick_loop})
        portal = self._portal = self._ends.enter_context(opening)
        self._target = self._ends.enter_context(portal.wrap_async_context_manager(self._open()))

    @asynccontextmanager
    async def _open(self) -> AsyncGenerator[Target]:
        store = MemoryStore() if self._store is None else await open_store(self._store, StoreOptions())
        async with open_local_target(self._definition, store=store) as target:
            yield target

    def play(
        self, plays: list[JSONObject], journal: str, at_once: int = CONCURRENT_SESSIONS
    ) -> list[JSONObject]:
        """Play each in a separate session, and write a journal to a file."""
        assert self._portal is not None  # noqa: S101  (`start` was called)
        assert self._target is not None  # noqa: S101  (as above)
        read = [read_play(play) for play in plays]
        with closing(Journal(Path(journal))) as log:
            results = self._portal.call(play_all, self._target, read, at_once, log, BUSY_PLAY_SECONDS)
        return [to_json(played) for played in results]

    def play_broken(self, plays: list[JSONObject], kind: str) -> list[tuple[JSONObject, int]]:
        """Play each in a session whose sandbox and resources break after setup.

        Returns:
            The result of each, and how many requests a broken part received.
        """
        assert self._portal is not None  # noqa: S101  (`start` was called)
        read = [read_play(body) for body in plays]

        async def play() -> list[tuple[PlayResult, int]]:
            results: list[tuple[PlayResult, int]] = []
            fault = InjectedFault(kind)
            # Another target than that of `play`, whose environment must stay intact for the other policies.
            async with open_local_target(with_broken_parts(self._definition, fault)) as target:
                for plan in read:
                    before = fault.requests
                    (played,) = await play_all(target, [plan], seconds=BUSY_PLAY_SECONDS)
                    results.append((played, fault.requests - before))
            return results

        return [(to_json(played), requests) for played, requests in self._portal.call(play)]

    def facts(self) -> JSONObject:
        """Return what the class declares, and what its source shows."""
        definition = self._definition
        bounds = definition.policy.reward_range
        own_tools = set(definition.tools)
        toolsets = [
            tool for toolset in definition.toolsets for tool in toolset.tools if tool not in own_tools
        ]
        return {
            "name": definition.name,
            "version": definition.version,
            "reward_range": bounds and list(bounds),
            "return_range": definition.return_range and list(definition.return_range),
            "penalties": math.fsum(definition.policy.penalty(cause) for cause in PenaltyCause),
            "step_limit": definition.policy.step_limit,
            "has_gold": callable(getattr(definition.source, "gold_actions", None)),
            "chance": getattr(definition.source, "chance", None),
            "answer_fields": list(getattr(definition.source, "answer_fields", ())),
            "toolset_tools": toolsets,
            "has_sandbox": any(toolset.needs_sandbox for toolset in definition.toolsets),
            "source": _source_place(definition),
            "literals": literals_of(definition.source),
            "mentions_judge": mentions_judge(definition.source, self._reference),
            "mentions_resources": mentions_resources(definition.source),
            "rewards": library_rewards(definition),
        }

    async def splits(self) -> list[tuple[str, int]]:
        """Return the splits with their numbers of tasks."""
        tasks = self._definition.tasks
        return [(split.name, await tasks.num_tasks(split.name)) for split in self._definition.splits]

    def compare_tasks(self) -> dict[str, str]:
        """Compare the tasks with each other, and return what was found, as `task_texts` does."""
        assert self._portal is not None  # noqa: S101  (`start` was called)

        async def compare() -> dict[str, str]:
            async with ResourcePool() as resources:
                return task_texts(await survey_tasks(self._definition, resources))

        return self._portal.call(compare)

    def listing(self) -> JSONObject:
        """Return the tools that every session has."""
        return self._definition.listing.model_dump(mode="json")

    async def gold(self, split: str, indices: list[int]) -> list[JSONObject]:
        """Return the specs of tasks, with their gold actions if there are any."""
        rows: list[JSONObject] = []
        find: Callable[[JSONObject], Any] | None = getattr(self._definition.source, "gold_actions", None)
        for index in indices:
            spec = await self._definition.tasks.get_task(split, index)
            rows.append({"spec": spec, "gold": None, "error": None})
            if find is None:
                # An author's error for one task must not hide the gold actions of the other tasks.
                continue
            try:
                outcome = find(spec)
                actions = await outcome if inspect.isawaitable(outcome) else outcome
            except Exception as error:  # noqa: BLE001  (the author's; the audit says so)
                rows[-1]["error"] = f"{type(error).__name__}: {error}"
                continue
            if actions is not None:
                rows[-1]["gold"] = [[tool, dict(arguments)] for tool, arguments in actions]
        return rows

    def used(self) -> JSONObject:
        """Return the processor time of this process and its ended children, and its greatest memory."""
        own = resource.getrusage(resource.RUSAGE_SELF)
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        # `ru_maxrss` is in bytes on macOS and in KiB on Linux.
        unit = 1 if sys.platform == "darwin" else _KIB
        seconds = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
        return {"cpu_seconds": seconds, "peak_bytes": own.ru_maxrss * unit}

    def close(self) -> None:
        """End all sessions."""
        self._ends.close()


def _source_place(definition: EnvironmentDefinition) -> JSONObject | None:
    """Return the file and the first line of the class, if there is a file."""
    try:
        file = inspect.getsourcefile(definition.source)
        line = inspect.getsourcelines(definition.source)[1]
    except (OSError, TypeError):
        return None
    return None if file is None else {"file": file, "line": line, "class": definition.source.__qualname__}
