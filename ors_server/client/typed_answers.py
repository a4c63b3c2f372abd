"""Reads the JSON of a server's answers as the types that this version knows.

Another server, or a hostile one, may send anything: a value of another type is its fault, and never reaches
the code that uses it.
"""

from functools import cache
from itertools import islice
from reprlib import Repr
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, TypeAlias, TypeVar

from pydantic import Field, InstanceOf, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict, override

from ors_server.client.bounded_http import MAX_SHOWN_CHARACTERS, BrokenAnswerError
from ors_server.model.wire import JSONObject, Rows


class _ShownRepr(Repr):
    @override
    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        # All names would be sorted first, which takes long for 250,000.
        return super().repr_dict(dict(islice(x.items(), self.maxdict + 1)), level)


_shown = _ShownRepr()
_shown.maxstring = MAX_SHOWN_CHARACTERS
shown_value = _shown.repr
"""Returns the beginning of a value as it would be written in Python, in about 1,000 characters at most."""
MAX_COUNT = 10**9
"""Maximum number of tasks of a split, or steps of an episode."""
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]

GivenObject: TypeAlias = InstanceOf[JSONObject]
"""An object of an answer as it is: pydantic copies a `dict` name by name, 600,000 of them in 250 ms."""
MAX_LISTED = 10_000
"""Maximum number of splits of an environment, messages of a prompt, and environments of a server."""
if TYPE_CHECKING:
    LISTED: TypeAlias = list[Any]
    NAMES: TypeAlias = list[str]
else:  # type checkers take no `Annotated` for a class
    LISTED = Annotated[list[Any], Field(max_length=MAX_LISTED)]
    NAMES = Annotated[list[str], Field(max_length=MAX_LISTED)]
MAX_PROBLEMS = 1_000
"""Above this many validation errors, only their number is reported."""

_Kind = TypeVar("_Kind")


# Strict throughout: otherwise pydantic would take the text "7" for the number.
@with_config(strict=True)
class VersionFields(TypedDict):
    """`GET /_ors/version`."""

    name: str
    version: str


@with_config(strict=True)
class StatusFields(TypedDict):
    """The fields of a session's status that are read."""

    environment: str
    episode_id: str
    task_hash: str


@with_config(strict=True)
class AccessFields(TypedDict):
    """The URLs and the token with which an agent reaches a session."""

    agent_token: NotRequired[str]
    agent_url: NotRequired[str]
    mcp_url: NotRequired[str]


@with_config(strict=True)
class CreatedFields(AccessFields):
    """`POST /_ors/sessions`, and an entry of a fork's answer."""

    session_id: str
    status: StatusFields


@with_config(strict=True)
class PlayedFields(TypedDict):
    """What is read of the extension's method `episode`, besides the figures."""

    environment: str


@with_config(strict=True)
class McpAccessFields(TypedDict):
    """The extension's method `create`, where the server has tokens of agents."""

    agent_token: str
    agent_path: str
    path: str


@with_config(strict=True)
class McpFigures(TypedDict, total=False):
    """The figures of a step in the `_meta` of its result."""

    step: Count | None
    refused: str | None
    finished: bool
    reward: float | None
    metadata: GivenObject | None
    failed: GivenObject | None


@with_config(strict=True)
class ForkFields(TypedDict):
    """`POST /_ors/sessions/{id}/fork`."""

    sessions: Rows[CreatedFields]


@with_config(strict=True)
class StepsFields(TypedDict):
    """`GET /_ors/sessions/{id}/steps`."""

    steps: Rows[GivenObject]
    total: Count


@with_config(strict=True)
class CallKind(TypedDict):
    """`POST /_ors/sessions/{id}/calls`; the kind says what else it has."""

    kind: Literal["completed", "refused", "failed"]


@with_config(strict=True)
class CompletedFields(TypedDict):
    """A call that ran."""

    output: GivenObject
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
    """The field that a refused and a failed call share."""

    detail: str


@with_config(strict=True)
class FailedFields(TypedDict):
    """A call that failed."""

    code: str
    blame: str
    detail: str


@with_config(strict=True)
class SessionIdFields(TypedDict):
    """The field that every answer to a session's creation has."""

    session_id: str


@with_config(strict=True)
class _NameFields(TypedDict):
    name: str


@with_config(strict=True)
class EnvironmentNameFields(TypedDict):
    """The fields of `GET /_ors/environments` that are read."""

    environments: Annotated[Rows[_NameFields], Field(min_length=1)]


@with_config(strict=True)
class SplitNameFields(TypedDict):
    """The splits in `GET /_ors/environments/{name}`."""

    splits: Annotated[Rows[_NameFields], Field(min_length=1)]


@with_config(strict=True)
class TaskCountFields(TypedDict):
    """The standard's `num_tasks`."""

    num_tasks: Count


@with_config(strict=True)
class TaskFields(TypedDict):
    """The standard's `task`."""

    task: GivenObject


@with_config(strict=True)
class TaskRangeFields(TypedDict):
    """The standard's `task_range`."""

    tasks: Rows[GivenObject]


@with_config(strict=True)
class PolicyFields(TypedDict):
    """The fields of an environment's policy that are read."""

    step_limit: NotRequired[Count | None]
    reward_range: NotRequired[Annotated[list[float], Field(min_length=2, max_length=2)] | None]


@with_config(strict=True)
class EnvironmentFields(TypedDict):
    """The fields of `GET /_ors/environments/{name}` that are read."""

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
        raise BrokenAnswerError(
            f"{source} is malformed: {first_problem(error)}; got {shown_value(value)}"
        ) from error


def first_problem(error: ValidationError) -> str:
    """Return the place of the first mistake and what is wrong; of very many, only how many they are."""
    count = error.error_count()
    if count > MAX_PROBLEMS:  # pydantic makes an object of each before the first can be looked at
        return f"{count} values are missing or of another type"
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return "".join(f"{part!s:.40}: " for part in first["loc"]) + first["msg"]


@cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
