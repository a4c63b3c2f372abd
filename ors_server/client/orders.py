"""What episode a client wants, and how the two kinds of servers are asked for it."""

import base64
import json
from collections.abc import Mapping
from typing import Any, TypedDict

from ors_server.errors import InvalidRequestError, NotSupportedError
from ors_server.wire import JSONObject


class Wishes(TypedDict, total=False):
    """What episode is wanted: a task by value, or by split and index."""

    split: str | None
    index: int | None
    """Position of the task in its split, from 0."""
    task_spec: JSONObject | None
    """The task by value."""
    toolset: str | None
    secrets: Mapping[str, str] | None
    """Handed to the environment; never recorded."""
    session_id: str | None
    """Your own id, which nobody else may use; a random one otherwise."""
    seed: int | None
    """What the environment draws its chances from (servers of ours only)."""
    policy: Mapping[str, Any] | None
    """Overrides of the environment's policy (servers of ours only)."""
    labels: Mapping[str, str] | None
    """What you call the episode: run, attempt, group (servers of ours only)."""
    visibility: str | None
    """What an agent sees of rewards: `meta`, `visible` or `hidden` (servers of ours only)."""


_OURS_ONLY = ("seed", "policy", "labels", "visibility")


def check_wishes(wishes: Wishes) -> None:
    """Check that a task is named, and only once.

    Raises:
        InvalidRequestError: If not.
    """
    by_value = wishes.get("task_spec") is not None
    places = [wishes.get("split") is not None, wishes.get("index") is not None]
    if by_value == any(places) or (any(places) and not all(places)):
        raise InvalidRequestError("name a task: either task_spec, or both split and index")


def control_body(environment: str | None, wishes: Wishes, session_id: str) -> JSONObject:
    """Write the order for a server of ours.

    Args:
        environment: Its name; `None` for the default one.
    """
    wanted = {**wishes, "environment": environment, "session_id": session_id}
    return {name: value for name, value in wanted.items() if value is not None}


def standard_body(environment: str, wishes: Wishes, *, with_secrets: bool) -> JSONObject:
    """Write the body of the standard's `/create`.

    Args:
        with_secrets: Whether the server takes secrets in the body.

    Raises:
        NotSupportedError: If something is wanted that the standard has no words for.
    """
    excess = [name for name in _OURS_ONLY if wishes.get(name) is not None]
    if excess:
        raise NotSupportedError(
            f"this server speaks the Open Reward Standard only, which has no {', '.join(excess)}; "
            "leave it out"
        )
    wanted = {
        "env_name": environment,
        "task_spec": wishes.get("task_spec"),
        "split": wishes.get("split"),
        "index": wishes.get("index"),
        "toolset_name": wishes.get("toolset"),
        "secrets": wishes.get("secrets") if with_secrets else None,
    }
    return {name: value for name, value in wanted.items() if value is not None}


def secrets_header(secrets: Mapping[str, str] | None) -> dict[str, str]:
    """Write secrets as the `X-Secrets` header (behaviour of `openreward` 0.1.167)."""
    if not secrets:
        return {}
    text = json.dumps({name: {"value": value} for name, value in secrets.items()})
    return {"X-Secrets": base64.b64encode(text.encode()).decode()}
