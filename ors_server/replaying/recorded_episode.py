"""A recorded episode as a replay sees it: which calls can be made again, and what nobody can know of them."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import cast

from ors_server.episode import StopReason
from ors_server.errors import Blame, OrsServerError
from ors_server.resources.resource_errors import ResourceError
from ors_server.sandboxes.sandbox_errors import SandboxError
from ors_server.sessions.checked_output import EPISODE_KEY
from ors_server.trajectory import EpisodeRecord, Step, StepStatus
from ors_server.wire import JSONObject

RESTORED_KEY = "restored_to_step"
"""Where a step's metadata says that the session was brought back to a snapshot before it."""
TIMEOUT = "timeout"
"""The error code of a call that ran out of time."""
ROUNDING = timedelta(microseconds=10)
"""By how much a recorded time may be off: it is kept in whole microseconds."""

_BASES = (OrsServerError, SandboxError, ResourceError)
"""Where classes of errors are looked for; the latter two so that their modules are there."""


@dataclass(frozen=True, slots=True)
class RecordedEpisode:
    """An episode as a store keeps it, whole."""

    record: EpisodeRecord
    steps: tuple[Step, ...]

    @property
    def has_failed_setup(self) -> bool:
        """Whether its environment's setup failed, so that no call could be made."""
        return any(transition.event == "setup_failed" for transition in self.record.transitions)


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call of a recorded episode."""

    tool: str
    arguments: JSONObject
    call_id: str


def recorded_calls(steps: Sequence[Step]) -> Generator[RecordedCall, None, None]:
    """Go through the calls of an episode that can be made again, in the order of the record.

    Args:
        steps: In order. Those that are not comparable are left out, and so is what follows a restored
            snapshot.
    """
    for step in steps:
        if restored_to(step) is not None:
            return
        if why_not_comparable(step) is None:
            yield RecordedCall(step.tool, step.arguments, step.call_id)


def why_not_comparable(step: Step) -> str | None:
    """Say why making a call again would tell nothing, or `None` if it would.

    Args:
        step: The recorded step. One that was withdrawn, or that the machinery failed, had effects that nobody
            knows.
    """
    if step.status is StepStatus.CANCELLED:
        return "its caller withdrew it, and how far it had come is not on record"
    if step.status is StepStatus.FAILED and is_machinery(step.error_code):
        return f"the machinery failed it ({step.error_code}), and how far it had come is not on record"
    return None


def is_machinery(code: str | None) -> bool:
    """Say whether an error code blames the machinery, the server, or whoever took the session away.

    Args:
        code: The error's code.
    """
    return code is not None and any(code in _codes_of_machinery(base) for base in _BASES)


def restored_to(step: Step) -> int | None:
    """Return the step to whose snapshot the session was brought back before this step; mostly `None`.

    Args:
        step: The recorded step.
    """
    found = _standing(step).get(RESTORED_KEY)
    return found if isinstance(found, int) else None


def is_ended_by_time(step: Step) -> bool:
    """Say whether the episode's time was up with a step: a replay is faster, for no agent thinks in it.

    Args:
        step: The recorded step.
    """
    return step.finished and _standing(step).get("stop_reason") == StopReason.TIME_LIMIT.value


def overlapping(steps: Sequence[Step]) -> tuple[int, ...]:
    """Return the numbers of the steps that ran while another one, recorded before them, still ran.

    Args:
        steps: In order.
    """
    found: list[int] = []
    for before, step in pairwise(steps):  # the order of the record is that in which they ended
        if step.started_at + ROUNDING < before.started_at + timedelta(seconds=before.duration):
            found.append(step.number)
    return tuple(found)


def _standing(step: Step) -> Mapping[str, object]:
    found: object = (step.metadata or {}).get(EPISODE_KEY)
    return cast("Mapping[str, object]", found) if isinstance(found, Mapping) else {}


def _codes_of_machinery(base: type[OrsServerError]) -> set[str]:
    found = {base.code} if base.blame in {Blame.MACHINERY, Blame.US} else set[str]()
    return found.union(*(_codes_of_machinery(each) for each in base.__subclasses__()))
