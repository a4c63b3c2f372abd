"""Writes every part of a record as JSON and reads it back, without loss.

Times are ISO 8601 with their offset; field names are those of `ors_server.model.trajectory`.
"""

import json
from collections.abc import Callable
from functools import cached_property
from hashlib import sha256
from typing import Any, Generic, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from ors_server.model.errors import EnvironmentFailedError, RecordError
from ors_server.model.trajectory import (
    Blocks,
    EpisodeOrigin,
    EpisodeRecord,
    EpisodeSummary,
    Incident,
    Step,
    Transition,
)
from ors_server.model.wire import JSONObject

Part = TypeVar("Part")


class JsonCodec(Generic[Part]):
    """Writes and reads one type of part."""

    def __init__(self, kind: Any, name: str) -> None:
        self._kind = kind
        self._name = name

    # On first use: those of a record take a twentieth of the time that `import ors_server` and a class take,
    # and most programs that define a class write no record.
    @cached_property
    def _adapter(self) -> TypeAdapter[Part]:
        return TypeAdapter(self._kind)

    @cached_property
    def write(self) -> Callable[[Part], bytes]:
        """Returns a part as one line of JSON in UTF-8.

        It is the serialiser's own method: a step costs one call less.
        """
        return self._adapter.serializer.to_json

    def as_json(self, part: Part) -> Any:
        """Return a part as JSON types."""
        return self._adapter.dump_python(part, mode="json")

    def read(self, text: str | bytes) -> Part:
        """Read what `write` wrote; `RecordError` if it has another form."""
        try:
            return self._adapter.validate_json(text)
        except ValidationError as error:
            raise RecordError(self._mistake(error)) from error

    def of_json(self, value: object) -> Part:
        """Read what `as_json` gave; `RecordError` if it has another form."""
        try:
            return self._adapter.validate_python(value)
        except ValidationError as error:
            raise RecordError(self._mistake(error)) from error

    def _mistake(self, error: ValidationError) -> str:
        first = cast("dict[str, Any]", error.errors(include_url=False, include_input=False)[0])
        location = ".".join(str(part) for part in first["loc"]) or "the value"
        return f"invalid {self._name}: {location}: {first['msg']}"


def task_digest(task_spec: JSONObject) -> str:
    """Return the SHA-256 of a task's canonical JSON (sorted keys, no spaces, ASCII), hexadecimal.

    Raises:
        EnvironmentFailedError: If it is not JSON, or holds NaN or an infinity.
    """
    try:
        text = json.dumps(task_spec, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise EnvironmentFailedError(f"the task is not JSON: {error}") from error
    return sha256(text.encode()).hexdigest()


STEP: JsonCodec[Step] = JsonCodec(Step, "step")
ORIGIN: JsonCodec[EpisodeOrigin] = JsonCodec(EpisodeOrigin, "origin of an episode")
SUMMARY: JsonCodec[EpisodeSummary] = JsonCodec(EpisodeSummary, "summary of an episode")
TRANSITION: JsonCodec[Transition] = JsonCodec(Transition, "transition of an episode")
INCIDENT: JsonCodec[Incident] = JsonCodec(Incident, "incident of an episode")
BLOCKS: JsonCodec[Blocks] = JsonCodec(Blocks, "list of blocks")
RECORD: JsonCodec[EpisodeRecord] = JsonCodec(EpisodeRecord, "record of an episode")
