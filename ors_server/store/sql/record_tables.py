"""The database tables, as the newest migration leaves them.

An episode is split by how often its parts change: its origin is written once (`episodes`), its summary with
every step (`standings`), its steps are only added. What is not searched for is in a `body` of JSON, as
`ors_server.model.recording` writes it, with a `digest` of its text (`column_values.row_digest`; empty in
rows of older servers). Times are microseconds since 1970 in UTC, which a signed 64-bit number holds
exactly.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)

from ors_server.store.aggregates import GROUP_COLUMNS, SUMS

Whole = BigInteger().with_variant(Integer(), "sqlite")
"""A 64-bit integer; SQLite assigns row numbers only to a column of exactly this type."""
Name = Text().with_variant(Text(collation="C"), "postgresql")
"""A text that is compared code point by code point, on every database."""

metadata = MetaData()


def _digest() -> Column[str]:
    return Column("digest", Name, nullable=False, server_default="")


episodes = Table(
    "episodes",
    metadata,
    Column("key", Whole, primary_key=True, autoincrement=True),
    Column("episode_id", Name, nullable=False, unique=True),
    Column("session_id", Name, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("environment", Name, nullable=False),
    Column("split", Name),
    Column("task_index", BigInteger),
    Column("task_hash", Name, nullable=False),
    Column("credential_id", Name),
    Column("environment_version", Name, nullable=False, server_default=""),
    Column("server_version", Name, nullable=False, server_default=""),
    Column("forked_from", Name),
    Column("run", Name, nullable=False, server_default=""),
    Column("agent", Name, nullable=False, server_default=""),
    Column("body", Text, nullable=False),
    _digest(),
    Index("episodes_by_time", "created_at", "episode_id"),
    Index("episodes_by_environment", "environment", "created_at", "episode_id"),
    Index("episodes_by_session", "session_id", "key"),
    Index("episodes_by_task", "task_hash", "created_at"),
    Index("episodes_by_run", "run", "created_at", "episode_id"),
    Index("episodes_by_split", "split", "created_at", "episode_id"),
    Index("episodes_in_task_order", "environment", "split", "task_index", "task_hash"),
)
"""The parts of an episode that never change. `forked_from` is the session of the episode that a fork began
as; `run` and `agent` are the labels of these names, empty without one.
"""


def _episode() -> Column[int]:
    return Column(
        "episode",
        Whole,
        ForeignKey("episodes.key", ondelete="CASCADE"),
        primary_key=True,
        autoincrement=False,
    )


standings = Table(
    "standings",
    metadata,
    _episode(),
    Column("phase", Name, nullable=False),
    Column("stop_reason", Name),
    Column("steps", BigInteger, nullable=False),
    Column("episode_return", Double, nullable=False),
    Column("ungraded_steps", BigInteger, nullable=False, server_default="0"),
    Column("failed_steps", BigInteger, nullable=False, server_default="0"),
    Column("refused_steps", BigInteger, nullable=False, server_default="0"),
    Column("penalised_steps", BigInteger, nullable=False, server_default="0"),
    Column("unjudged_steps", BigInteger, nullable=False, server_default="0"),
    Column("result", Name, nullable=False, server_default="live"),
    Column("duration", Double),
    Column("touched_at", BigInteger, nullable=False),
    Column("closed_at", BigInteger),
    Column("body", Text, nullable=False),
    _digest(),
    Index("standings_by_closing", "closed_at"),
)
"""The latest summary of an episode. The numbers of steps also count what older servers left out of it.
`result` is `trajectory.result_of`; `duration` the seconds from the setup's end to the episode's.
`closed_at` is the time when its session ended, empty before; it is later
than that of every episode that was closed before, even if the clock is set back.
"""

steps = Table(
    "steps",
    metadata,
    _episode(),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("reward", Double),
    Column("tool", Name, nullable=False, server_default=""),
    Column("status", Name, nullable=False, server_default=""),
    Column("blame", Name),
    Column("started_at", BigInteger, nullable=False, server_default="0"),
    Column("duration", Double, nullable=False, server_default="0"),
    Column("body", Text, nullable=False),
    _digest(),
    Column("blobs", Text),
)
"""One row for every tool call; `blame` is who has to act for its error to go away, `blobs` names the blocks
whose texts are blobs.
"""

moves = Table(
    "moves",
    metadata,
    _episode(),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("body", Text, nullable=False),
    _digest(),
)
"""The transitions of an episode, in order."""

tool_uses = Table(
    "tool_uses",
    metadata,
    _episode(),
    Column("tool", Name, primary_key=True),
    Index("tool_uses_by_tool", "tool", "episode"),
)
"""The tools that the steps of an episode name."""

totals = Table(
    "totals",
    metadata,
    *(Column(name, Name, primary_key=True) for name in GROUP_COLUMNS),
    *(Column(name, BigInteger, nullable=False) for name in SUMS if not name.startswith("return_")),
    *(
        Column(name, Double, nullable=False)
        for name in ("return_sum", "return_squares", "least_return", "greatest_return")
    ),
    Column("last_at", BigInteger, nullable=False),
)
"""Sums over the closed episodes that agree in the key (`aggregates.EpisodeGroup`). The open ones are few, and
are summed up when a reader asks.
"""

call_minutes = Table(
    "call_minutes",
    metadata,
    Column("minute", BigInteger, primary_key=True, autoincrement=False),
    Column("writer", BigInteger, primary_key=True, autoincrement=False),
    *(Column(name, BigInteger, nullable=False) for name in ("calls", "refused", "failed")),
)
"""Calls by the minute in which they began, in minutes since 1970 in UTC, and by the process that wrote them:
two processes would wait for each other's transactions if they counted in one row.
"""

incidents = Table(
    "incidents",
    metadata,
    _episode(),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("body", Text, nullable=False),
    _digest(),
)
"""What happened to an episode besides its steps and transitions, in order."""

notes = Table(
    "notes",
    metadata,
    Column("note_id", Name, primary_key=True),
    Column("episode", Whole, ForeignKey("episodes.key", ondelete="CASCADE"), nullable=False),
    Column("author", Name, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("text", Text, nullable=False),
    Column("verdict", Name),
    Column("step", BigInteger),
    Index("notes_by_episode", "episode", "at", "note_id"),
)
"""Remarks about episodes, apart from the record."""

prompts = Table(
    "prompts",
    metadata,
    _episode(),
    Column("body", Text, nullable=False),
    _digest(),
    Column("blobs", Text),
)
"""The prompts of the agents."""

labels = Table(
    "labels",
    metadata,
    _episode(),
    Column("name", Name, primary_key=True),
    Column("value", Name, nullable=False),
    Index("labels_by_value", "name", "value"),
)
"""The labels that the creator of the session gave the episode."""

attempts = Table(
    "attempts",
    metadata,
    _episode(),
    *(Column(name, Name, nullable=False) for name in ("credential_id", "environment", "split")),
    Column("task_index", BigInteger, nullable=False),
    Column("number", BigInteger, nullable=False),
    Index("attempts_by_task", "credential_id", "environment", "split", "task_index", "number", unique=True),
)
"""Which attempt of its key at its task an episode is, where their number is limited. It is a separate table
because an episode gets its number only after it was written."""

blobs = Table(
    "blobs",
    metadata,
    Column("sha256", Name, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("data", LargeBinary),
)
"""Long texts by the hash of their UTF-8; `data` is empty where they are files."""

blob_uses = Table(
    "blob_uses",
    metadata,
    _episode(),
    Column("sha256", Name, ForeignKey("blobs.sha256"), primary_key=True),
    Index("blob_uses_by_blob", "sha256"),
)
"""The references of episodes to blobs."""

shared_values = Table(
    "shared_values",
    metadata,
    Column("name", Name, primary_key=True),
    Column("value", LargeBinary, nullable=False),
)
"""What the servers of this record share, by name: a random secret, when one of them was last alive, and which
server with several hosts uses it."""

hosts = Table(
    "hosts",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("epoch", BigInteger, nullable=False),
    Column("address", Text, nullable=False),
    Column("draining", BigInteger, nullable=False),
)
"""The hosts of a server with several of them; every batch of a host checks the epoch in its row."""

slots = Table(
    "slots",
    metadata,
    Column("slot", BigInteger, primary_key=True, autoincrement=False),
    Column("host", BigInteger, nullable=False),
)
"""The host of each slot of session ids."""
