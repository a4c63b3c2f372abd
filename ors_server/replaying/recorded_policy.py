"""The policy of a recorded episode, for a new session."""

from typing import Any

from pydantic import ValidationError

from ors_server.errors import InvalidRequestError, RecordError
from ors_server.policy import EpisodePolicy
from ors_server.wire import JSONObject


def recorded_policy(recorded: JSONObject) -> EpisodePolicy:
    """Read a recorded policy, without fields that this version does not know.

    Raises:
        RecordError: If it is not a policy.
    """
    known = {name: value for name, value in recorded.items() if name in EpisodePolicy.model_fields}
    try:
        return EpisodePolicy.model_validate(known)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise RecordError(f"the record's policy cannot be read: {place}: {first['msg']}") from error


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
