"""Rows of this server's table of steps (`ors-server export steps`): one call and its result each."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ors_server.rewards.transcripts.turns import (
    ASSISTANT,
    Event,
    SaidTurn,
    ToolAnswer,
    WrittenCall,
    as_arguments,
    as_id,
    as_name,
    as_text,
    key_table,
    unexpected_error,
)

STATUSES: Final = {"graded": None, "ungraded": None, "refused": True, "failed": True, "cancelled": True}
"""Statuses of a step to whether its call failed."""
_ROW: Final = key_table(
    "a row of steps",
    "number call_id tool arguments status result",
    "episode_id reward earned components finished error_code metadata started_at duration",
)


def is_step_row(row: Mapping[str, Any]) -> bool:
    """Whether a row is one of the table of steps."""
    return "tool" in row and "number" in row


def read_step_row(row: Mapping[str, Any], where: str) -> Iterator[Event]:
    """Read one row.

    Raises:
        TranscriptError: A key of it is not understood.
    """
    _ROW.check(row, where)
    call_id = as_id(row.get("call_id"), f"{where}: call_id")
    name = as_name(row["tool"], f"{where}: tool")
    status = row.get("status")
    if status not in STATUSES:
        raise unexpected_error(where, "status", status, STATUSES)
    yield SaidTurn(ASSISTANT, calls=(WrittenCall(name, as_arguments(row.get("arguments")), call_id),))
    yield ToolAnswer(as_text(row.get("result"), f"{where}: result"), call_id, name, STATUSES[status])
