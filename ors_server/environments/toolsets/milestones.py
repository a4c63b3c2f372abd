"""Rewards for progress: predicates on the state of the sandbox, each of which pays once.

Milestones are checked after every call of the `bash`, `python`, `files` and `patch` tools, while the agent's
processes are stopped. They are independent: if one call reaches several, all of them pay.
"""

import math
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ors_server.environments.boundary import call_hook
from ors_server.environments.toolsets.wrappers import SHELLS
from ors_server.grading.evidence import Evidence, gather_evidence
from ors_server.model.errors import EnvironmentDefinitionError, EnvironmentFailedError
from ors_server.model.logs import get_logger
from ors_server.model.wire import JSONObject, ToolOutput
from ors_server.processes import offload
from ors_server.processes.offload import OffloadLimits, OverLimitError
from ors_server.sandboxes.sandbox_errors import (
    SandboxFileError,
    SandboxFileMissingError,
    SandboxFileTooLargeError,
    SandboxPathError,
)

log = get_logger("ors_server.milestones")

Predicate: TypeAlias = Callable[[Evidence], Awaitable[bool]]
"""Returns whether the state is reached; raises if that cannot be determined."""

_SEARCH_LIMITS = OffloadLimits(cpu_seconds=5.0)
_NOT_FOUND = 127
_STATE = "_ors_milestones_reached"


@dataclass(frozen=True, slots=True)
class Milestone:
    """A state of the sandbox that pays once."""

    name: str
    """Unique in the environment; reported to trainers."""
    reward: float
    """Added to the reward of the step that reaches it; finite and above 0."""
    when: Predicate
    """What has to be true after a call."""

    def __post_init__(self) -> None:
        """Refuse a milestone without a name, a finite reward above 0, or a callable `when`."""
        if not self.name:
            raise ValueError("a milestone has a name")
        if not (math.isfinite(self.reward) and self.reward > 0):
            raise ValueError(f"milestone {self.name!r} must pay a finite number above 0, got {self.reward}")
        if not callable(self.when):
            raise TypeError(f"milestone {self.name!r}: `when` must be callable; {self.when!r} is not")


@dataclass(frozen=True, slots=True)
class FileExists:
    """A file or folder exists at a path of the work dir."""

    path: str
    """Relative to the work dir, or absolute below it."""

    async def __call__(self, evidence: Evidence) -> bool:
        """Return whether it exists."""
        return await evidence.exists(self.path)


@dataclass(frozen=True, slots=True)
class FileMatches:
    """A plain file of the work dir has this content, or a match of this pattern.

    A missing or too large file matches nothing, nor does a text in which the search takes more than 5 seconds
    of processor time; the log reports that.
    """

    path: str
    """Relative to the work dir, or absolute below it."""
    pattern: str | None = None
    """Regular expression, searched for anywhere in the text; bytes that are not UTF-8 become U+FFFD."""
    content: str | bytes | None = None
    """The whole content; text is encoded as UTF-8."""

    def __post_init__(self) -> None:
        """Raise `ValueError` unless exactly one of `pattern` and `content` is given."""
        if (self.pattern is None) == (self.content is None):
            raise ValueError(f"FileMatches({self.path!r}) takes a pattern or a content, one of them")

    async def __call__(self, evidence: Evidence) -> bool:
        """Read the file and compare or search it."""
        try:
            content = await evidence.read_file(self.path)
        except (SandboxFileMissingError, SandboxPathError, SandboxFileTooLargeError):
            return False
        if self.pattern is None:
            return content == (self.content.encode() if isinstance(self.content, str) else self.content)
        return await self._search(self.pattern, content)

    async def _search(self, pattern: str, content: bytes) -> bool:
        try:
            # The text is the agent's, and a pattern may take exponential time on it.
            return await offload.run(_is_found, pattern, content, limits=_SEARCH_LIMITS)
        except (re.error, OverflowError, RecursionError) as error:
            reason = f"looking for {pattern!r} in {self.path!r} failed: {error}"
            raise EnvironmentFailedError(reason) from error
        except OverLimitError as error:  # the text is the agent's
            log.warning("milestone_not_reached", path=self.path, pattern=pattern, reason=str(error))
            return False


