"""Every format by its name, and the way of an episode through it.

```python
async for line in export_lines(reader.stream(), make_form("trl"), Tally()):
    ...
```
"""

import json
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TypeAlias

from ors_server.errors import ClientError
from ors_server.export import tables
from ors_server.export.chat import ChatOptions, openai_row
from ors_server.export.episodes import UNFINISHED, Episode, LeftOutError, Tally, is_played_out
from ors_server.export.plain import episode_rows, plain_row, step_rows
from ors_server.export.sharegpt import sharegpt_row
from ors_server.export.trl import trl_row
from ors_server.export.verl import VerlOptions, verl_row
from ors_server.trajectory import EpisodeRecord, Step
from ors_server.wire import JSONObject

Rows: TypeAlias = Callable[[EpisodeRecord, Sequence[Step]], Iterable[JSONObject]]


class UnknownFormatError(ClientError):
    """No format has that name."""

    code = "unknown_format"


@dataclass(frozen=True, slots=True)
class FormOptions:
    """What can be asked of a format."""

    chat: ChatOptions = field(default_factory=lambda: ChatOptions({}))
    with_episode: bool = False
    """Whether rows of `openai` say more than the fine-tuning format knows."""
    verl: VerlOptions = field(default_factory=VerlOptions)


@dataclass(frozen=True, slots=True)
class Form:
    """How episodes become rows."""

    rows: Rows
    """May raise `LeftOutError`."""
    columns: Mapping[str, str] | None = None
    """Types of a parquet file's columns (`tables.type_of`); `None` for lines of JSON."""
    is_for_training: bool = True
    """Whether an episode that was not played to its end is out of place."""


def _single(row: Callable[[EpisodeRecord, Sequence[Step]], JSONObject]) -> Rows:
    return lambda record, steps: (row(record, steps),)


_MAKERS: Mapping[str, Callable[[FormOptions], Form]] = MappingProxyType(
    {
        "openai": lambda options: Form(
            _single(partial(openai_row, options=options.chat, with_episode=options.with_episode))
        ),
        "sharegpt": lambda options: Form(_single(partial(sharegpt_row, options=options.chat))),
        "trl": lambda options: Form(_single(partial(trl_row, options=options.chat))),
        "verl": lambda options: Form(
            _single(partial(verl_row, options=options.chat, extra=options.verl)), tables.VERL
        ),
        "plain": lambda _: Form(_single(plain_row), is_for_training=False),
        "episodes": lambda _: Form(episode_rows, tables.EPISODES, is_for_training=False),
        "steps": lambda _: Form(step_rows, tables.STEPS, is_for_training=False),
    }
)
FORMATS = tuple(_MAKERS)
"""Names of all formats."""


def make_form(name: str, options: FormOptions | None = None) -> Form:
    """Return a format.

    Args:
        name: One of `FORMATS`.

    Raises:
        UnknownFormatError: If there is none of that name.
    """
    maker = _MAKERS.get(name)
    if maker is None:
        raise UnknownFormatError(f"no format {name!r}; there are {', '.join(FORMATS)}")
    return maker(options or FormOptions())


async def export_rows(
    episodes: AsyncIterable[Episode], form: Form, tally: Tally, *, include_unfinished: bool = False
) -> AsyncGenerator[JSONObject, None]:
    """Turn episodes into rows, one after the other, keeping none of them.

    Args:
        episodes: The episodes with their steps, for instance `RecordReader.stream(...)`; a generator is
            closed at the end.
        include_unfinished: Whether a format for training takes those that were not played to their end.
    """
    async with _closing(episodes):
        async for record, steps in episodes:
            tally.episodes += 1
            if form.is_for_training and not include_unfinished and not is_played_out(record.summary):
                tally.left_out[UNFINISHED] += 1
                continue
            try:
                rows = form.rows(record, steps)
            except LeftOutError as reason:
                tally.left_out[str(reason)] += 1
                continue
            tally.steps += len(steps)
            for row in rows:
                tally.rows += 1
                yield row


@asynccontextmanager
async def _closing(episodes: AsyncIterable[Episode]) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        if isinstance(episodes, AsyncGenerator):
            await episodes.aclose()


async def export_lines(
    episodes: AsyncIterable[Episode], form: Form, tally: Tally, *, include_unfinished: bool = False
) -> AsyncGenerator[str, None]:
    """Turn episodes into lines of JSON, each with its line break.

    Args:
        episodes: As for `export_rows`.
        include_unfinished: As for `export_rows`.
    """
    async with aclosing(export_rows(episodes, form, tally, include_unfinished=include_unfinished)) as rows:
        async for row in rows:
            yield as_line(row)


def as_line(row: JSONObject) -> str:
    """Return a row as one line of JSON with its line break.

    Args:
        row: The row; a number that JSON does not know is refused.
    """
    return f"{json.dumps(row, ensure_ascii=False, allow_nan=False)}\n"
