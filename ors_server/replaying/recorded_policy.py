"""The rules that a recorded episode was played by, as far as a session can have them again."""

from typing import Any

from pydantic import ValidationError

from ors_server.errors import InvalidRequestError, RecordError
from ors_server.policy import EpisodePolicy
from ors_server.wire import JSONObject


def recorded_policy(recorded: JSONObject) -> EpisodePolicy:
    """Read the rules of a record; those that this version does not know are left out.

    Args:
        recorded: As an origin has them.

    Raises:
        RecordError: If they are none.
    """
    known = {name: value for name, value in recorded.items() if name in EpisodePolicy.model_fields}
    try:
        return EpisodePolicy.model_validate(known)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise RecordError(f"the record's policy cannot be read: {place}: {first['msg']}") from error


def overrides_of(recorded: EpisodePolicy, own: EpisodePolicy) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Find out how a session of an environment gets the recorded rules.

    Args:
        recorded: The rules of the record.
        own: The environment's own.

    Returns:
        What to override, by name; and the names of the rules that are otherwise and cannot be overridden,
        because the environment's have changed since.
    """
    wanted, left = dict[str, Any](), list[str]()
    for name in EpisodePolicy.model_fields:
        value = getattr(recorded, name)
        if value == getattr(own, name):
            continue
        try:
            own.override({name: value})
        except InvalidRequestError:
            left.append(name)
        else:
            wanted[name] = value
    return wanted, tuple(left)
