"""Episodes on their way through a format."""

import json
from dataclasses import replace

import pytest

from ors_server.export.episode_file import read_episode
from ors_server.export.episodes import ExportCounts
from ors_server.export.formats import (
    FORMATS,
    UnknownFormatError,
    as_line,
    export_lines,
    export_rows,
    make_format,
)
from ors_server.model.recording import RECORD, STEP
from ors_server.model.trajectory import StepStatus
from ors_server.store.memory import MemoryStore
from tests.fixtures.recorded_episodes import Played, of_every_kind, step_of, write

TRAINING = ("openai", "sharegpt", "trl", "verl")


@pytest.fixture
async def store():
    store = MemoryStore()
    await write(store, of_every_kind())
    return store


@pytest.mark.parametrize("name", TRAINING)
async def test_a_format_for_training_counts_what_it_leaves_out(store, name):
    counts = ExportCounts()
    rows = [row async for row in export_rows(store.stream(), make_format(name), counts)]
    assert (len(rows), counts.rows, counts.episodes, counts.steps) == (7, 7, 11, 13)
    assert str(counts) == (
        "7 rows from 11 episodes, 13 steps; left out: 2 unfinished, 1 without a prompt on record, "
        "1 without a call"
    )


@pytest.mark.parametrize("name", TRAINING)
async def test_unfinished_episodes_can_be_asked_for(store, name):
    counts = ExportCounts()
    rows = export_rows(store.stream(), make_format(name), counts, include_unfinished=True)
    assert len([row async for row in rows]) == 9
    assert "unfinished" not in counts.left_out


@pytest.mark.parametrize(("name", "count"), [("plain", 11), ("episodes", 11), ("steps", 16)])
async def test_the_record_itself_is_exported_whole(store, name, count):
    counts = ExportCounts()
    rows = [row async for row in export_rows(store.stream(), make_format(name), counts)]
    assert len(rows) == count
    assert str(counts) == f"{count} rows from 11 episodes, 16 steps"


async def test_plain_lines_lose_nothing(store):
    lines = [line async for line in export_lines(store.stream(), make_format("plain"), ExportCounts())]
    read = [json.loads(line) for line in lines]
    assert [
        (RECORD.of_json(row["record"]), [STEP.of_json(step) for step in row["steps"]]) for row in read
    ] == [(record, list(steps)) async for record, steps in store.stream()]


async def test_plain_lines_are_read_back(store):
    lines = [line async for line in export_lines(store.stream(), make_format("plain"), ExportCounts())]
    read = [read_episode(line) for line in lines]
    assert read == [(record, tuple(steps)) async for record, steps in store.stream()]


async def test_episodes_may_come_from_anywhere():
    class Source:
        def __init__(self):
            self.left = [(played.record, played.steps) for played in of_every_kind()]

        def __aiter__(self):
            return self

        async def __anext__(self):
            if not self.left:
                raise StopAsyncIteration
            return self.left.pop()

    assert len([row async for row in export_rows(Source(), make_format("plain"), ExportCounts())]) == 11


async def test_a_line_is_json_with_the_words_as_they_are(store):
    async for line in export_lines(store.stream(), make_format("trl"), ExportCounts()):
        assert line.count("\n") == 1
        assert "5 €" in line
        assert json.loads(line)["reward"] == 1.0
        break


async def test_an_episode_without_judgement_has_no_return_in_a_table(store):
    rows = {
        row["episode_id"].lstrip("0"): row
        async for row in export_rows(store.stream(), make_format("episodes"), ExportCounts())
    }
    assert rows["unjudged"]["return"] is None
    assert rows["poor"]["return"] == -0.5
    assert rows["going"]["is_played_out"] is False
    assert rows["unasked"]["prompt"] is None


async def test_what_was_earned_and_never_paid_is_no_return():
    store = MemoryStore()
    held = step_of(1, reward=None, components={"tool": 0.5}, status=StepStatus.GRADED)
    summary = replace(Played("held", [held]).summary, best_reward=0.5, withheld=0.5, stop_reason="time_limit")
    await write(store, [Played("held", [held])])
    await store.close(Played("held").origin.episode_id, summary)
    (row,) = [row async for row in export_rows(store.stream(), make_format("trl"), ExportCounts())]
    assert (row["reward"], row["episode"]["rewards"], row["episode"]["withheld"]) == (None, [None], 0.5)
    (row,) = [row async for row in export_rows(store.stream(), make_format("steps"), ExportCounts())]
    assert (row["reward"], row["earned"]) == (None, 0.5)


async def test_a_step_that_failed_has_its_reason_in_a_table(store):
    rows = [row async for row in export_rows(store.stream(), make_format("steps"), ExportCounts())]
    (failed,) = [row for row in rows if row["status"] == "failed" and row["episode_id"].endswith("shaky")]
    assert (failed["reward"], failed["error_code"], failed["metadata"]) == (None, "tool_failed", None)
    assert failed["result"] == "the tool raised ValueError"


async def test_what_is_stopped_early_closes_the_reader(store):
    closed = []

    async def episodes():
        try:
            async for episode in store.stream():
                yield episode
        finally:
            closed.append(True)

    rows = export_rows(episodes(), make_format("plain"), ExportCounts())
    await anext(rows)
    await rows.aclose()
    assert closed == [True]


def test_no_other_format_has_a_name():
    with pytest.raises(UnknownFormatError, match=", ".join(FORMATS)):
        make_format("csv")


def test_a_number_that_json_does_not_know_is_refused():
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_line({"reward": float("nan")})
