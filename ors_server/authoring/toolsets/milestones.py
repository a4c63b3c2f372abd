"""Rewards for progress: predicates on the state of the sandbox, each of which pays once.

Milestones are looked at after every call of the `bash`, `python`, `files` and `patch` tools, while nothing of
the agent's runs. They do not wait for each other; where several are reached by one call, all of them pay.
"""

import math
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ors_server import offload
from ors_server.authoring.boundary import call_hook
from ors_server.authoring.toolsets.wrappers import SHELLS
from ors_server.errors import EnvironmentDefinitionError, EnvironmentFailedError
from ors_server.grading.evidence import Evidence, gather_evidence
from ors_server.logs import get_logger
from ors_server.offload import OffloadLimits, OverLimitError
from ors_server.sandboxes.sandbox_errors import (
    SandboxFileError,
    SandboxFileMissingError,
    SandboxFileTooLargeError,
    SandboxPathError,
)
from ors_server.wire import JSONObject, ToolOutput

log = get_logger("ors_server.milestones")

Predicate: TypeAlias = Callable[[Evidence], Awaitable[bool]]
"""Says whether something is so; raises if that cannot be found out."""

_SEARCH_LIMITS = OffloadLimits(cpu_seconds=5.0)
_NOT_FOUND = 127
_STATE = "_ors_milestones_reached"


@dataclass(frozen=True, slots=True)
class Milestone:
    """A state of the sandbox that pays once."""

    name: str
    """Under which it is reported; unique in the environment."""
    reward: float
    """Added to the reward of the step that reaches it; finite and above 0."""
    when: Predicate

    def __post_init__(self) -> None:
        """Refuse a milestone that could never be paid.

        Raises:
            ValueError: It has no name, or its reward is not a finite number above 0.
            TypeError: `when` cannot be called.
        """
        if not self.name:
            raise ValueError("a milestone has a name")
        if not (math.isfinite(self.reward) and self.reward > 0):
            raise ValueError(f"milestone {self.name!r} pays a finite number above 0, not {self.reward}")
        if not callable(self.when):
            raise TypeError(f"milestone {self.name!r}: `when` must be callable; {self.when!r} is not")


@dataclass(frozen=True, slots=True)
class FileExists:
    """A file or a folder stands at a path of the work dir."""

    path: str

    async def __call__(self, evidence: Evidence) -> bool:
        """Look."""
        return await evidence.exists(self.path)


@dataclass(frozen=True, slots=True)
class FileMatches:
    """A plain file of the work dir has this content, or holds a match of this pattern.

    A file that is not there, or larger than what one read carries, matches nothing; nor does a text in which
    the pattern takes more than 5 seconds of the processor, which the log says.
    """

    path: str
    pattern: str | None = None
    """Regular expression, looked for in the text anywhere; bytes that are not UTF-8 become U+FFFD."""
    content: str | bytes | None = None
    """The whole content; text means UTF-8."""

    def __post_init__(self) -> None:
        """Refuse to match nothing, or two things.

        Raises:
            ValueError: Not exactly one of `pattern` and `content` is given.
        """
        if (self.pattern is None) == (self.content is None):
            raise ValueError(f"FileMatches({self.path!r}) takes a pattern or a content, one of them")

    async def __call__(self, evidence: Evidence) -> bool:
        """Look.

        Raises:
            EnvironmentFailedError: The pattern is none.
            WorkerLostError: The machine gave way.
        """
        try:
            found = await evidence.read_file(self.path)
        except (SandboxFileMissingError, SandboxPathError, SandboxFileTooLargeError):
            return False
        if self.pattern is None:
            return found == (self.content.encode() if isinstance(self.content, str) else self.content)
        return await self._search(self.pattern, found)

    async def _search(self, pattern: str, found: bytes) -> bool:
        try:
            return await offload.run(_is_found, pattern, found, limits=_SEARCH_LIMITS)
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
    """A program ends with status 0: started afresh over a read-only view of the work dir, not in the shell.

    What the program says is the agent's word where it runs or reads a file of the agent's. One that does not
    end in time does not succeed.
    """

    argv: Sequence[str]
    """The program and its arguments; no shell reads them."""
    time_limit: float = 10.0
    """Seconds."""

    def __post_init__(self) -> None:
        """Refuse what is no program.

        Raises:
            TypeError: A string was given.
            ValueError: The list is empty, or the time limit is not above 0.
        """
        if isinstance(self.argv, str):
            raise TypeError(f"CommandSucceeds takes a list, the program and its arguments, not {self.argv!r}")
        if not self.argv:
            raise ValueError("CommandSucceeds takes at least a program")
        if not self.time_limit > 0:
            raise ValueError(f"time_limit is a number of seconds above 0, not {self.time_limit}")

    async def __call__(self, evidence: Evidence) -> bool:
        """Run it.

        Raises:
            EnvironmentFailedError: The sandbox has no such program.
        """
        run = await evidence.run(list(self.argv), time_limit=self.time_limit)
        name = self.argv[0]
        if run.exit_code == _NOT_FOUND and "/" not in name and name not in SHELLS | {"env"}:
            raise EnvironmentFailedError(f"a milestone runs {name!r}, and the sandbox has no such program")
        return run.exit_code == 0


