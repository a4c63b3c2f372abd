"""A recorded episode as it is read to be played again: which calls can be repeated, which cannot, and why."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from ors_server.model.episode import StopReason
from ors_server.model.errors import Blame, InvalidRequestError, OrsServerError, RecordError
from ors_server.model.policy import EpisodePolicy
from ors_server.model.trajectory import USER_TURNS, EpisodeRecord, Step, StepStatus, UserTurn
from ors_server.model.wire import JSONObject
from ors_server.resources.resource_errors import ResourceError
from ors_server.sandboxes.sandbox_errors import SandboxError
from ors_server.sessions.episode_recorder import EPISODE_KEY

RESTORED_KEY = "restored_to_step"
"""Key of a step's metadata, if the session was restored to a snapshot before it."""
TIMEOUT = "timeout"
"""The error code of a call that exceeded its time limit."""
REPLAY_OF = "replay_of"
"""Label of a server's own record of a replay: the id of the replayed episode."""
ROUNDING = timedelta(microseconds=10)
"""Maximum error of a recorded time, which has whole microseconds."""

_BASES = (OrsServerError, SandboxError, ResourceError)
"""Base classes of errors; the latter two are listed so that their modules are loaded."""


_TURNS = TypeAdapter(list[UserTurn])


@dataclass(frozen=True, slots=True)
class RecordedEpisode:
    """An episode with all its steps."""

    record: EpisodeRecord
    steps: tuple[Step, ...]

    @property
    def has_failed_setup(self) -> bool:
        """Whether its environment's setup failed, so that no call could be made."""
        return any(transition.event == "setup_failed" for transition in self.record.transitions)


def recorded_policy(recorded: JSONObject) -> EpisodePolicy:
    """Read a recorded policy, without fields that this version does not know.

    Raises:
        RecordError: If it is not a policy.
    """
    rules = {name: value for name, value in recorded.items() if name in EpisodePolicy.model_fields}
    try:
        return EpisodePolicy.model_validate(rules)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        location = ".".join(map(str, first["loc"]))
        raise RecordError(f"the record's policy cannot be read: {location}: {first['msg']}") from error


def overrides_of(recorded: EpisodePolicy, own: EpisodePolicy) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the overrides that turn `own` into the recorded policy, and the fields without an override."""
    overrides, left = dict[str, Any](), list[str]()
    for name in EpisodePolicy.model_fields:
        value = getattr(recorded, name)
        if value == getattr(own, name):
            continue
        try:
            own.override({name: value})
        except InvalidRequestError:
            left.append(name)
        else:
            overrides[name] = value
    return overrides, tuple(left)


def repeatable_steps(steps: Sequence[Step]) -> Generator[Step, None, None]:
    """Yield the steps whose calls can be made again, in order, up to a restored snapshot."""
    for step in steps:
        if restored_to(step) is not None:
            return
        if why_not_comparable(step) is None:
            yield step


def recorded_user_turns(steps: Sequence[Step]) -> list[UserTurn]:
    """Return what the simulated user answered in the calls that can be made again, in order.

    Raises:
        RecordError: If a step's metadata has something else under their key.
    """
    rows = [row for step in repeatable_steps(steps) for row in (step.metadata or {}).get(USER_TURNS, ())]
    try:
        return _TURNS.validate_python(rows)
    except ValidationError as error:
        raise RecordError(f"the record's {USER_TURNS} cannot be read: {error.errors()[0]['msg']}") from error


def why_not_comparable(step: Step) -> str | None:
    """Return why a call cannot be repeated: its effects are unknown; `None` if it can."""
    if step.status is StepStatus.CANCELLED:
        return "its caller withdrew it, and how far it had come is not on record"
    if step.status is StepStatus.FAILED and is_machinery(step.error_code):
        return f"the machinery failed it ({step.error_code}), and how far it had come is not on record"
    return None


def is_machinery(code: str | None) -> bool:
    """Return whether an error code blames the machinery or the server."""
    return code is not None and any(code in _codes_of_machinery(base) for base in _BASES)


def restored_to(step: Step) -> int | None:
    """Return the step to whose snapshot the session was restored before this step; mostly `None`."""
    found = _episode_metadata(step).get(RESTORED_KEY)
    return found if isinstance(found, int) else None


def is_ended_by_time(step: Step) -> bool:
    """Return whether the episode's time limit ended it with this step; a replay is faster."""
    return step.finished and _episode_metadata(step).get("stop_reason") == StopReason.TIME_LIMIT.value


def overlapping(steps: Sequence[Step]) -> tuple[int, ...]:
    """Return the numbers of the steps that began before the step recorded before them had ended."""
    found: list[int] = []
    for before, step in pairwise(steps):  # the order of the record is that in which they ended
        if step.started_at + ROUNDING < before.started_at + timedelta(seconds=before.duration):
            found.append(step.number)
    return tuple(found)


def _episode_metadata(step: Step) -> Mapping[str, object]:
    found: object = (step.metadata or {}).get(EPISODE_KEY)
    return cast("Mapping[str, object]", found) if isinstance(found, Mapping) else {}


def _codes_of_machinery(base: type[OrsServerError]) -> set[str]:
    found = {base.code} if base.blame in {Blame.MACHINERY, Blame.US} else set[str]()
    return found.union(*(_codes_of_machinery(subclass) for subclass in base.__subclasses__()))
