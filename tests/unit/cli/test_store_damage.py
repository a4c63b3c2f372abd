"""Damages every table, column and kind of row of a varied record, and asks what `store verify` finds."""
# ruff: noqa: S608  (statements over the tables of the record itself)

import json
import shutil
import sqlite3
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import anyio
import pytest

from ors_server import EpisodePolicy, ImageBlock, TextBlock, ToolError, ToolOutput, tool
from ors_server.cli.main import main
from ors_server.model.errors import OrsServerError
from ors_server.model.trajectory import Incident, IncidentKind
from ors_server.store.location import parse_location
from ors_server.store.open import open_store
from ors_server.store.sql.record_tables import metadata
from ors_server.store.sql.verification import verify
from ors_server.store.store_options import StoreOptions
from ors_server.testing.local_client import LocalClient, open_environment
from tests.fixtures.single_task import SingleTask

SHORT_LIMIT = 1024
UNKNOWABLE = {
    "call_minutes.writer": "which process wrote the calls; nothing repeats it",
    **{
        f"call_minutes.{name}": "greater by the calls of pruned episodes; fewer than on record are found"
        for name in ("calls", "refused", "failed")
    },
    "standings.touched_at": "a time that only retention reads, and that nothing repeats",
    "incidents row": "nothing counts the incidents of an episode; one that is missing before others is found",
    "shared_values row": "made again when it is missing, with a new secret: tokens of agents end",
    "shared_values.name": "as a row that is missing",
    "shared_values.value": "random: any other secret is as good, and tokens of agents end",
    "standings.closed_at": "a time that nothing repeats; none looks like a crash before the closing",
}
"""Columns whose change cannot be known, and why."""


class Workshop(SingleTask):
    """Pays, charges, fails, shows images and long texts, and ends."""

    policy = EpisodePolicy(tool_error_penalty=0.25, invalid_call_penalty=0.5, discount=0.5)

    @classmethod
    def list_tasks(cls, split: str) -> list[dict[str, Any]]:
        return [{"name": f"{split}-{number}"} for number in range(4)]

    async def save_state(self) -> dict[str, Any]:
        return {}

    async def load_state(self, state: dict[str, Any]) -> None:
        pass

    def get_prompt(self) -> list[TextBlock]:
        name = self.task_spec["name"]
        return [TextBlock(text=f"Work on {name}."), TextBlock(text=f"{name} manual. " * 200)]

    @tool
    async def work(self, reward: float, *, finished: bool = False) -> ToolOutput:
        """Pays."""
        return ToolOutput(blocks=[TextBlock(text=f"paid {reward}")], reward=reward, finished=finished)

    @tool
    async def look(self, what: str) -> ToolOutput:
        """Shows an image and a long text, and judges nothing."""
        image = b64encode(f"{self.task_spec['name']} {what} ".encode() * 100).decode()
        text = f"{self.task_spec['name']} {what} text. " * 200
        return ToolOutput(blocks=[ImageBlock(data=image, mimeType="image/png"), TextBlock(text=text)])

    @tool
    async def refuse(self) -> ToolOutput:
        """Refuses."""
        raise ToolError("not like this")

    @tool
    async def crash(self) -> ToolOutput:
        """Has a defect."""
        raise RuntimeError("broken")


async def play(client: LocalClient, index: int, calls: Sequence[tuple[str, dict[str, Any]]], **wishes: Any):
    labels = {"run": f"r{index}", "try": "1"}
    session = await client.create(split="train", index=index, labels=labels, **wishes)
    await session.prompt()
    for name, arguments in calls:
        with suppress(OrsServerError):
            await session.call(name, **arguments)
    return session


WHOLE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("work", {"reward": 0.5}),
    ("look", {"what": "saw"}),
    ("refuse", {}),
    ("crash", {}),
    ("work", {"reward": 0.125}),
)