def check_milestones(environment: type) -> None:
    """Refuse milestones that cannot be told apart.

    Raises:
        EnvironmentDefinitionError: Something in `milestones` is none, or two share a name.
    """
    milestones = _milestones(environment)
    strangers: list[Any] = [item for item in milestones if type(item) is not Milestone]
    if strangers:
        raise EnvironmentDefinitionError(
            f"{environment.__name__}.milestones holds {strangers[0]!r}, which is no Milestone"
        )
    names = [milestone.name for milestone in milestones]
    if len(set(names)) < len(names):
        raise EnvironmentDefinitionError(f"{environment.__name__}.milestones: every name once, not {names}")


async def pay_progress(environment: Any, output: ToolOutput) -> ToolOutput:
    """Add the rewards of the milestones that are reached for the first time.

    Returns:
        The output, with `metadata.progress` if the environment has milestones: all names that are `reached`,
        and the `new` ones.

    Raises:
        EnvironmentFailedError: A predicate failed; then none is paid, and the next call looks again.
        SandboxError: The sandbox failed.
    """
    milestones = _milestones(environment)
    if not milestones:
        return output
    before = reached_milestones(environment)
    new = await _newly_reached(environment, [item for item in milestones if item.name not in before])
    names = [item.name for item in milestones if item.name in before or item in new]
    load_reached_milestones(environment, names)
    reward = output.reward
    if new:
        reward = sum((item.reward for item in new), reward or 0.0)
    progress: JSONObject = {"reached": names, "new": [item.name for item in new]}
    metadata = {**(output.metadata or {}), "progress": progress}
    return output.model_copy(update={"reward": reward, "metadata": metadata})


def reached_milestones(environment: Any) -> list[str]:
    """Return the names of the milestones that were paid already, for whoever copies a session."""
    names: Sequence[str] = getattr(environment, _STATE, ())
    return list(names)


def load_reached_milestones(environment: Any, names: Sequence[str]) -> None:
    """Take over which milestones were paid already."""
    setattr(environment, _STATE, tuple(names))


def _milestones(environment: Any) -> Sequence[Milestone]:
    found: Sequence[Milestone] = getattr(environment, "milestones", ())
    return found


async def _newly_reached(environment: Any, left: Sequence[Milestone]) -> list[Milestone]:
    if not left:
        return []
    async with gather_evidence(environment.sandbox) as evidence:
        return [milestone for milestone in left if await _is_reached(milestone, evidence)]


async def _is_reached(milestone: Milestone, evidence: Evidence) -> bool:
    try:
        said = await call_hook(milestone.when, evidence)
    except SandboxFileError as error:
        raise EnvironmentFailedError(f"milestone {milestone.name!r}: {error}") from error
    if not isinstance(said, bool):
        kind = type(said).__name__
        raise EnvironmentFailedError(f"milestone {milestone.name!r}: `when` says True or False, not a {kind}")
    return said
