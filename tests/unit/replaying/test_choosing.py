"""Which episodes are meant, in a store, a file and a stream of lines."""

import json
from dataclasses import replace

import pytest

from ors_server.export.episode_file import EpisodeFile
from ors_server.model.errors import EpisodeNotFoundError, RecordError
from ors_server.model.recording import RECORD, STEP
from ors_server.replaying.choosing import FiledEpisodes, StoredEpisodes, StreamedEpisodes
from ors_server.store.episode_filter import ALL, EpisodeFilter
from ors_server.store.memory import MemoryStore


@pytest.fixture
async def places(tmp_path, episodes):
    """The same episodes in a store, a file and a stream: makes a choice of each."""
    store, lines = MemoryStore(), []
    for record, steps in ((each.record, each.steps) for each in episodes):
        await store.open(record.origin)
        for step in steps:
            await store.append(record.origin.episode_id, step, lambda summary=record.summary: summary)
        shown = {"record": RECORD.as_json(record), "steps": [STEP.as_json(step) for step in steps]}
        lines.append(json.dumps(shown).encode() + b"\n")
    file = tmp_path / "episodes.jsonl"
    file.write_bytes(b"\n".join(lines))  # a blank line between any two

    def choose(place, wanted=ALL, names=()):
        if place == "store":
            return StoredEpisodes(store, wanted, names)
        if place == "file":
            return FiledEpisodes(EpisodeFile(file), wanted, names)
        return StreamedEpisodes(lines, wanted, names)

    return choose


async def indices(chosen) -> list[tuple[int, str]]:
    return [(each.record.origin.index, each.steps[0].blocks[0].text) async for each in chosen]


@pytest.mark.parametrize("place", ["store", "file", "stream"])
async def test_all_of_them_come_in_the_order_of_the_record(places, place):
    assert await indices(places(place).each()) == [
        (0, "0"),
        (1, "1"),
        (2, "2"),
        (0, "3"),
        (1, "4"),
        (2, "5"),
    ]


@pytest.mark.parametrize("place", ["store", "file", "stream"])
async def test_a_filter_chooses(places, place):
    wanted = EpisodeFilter(index=1)
    assert await indices(places(place, wanted).each()) == [(1, "1"), (1, "4")]


@pytest.mark.parametrize("place", ["store", "file", "stream"])
async def test_names_choose_by_id_beginning_of_an_id_and_session(places, place, episodes):
    origins = [episodes[number].record.origin for number in (1, 2, 5)]
    names = (origins[0].episode_id, origins[1].episode_id[:20], origins[2].session_id)
    assert await indices(places(place, ALL, names).each()) == [(1, "1"), (2, "2"), (2, "5")]
    assert await indices(places(place, EpisodeFilter(index=2), names).each()) == [(2, "2"), (2, "5")]


@pytest.mark.parametrize("place", ["store", "file", "stream"])
async def test_a_name_that_nobody_has_is_an_error(places, place):
    with pytest.raises(EpisodeNotFoundError, match="'nobody'"):
        await indices(places(place, ALL, ("nobody",)).each())


@pytest.mark.parametrize("place", ["store", "file"])
async def test_those_of_one_task_follow_one_another(places, place):
    expected = [(0, "0"), (0, "3"), (1, "1"), (1, "4"), (2, "2"), (2, "5")]
    assert await indices(places(place).by_task()) == expected
    assert await indices(places(place, EpisodeFilter(index=1)).by_task()) == expected[2:4]


@pytest.mark.parametrize("place", ["store", "file"])
async def test_named_ones_are_brought_together_by_their_tasks(places, place, episodes):
    names = [episodes[number].record.origin.episode_id for number in (0, 1, 3)]
    assert await indices(places(place, ALL, names).by_task()) == [(0, "0"), (0, "3"), (1, "1")]


async def test_a_stream_is_taken_as_it_comes(places):
    assert await indices(places("stream", EpisodeFilter(index=1)).by_task()) == [(1, "1"), (1, "4")]


async def test_a_broken_line_is_named(places, tmp_path):
    file = tmp_path / "episodes.jsonl"
    file.write_bytes(b"\n" + file.read_bytes().replace(b'"steps": [', b'"stops": [', 1))
    with pytest.raises(RecordError, match='line 2: expected an episode, an object with "record" and "steps"'):
        await indices(places("file").each())


async def test_two_tasks_of_the_same_text_in_two_environments_are_two(places, episodes, tmp_path):
    record, steps = episodes[0].record, episodes[0].steps
    other = replace(record, origin=replace(record.origin, environment="tavern", episode_id="f" * 32))
    shown = {"record": RECORD.as_json(other), "steps": [STEP.as_json(step) for step in steps]}
    with (tmp_path / "episodes.jsonl").open("ab") as file:
        file.write(json.dumps(shown).encode())
    names = [
        each.record.origin.environment async for each in places("file", EpisodeFilter(index=0)).by_task()
    ]
    assert names == ["casino", "casino", "tavern"]
