"""Reads the JSON of a server's answers as the types that this version knows.

Another server, or a hostile one, may send anything: a value of another type is its fault, and never reaches
the code that uses it.
"""

from functools import cache
from reprlib import Repr
from typing import Annotated, Any, Literal, NotRequired, TypeVar

from pydantic import Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from ors_server.client.bounded_http import MAX_SHOWN, BrokenAnswerError
from ors_server.model.wire import JSONObject

_shown = Repr()
_shown.maxstring = MAX_SHOWN
shown_value = _shown.repr
"""Returns the beginning of a value as it would be written in Python, in about 1,000 characters at most."""
MAX_COUNT = 10**9
"""Most tasks of a split, or steps of an episode."""
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]

_Kind = TypeVar("_Kind")


@with_config(strict=True)
class VersionFields(TypedDict):
    """`GET /_ors/version`."""

    name: str
    version: str


@with_config(strict=True)
class StatusFields(TypedDict):
    """What is read of a session's status."""

    environment: str
    episode_id: str
    task_hash: str


@with_config(strict=True)
class AccessFields(TypedDict):
    """How an agent reaches a session."""

    agent_token: NotRequired[str]
    agent_url: NotRequired[str]
    mcp_url: NotRequired[str]


@with_config(strict=True)
class CreatedFields(AccessFields):
    """`POST /_ors/sessions`, and an entry of a fork's answer."""

    session_id: str
    status: StatusFields


@with_config(strict=True)
class ForkFields(TypedDict):
    """`POST /_ors/sessions/{id}/fork`."""

    sessions: list[CreatedFields]


@with_config(strict=True)
class StepsFields(TypedDict):
    """`GET /_ors/sessions/{id}/steps`."""

    steps: list[JSONObject]
    total: Count


@with_config(strict=True)
class CallKind(TypedDict):
    """`POST /_ors/sessions/{id}/calls`; the kind says what else it has."""

    kind: Literal["completed", "refused", "failed"]


@with_config(strict=True)
class CompletedFields(TypedDict):
    """A call that ran."""

    output: JSONObject
    step: Count | None
    is_error: bool


@with_config(strict=True)
class RefusedFields(TypedDict):
    """A call that did not run, through the agent's fault."""

    detail: str
    reason: str
    step: Count | None


@with_config(strict=True)
class DetailFields(TypedDict):
    """What a refused and a failed call have."""

    detail: str


@with_config(strict=True)
class FailedFields(TypedDict):
    """A call that failed."""

    code: str
    blame: str
    detail: str


@with_config(strict=True)
class SessionIdFields(TypedDict):
    """What every creation of a session answers."""

    session_id: str


@with_config(strict=True)
class _NameFields(TypedDict):
    name: str


@with_config(strict=True)
class EnvironmentNameFields(TypedDict):
    """What is read of `GET /_ors/environments`."""

    environments: Annotated[list[_NameFields], Field(min_length=1)]


@with_config(strict=True)
class SplitNameFields(TypedDict):
    """What is read of the splits of `GET /_ors/environments/{name}`."""

    splits: Annotated[list[_NameFields], Field(min_length=1)]


@with_config(strict=True)
class TaskCountFields(TypedDict):
    """The standard's `num_tasks`."""

    num_tasks: Count


@with_config(strict=True)
class TaskFields(TypedDict):
    """The standard's `task`."""

    task: JSONObject


@with_config(strict=True)
class TaskRangeFields(TypedDict):
    """The standard's `task_range`."""

    tasks: list[JSONObject]


@with_config(strict=True)
class PolicyFields(TypedDict):
    """What is read of an environment's policy."""

    step_limit: NotRequired[Count | None]
    reward_range: NotRequired[Annotated[list[float], Field(min_length=2, max_length=2)] | None]


@with_config(strict=True)
class EnvironmentFields(TypedDict):
    """What is read of `GET /_ors/environments/{name}`."""

    version: str
    policy: PolicyFields


def read_answer(kind: type[_Kind], value: object, source: str) -> _Kind:
    """Return a value of an answer as a type; unknown names of objects are left out.

    Args:
        source: What the value is, for errors: `the answer of /list_environments`.

    Raises:
        BrokenAnswerError: If it has another form.
    """
    try:
        adapter: TypeAdapter[_Kind] = _adapter(kind)  # type: ignore[arg-type]
        return adapter.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = "".join(f"{part!s:.40}: " for part in first["loc"])
        raise BrokenAnswerError(
            f"{source} does not have its form: {place}{first['msg']}; got {shown_value(value)}"
        ) from error


@cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