def _is_found(pattern: str, content: bytes) -> bool:
    return re.search(pattern, content.decode(errors="replace")) is not None


@dataclass(frozen=True, slots=True)
class CommandSucceeds:
    """A program ends with status 0: a fresh one over a read-only view of the work dir, not in the shell.

    An agent can influence a program that runs or reads its files. A program that does not end in time has not
    succeeded.
    """

    argv: Sequence[str]
    """The program and its arguments, without a shell."""
    time_limit: float = 10.0
    """Seconds."""

    def __post_init__(self) -> None:
        """Refuse a string, an empty list, or a time limit that is not above 0."""
        if isinstance(self.argv, str):
            raise TypeError(f"CommandSucceeds takes a list, the program and its arguments, got {self.argv!r}")
        if not self.argv:
            raise ValueError("CommandSucceeds takes at least a program")
        if not self.time_limit > 0:
            raise ValueError(f"time_limit must be a number of seconds above 0, got {self.time_limit}")

    async def __call__(self, evidence: Evidence) -> bool:
        """Run it; raises `EnvironmentFailedError` if the sandbox has no such program."""
        run = await evidence.run(list(self.argv), time_limit=self.time_limit)
        name = self.argv[0]
        if run.exit_code == _NOT_FOUND and "/" not in name and name not in SHELLS | {"env"}:
            raise EnvironmentFailedError(f"a milestone runs {name!r}, and the sandbox has no such program")
        return run.exit_code == 0


def check_milestones(environment: type) -> None:
    """Raise `EnvironmentDefinitionError` if `milestones` has something else, or two of one name."""
    milestones = _milestones(environment)
    strangers: list[Any] = [item for item in milestones if type(item) is not Milestone]
    if strangers:
        raise EnvironmentDefinitionError(
            f"{environment.__name__}.milestones holds {strangers[0]!r}, which is not a Milestone"
        )
    names = [milestone.name for milestone in milestones]
    if len(set(names)) < len(names):
        raise EnvironmentDefinitionError(
            f"{environment.__name__}.milestones: each name must occur once, got {names}"
        )


async def pay_progress(environment: Any, output: ToolOutput) -> ToolOutput:
    """Add the rewards of newly reached milestones to an output.

    If the environment has milestones, the output's `metadata.progress` has all names that are `reached`, and
    the `new` ones.

    Raises:
        EnvironmentFailedError: A predicate failed; then none pays, and the next call checks again.
        SandboxError: The sandbox failed.
    """
    milestones = _milestones(environment)
    if not milestones:
        return output
    before = reached_milestones(environment)
    left = [item for item in milestones if item.name not in before]
    new: list[Milestone] = []
    if left:  # otherwise the agent's processes need not be stopped
        async with gather_evidence(environment.sandbox) as evidence:
            new = [milestone for milestone in left if await _is_reached(milestone, evidence)]
    names = [item.name for item in milestones if item.name in before or item in new]
    load_reached_milestones(environment, names)
    reward = output.reward
    if new:
        reward = sum((item.reward for item in new), reward or 0.0)
    progress: JSONObject = {"reached": names, "new": [item.name for item in new]}
    metadata = {**(output.metadata or {}), "progress": progress}
    return output.model_copy(update={"reward": reward, "metadata": metadata})


def reached_milestones(environment: Any) -> list[str]:
    """Return the names of the milestones that have paid, to be copied with a session."""
    names: Sequence[str] = getattr(environment, _STATE, ())
    return list(names)


def load_reached_milestones(environment: Any, names: Sequence[str]) -> None:
    """Set the milestones that have paid."""
    setattr(environment, _STATE, tuple(names))


def _milestones(environment: Any) -> Sequence[Milestone]:
    milestones: Sequence[Milestone] = getattr(environment, "milestones", ())
    return milestones


async def _is_reached(milestone: Milestone, evidence: Evidence) -> bool:
    try:
        reached = await call_hook(milestone.when, evidence)
    except SandboxFileError as error:
        raise EnvironmentFailedError(f"milestone {milestone.name!r}: {error}") from error
    if not isinstance(reached, bool):
        kind = type(reached).__name__
        raise EnvironmentFailedError(
            f"milestone {milestone.name!r}: `when` must return True or False, got a {kind}"
        )
    return reached
