"""A client's request for an episode, and its form for either kind of server."""

import base64
import json
from collections.abc import Mapping
from typing import Any, TypedDict

from ors_server.model.errors import InvalidRequestError, NotSupportedError
from ors_server.model.wire import JSONObject, names_one_task


class EpisodeRequest(TypedDict, total=False):
    """The episode that a client requests: a task by value, or by split and index."""

    split: str | None
    """The task's split; `None` for a task by value."""
    index: int | None
    """Position of the task in its split, from 0."""
    task_spec: JSONObject | None
    """The task by value."""
    toolset: str | None
    """A toolset that the environment offers on request."""
    secrets: Mapping[str, str] | None
    """Handed to the environment; never recorded."""
    session_id: str | None
    """Your own id, used by no other session; random by default."""
    seed: int | None
    """Seed of the environment's random generator (ors-server only)."""
    policy: Mapping[str, Any] | None
    """Overrides of the environment's policy (ors-server only)."""
    labels: Mapping[str, str] | None
    """Names of the episode: its run, attempt, group (ors-server only)."""
    visibility: str | None
    """The agent's view of rewards: `meta`, `visible` or `hidden` (ors-server only)."""


_ORS_SERVER_ONLY = ("seed", "policy", "labels", "visibility")


def check_request(requested: EpisodeRequest) -> None:
    """Raise `InvalidRequestError` unless a request names one task, once."""
    if not names_one_task(requested.get("task_spec"), requested.get("split"), requested.get("index")):
        raise InvalidRequestError("a request names one task: give either task_spec, or both split and index")


def control_body(environment: str | None, requested: EpisodeRequest, session_id: str) -> JSONObject:
    """Return the body of `POST /_ors/sessions`."""
    body = {**requested, "environment": environment, "session_id": session_id}
    return {name: value for name, value in body.items() if value is not None}


def standard_body(environment: str, requested: EpisodeRequest, *, with_secrets: bool) -> JSONObject:
    """Return the body of the standard's `POST /create`, or raise `NotSupportedError` for other fields."""
    excess = [name for name in _ORS_SERVER_ONLY if requested.get(name) is not None]
    if excess:
        raise NotSupportedError(
            f"this server speaks the Open Reward Standard only, which has no {', '.join(excess)}; "
            "leave it out"
        )
    body = {
        "env_name": environment,
        "task_spec": requested.get("task_spec"),
        "split": requested.get("split"),
        "index": requested.get("index"),
        "toolset_name": requested.get("toolset"),
        "secrets": requested.get("secrets") if with_secrets else None,
    }
    return {name: value for name, value in body.items() if value is not None}


def secrets_header(secrets: Mapping[str, str] | None) -> dict[str, str]:
    """Return secrets as the `X-Secrets` header (behaviour of `openreward` 0.1.167)."""
    if not secrets:
        return {}
    text = json.dumps({name: {"value": value} for name, value in secrets.items()})
    return {"X-Secrets": base64.b64encode(text.encode()).decode()}