async def record_episodes(path: Path) -> None:
    """Write a finished, a deleted, a held-back, an unplayed and an open episode."""
    store = await open_store(str(path), StoreOptions(blob_bytes=SHORT_LIMIT))
    async with open_environment(Workshop, store=store) as client:
        done = await play(client, 0, (*WHOLE, ("work", {"reward": 1.0, "finished": True})))
        left = await play(client, 1, (*WHOLE, ("look", {"what": "plane"}), ("nonesuch", {})))
        last = ("work", {"reward": 2.0, "finished": True})
        held = await play(client, 2, (*WHOLE, last), policy={"emit": "final"})
        idle = await play(client, 3, ())
        for session in (done, left, held, idle):
            await session.aclose()
        live = await play(client, 3, (("work", {"reward": 0.25}), ("look", {"what": "file"})))
        record = await store.find(live.id)
        assert record is not None
        rebuilt = Incident(IncidentKind.REBUILT, datetime(2026, 1, 1, tzinfo=UTC), "rebuilt")
        await store.record_incident(record.origin.episode_id, rebuilt)
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(f"{path}.open")) as copy:
            source.backup(copy)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The record as it is while the last episode is still open."""
    path = tmp_path_factory.mktemp("damage") / "episodes.db"
    anyio.run(record_episodes, path)
    copy = path.with_name("open.db")
    Path(f"{path}.open").rename(copy)
    shutil.copytree(f"{path}.blobs", f"{copy}.blobs")
    return copy


async def record_forks(path: Path) -> None:
    store = await open_store(str(path), StoreOptions(blob_bytes=SHORT_LIMIT))
    async with open_environment(Workshop, store=store) as client:
        parent = await play(client, 0, WHOLE)
        (fork,) = await parent.fork()
        (untouched,) = await parent.fork()
        await fork.call("work", reward=0.25, finished=True)
        for session in (parent, fork, untouched):
            await session.aclose()
    await store.aclose()


def test_forks_are_sound(tmp_path):
    path = tmp_path / "episodes.db"
    anyio.run(record_forks, path)
    assert findings_of(path) == []


def findings_of(path: Path) -> list[str]:
    found = verify(parse_location(str(path)))
    return [finding.text for finding in found.findings] + list(found.leftovers)


NOT_VERIFIED = {
    "notes",  # what people say of episodes
    "hosts",  # where the hosts are now
    "slots",  # which host has which sessions now
    "attempts",  # which of its attempts at a task a key has used
}
"""Tables that are no part of what an episode was."""

Damage = tuple[str, str, str]
"""What is damaged (`table.column` or `table row`), how, and the statement that does it."""


def literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int | float) else "'" + str(value).replace("'", "''") + "'"


def changed(value: Any) -> Any:
    if value is None:
        return 7
    return value + 1 if isinstance(value, int | float) else f"{value}x"


def rows_of(connection: sqlite3.Connection, table: str) -> list[sqlite3.Row]:
    return list(connection.execute(f"SELECT rowid AS place, * FROM {table} ORDER BY rowid"))


def column_damages(table: str, rows: list[sqlite3.Row], column: str) -> Iterator[Damage]:
    kinds = {json.dumps(kind_of(table, row)): row for row in rows}
    for row in kinds.values():
        where = f"WHERE rowid = {row['place']}"
        place, value = f"{table}.{column}", row[column]
        yield place, "change", f"UPDATE {table} SET {column} = {literal(changed(value))} {where}"
        if value is not None:
            yield place, "null", f"UPDATE {table} SET {column} = NULL {where}"
        other = next((one for one in rows if one[column] != value), None)
        if other is not None:
            swap = f"CASE rowid WHEN {row['place']} THEN {literal(other[column])} ELSE {literal(value)} END"
            both = f"WHERE rowid IN ({row['place']}, {other['place']})"
            yield place, "swap", f"UPDATE {table} SET {column} = {swap} {both}"


def kind_of(table: str, row: sqlite3.Row) -> Any:
    """What tells rows of a table apart: one row of each kind is damaged."""
    if table == "steps":
        body = json.loads(row["body"])
        return [body["status"], body["finished"], row["blobs"] is None]
    if table == "moves":
        return json.loads(row["body"])["event"]
    if table == "standings":
        return [row["phase"], row["stop_reason"], row["closed_at"] is None]
    return table


def row_damages(table: str, rows: list[sqlite3.Row]) -> Iterator[Damage]:
    for row in {json.dumps(kind_of(table, row)): row for row in rows}.values():
        where = f"WHERE rowid = {row['place']}"
        yield f"{table} row", "delete", f"DELETE FROM {table} {where}"
        if table in {"steps", "moves"}:
            number = "number" if table == "steps" else "position"
            copied = ", ".join(name for name in dict(row) if name not in {"place", number})
            after = f"(SELECT max({number}) + 1 FROM {table} t WHERE t.episode = {table}.episode)"
            twin = f"INSERT INTO {table} ({number}, {copied}) SELECT {after}, {copied} FROM {table} {where}"
            yield f"{table} row", "duplicate", twin
            yield f"{table} row", "delete all", f"DELETE FROM {table} WHERE episode = {row['episode']}"


def damages(path: Path) -> list[Damage]:
    found: list[Damage] = []
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        for table in metadata.tables.values():
            if table.name in NOT_VERIFIED:
                continue
            rows = rows_of(connection, table.name)
            assert rows, table.name
            found += row_damages(table.name, rows)
            for column in table.columns:
                found += column_damages(table.name, rows, column.name)
    return found


def apply(source: Path, target: Path, statement: str) -> bool:
    """Plant a damage; says whether the database takes it."""
    shutil.copy(source, target)
    with closing(sqlite3.connect(target)) as connection:
        try:
            with connection:
                connection.execute(statement)
        except sqlite3.IntegrityError:
            return False
    return True


def test_the_whole_record_is_sound(written):
    assert findings_of(written) == []


def test_every_damage_of_every_column_is_found_or_cannot_be_known(written, tmp_path):
    target = tmp_path / "episodes.db"
    shutil.copytree(f"{written}.blobs", f"{target}.blobs")
    table: Counter[tuple[str, str, str]] = Counter()
    missed: list[Damage] = []
    for damage in damages(written):
        place, how, statement = damage
        if not apply(written, target, statement):
            verdict = "refused by the database"
        elif findings_of(target):
            verdict = "found"
        else:
            verdict = "cannot be known" if place in UNKNOWABLE else "MISSED"
        table[place, how, verdict] += 1
        if verdict == "MISSED":
            missed.append(damage)
    for (place, how, verdict), count in sorted(table.items()):
        print(f"{place:28} {how:10} {verdict:24} {count}")  # noqa: T201  (`pytest -s` shows the table)
    assert missed == []


def other(value: Any) -> Any:
    """Another JSON value of the same kind."""
    match value:
        case None:
            return "other"
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            is_date = value[:4].isdigit() and value[4:5] == "-"
            return f"{int(value[:4]) + 1}{value[4:]}" if is_date else f"{value}x"
        case list():
            return value[:-1] if value else [{"type": "text", "text": "more", "detail": None}]
        case _:
            return {**value, "more": 1.0}


def field_damages(path: Path) -> Iterator[tuple[str, str, str, str]]:
    """Change and null every field of one body of each kind: table, field, how, statement."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        for table in ("episodes", "standings", "steps", "moves"):
            rows = rows_of(connection, table)
            for row in {json.dumps(kind_of(table, row)): row for row in rows}.values():
                body = json.loads(row["body"])
                for field, value in body.items():
                    for how, planted in (("change", other(value)), ("null", None)):
                        if planted != value:
                            text = literal(json.dumps({**body, field: planted}))
                            where = f"WHERE rowid = {row['place']}"
                            yield table, field, how, f"UPDATE {table} SET body = {text} {where}"


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.stress)], ids=["every third", "all"])
def test_damage_of_a_body_is_found(written, tmp_path, step):
    target = tmp_path / "episodes.db"
    shutil.copytree(f"{written}.blobs", f"{target}.blobs")
    table_of: Counter[tuple[str, str, str]] = Counter()
    missed: list[tuple[str, str, str, str]] = []
    for damage in islice(field_damages(written), 0, None, step):
        table, field, how, statement = damage
        assert apply(written, target, statement), damage
        verdict = "found" if findings_of(target) else "MISSED"
        if verdict == "MISSED":
            missed.append(damage)
        table_of[f"{table}.body.{field}", how, verdict] += 1
    for (place, how, verdict), count in sorted(table_of.items()):
        print(f"{place:34} {how:8} {verdict:18} {count}")  # noqa: T201  (`pytest -s` shows the table)
    assert [damage[:3] for damage in missed] == []


def test_texts_that_nothing_shows_are_reported_and_contradict_nothing(written, tmp_path, capsys):
    target = tmp_path / "episodes.db"
    shutil.copytree(f"{written}.blobs", f"{target}.blobs")
    stray = Path(f"{target}.blobs") / "00" / ("0" * 64)
    stray.parent.mkdir(exist_ok=True)
    stray.write_text("stray")
    held = next(path for path in Path(f"{target}.blobs").rglob("*") if path.is_file() and path != stray)
    name = "f" * 64
    assert apply(written, target, f"INSERT INTO blobs (sha256, size) VALUES ('{name}', 3)")
    found = verify(parse_location(str(target)))
    assert [text for text in found.leftovers if name in text or str(stray) in text] == list(found.leftovers)
    assert len(found.leftovers) == 2
    assert [finding.text for finding in found.findings] == [f"the blob {name} is missing"]
    assert apply(written, target, "UPDATE blobs SET size = size")
    assert main(["store", "verify", "--store", str(target)]) == 0
    said = capsys.readouterr().out
    assert f"leftover: no row names the file {stray}" in said
    assert "sound" in said
    held.write_text("other")
    assert any(f"the blob {held.name} is damaged" in text for text in findings_of(target))
