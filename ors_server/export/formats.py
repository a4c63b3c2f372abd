"""Every export format by its name, and the functions that write episodes in one.

`export_lines(reader.stream(), make_format("trl"), ExportCounts())` writes lines.
"""

import json
import re
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TypeAlias

from ors_server.export import tables
from ors_server.export.chat import ConversationOptions, openai_row
from ors_server.export.episodes import (
    UNFINISHED,
    UNJUDGED,
    Episode,
    ExportCounts,
    LeftOutError,
    is_played_out,
)
from ors_server.export.plain import episode_rows, plain_row, step_rows
from ors_server.export.sharegpt import sharegpt_row
from ors_server.export.trl import trl_row
from ors_server.export.verl import VerlOptions, verl_row
from ors_server.export.wide_integers import with_texts
from ors_server.model.errors import ClientError
from ors_server.model.trajectory import EpisodeRecord, Step
from ors_server.model.wire import JSONObject

Rows: TypeAlias = Callable[[EpisodeRecord, Sequence[Step]], Iterable[JSONObject]]


class UnknownFormatError(ClientError):
    """No format has that name."""

    code = "unknown_format"


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """Options of the formats."""

    chat: ConversationOptions = field(default_factory=lambda: ConversationOptions({}))
    with_episode: bool = False
    """Whether rows of `openai` have the key `episode`, which the fine-tuning format does not know."""
    verl: VerlOptions = field(default_factory=VerlOptions)


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """How episodes become rows."""

    rows: Rows
    """May raise `LeftOutError`."""
    columns: Mapping[str, str] | None = None
    """Types of a parquet file's columns (`tables.type_of`); `None` for lines of JSON."""
    is_for_training: bool = True
    """Whether episodes are left out that are unfinished, or in which a judgement failed."""


def _single(row: Callable[[EpisodeRecord, Sequence[Step]], JSONObject]) -> Rows:
    return lambda record, steps: (row(record, steps),)


_MAKERS: Mapping[str, Callable[[FormatOptions], ExportFormat]] = MappingProxyType(
    {
        "openai": lambda options: ExportFormat(
            _single(partial(openai_row, options=options.chat, with_episode=options.with_episode))
        ),
        "sharegpt": lambda options: ExportFormat(_single(partial(sharegpt_row, options=options.chat))),
        "trl": lambda options: ExportFormat(_single(partial(trl_row, options=options.chat))),
        "verl": lambda options: ExportFormat(
            _single(partial(verl_row, options=options.chat, extra=options.verl)), tables.VERL
        ),
        "plain": lambda _: ExportFormat(_single(plain_row), is_for_training=False),
        "episodes": lambda _: ExportFormat(episode_rows, tables.EPISODES, is_for_training=False),
        "steps": lambda _: ExportFormat(step_rows, tables.STEPS, is_for_training=False),
    }
)
_WIDE = re.compile(r"[0-9]{19}")
"""Found wherever an integer may have more than 64 bits."""
_LINE_ENDS = re.compile("[\x85\u2028\u2029]")
"""Characters that end a line for `str.splitlines` and not in JSON, which has them only in strings."""
FORMATS = tuple(_MAKERS)
"""Names of all formats."""


def make_format(name: str, options: FormatOptions | None = None) -> ExportFormat:
    """Return the format of a name in `FORMATS`; raises `UnknownFormatError` for another one."""
    maker = _MAKERS.get(name)
    if maker is None:
        raise UnknownFormatError(f"unknown format {name!r}; expected one of {', '.join(FORMATS)}")
    return maker(options or FormatOptions())


async def export_rows(
    episodes: AsyncIterable[Episode],
    form: ExportFormat,
    counts: ExportCounts,
    *,
    include_unfinished: bool = False,
) -> AsyncGenerator[JSONObject, None]:
    """Write episodes as rows, one at a time, and close `episodes` if it is a generator.

    `include_unfinished` adds unfinished episodes to formats for training.
    """
    async with _closing(episodes):
        async for record, steps in episodes:
            counts.episodes += 1
            if form.is_for_training and record.summary.unjudged_steps:
                counts.left_out[UNJUDGED] += 1
                continue
            if form.is_for_training and not include_unfinished and not is_played_out(record.summary):
                counts.left_out[UNFINISHED] += 1
                continue
            try:
                rows = form.rows(record, steps)
            except LeftOutError as reason:
                counts.left_out[str(reason)] += 1
                continue
            counts.steps += len(steps)
            for row in rows:
                counts.rows += 1
                yield row


@asynccontextmanager
async def _closing(episodes: AsyncIterable[Episode]) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        if isinstance(episodes, AsyncGenerator):
            await episodes.aclose()


async def export_lines(
    episodes: AsyncIterable[Episode], form: ExportFormat, counts: ExportCounts
) -> AsyncGenerator[str, None]:
    """Write finished episodes as lines of JSON, each with its line break."""
    async with aclosing(export_rows(episodes, form, counts)) as rows:
        async for row in rows:
            yield as_line(row)


def as_line(row: JSONObject) -> str:
    """Return a row as one line of JSON with its line break; NaN and infinities are refused.

    Integers of more than 64 bits are texts. What some readers take for the end of a line is escaped.
    """
    line = json.dumps(row, ensure_ascii=False, allow_nan=False)
    # A search in the text is much cheaper than a walk over every row, and few rows have such integers.
    if _WIDE.search(line):
        line = json.dumps(with_texts(row)[0], ensure_ascii=False, allow_nan=False)
    return f"{_LINE_ENDS.sub(_escape, line)}\n"


def _escape(character: re.Match[str]) -> str:
    return f"\\u{ord(character[0]):04x}"
