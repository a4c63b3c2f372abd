"""Long blocks stand in files, once each, and what is wrong with them is told."""

from functools import partial
from hashlib import sha256

import pytest

from ors_server.model.errors import StoreError
from ors_server.model.wire import ImageBlock, TextBlock
from ors_server.store.open import open_reader
from ors_server.store.sql.blobs import extract_long_texts, restore_long_texts
from ors_server.testing.store_promises import after, make_step

TEXT = TextBlock(text="\N{EURO SIGN}" * 1000, detail={"kind": "long"})
IMAGE = ImageBlock(data="aGVsbG8" * 1000, mimeType="image/png")


def files(records) -> list:
    return sorted(path for path in records.blobs.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("text", "limit", "long"),
    [
        ("a" * 100, 100, False),
        ("a" * 101, 100, True),
        ("\N{EURO SIGN}" * 33, 99, False),
        ("\N{EURO SIGN}" * 34, 99, True),
    ],
    ids=["at-the-limit", "beyond", "wide-at-the-limit", "wide-beyond"],
)
def test_the_limit_counts_bytes(text, limit, long):
    cut = extract_long_texts([TextBlock(text=text)], limit)
    assert bool(cut.texts) == long
    assert restore_long_texts(cut.blocks, cut.blob_refs, cut.texts, "x") == (TextBlock(text=text),)


async def test_a_long_block_is_a_file_of_its_own_and_there_once(records, play):
    store = await records.open(blob_bytes=1024)
    first, second = await play(store, 1), await play(store, 2)
    for origin in (first, second):
        for number in (2, 3):
            step = make_step(number, blocks=(TextBlock(text="short"), TEXT, IMAGE))
            await store.append(origin.episode_id, step, partial(after, origin, number))
        assert (await store.steps(origin.episode_id))[1].blocks == (TextBlock(text="short"), TEXT, IMAGE)
    names = sorted(sha256(text.encode()).hexdigest() for text in (TEXT.text, IMAGE.data))
    assert [path.name for path in files(records)] == names
    assert all(path.parent.name == path.name[:2] for path in files(records))
    assert {path.stat().st_mode & 0o777 for path in files(records)} == {0o600}
    assert records.rows("SELECT count(*) FROM blob_uses") == [(4,)]


@pytest.mark.parametrize("harm", ["missing", "damaged"])
async def test_a_blob_that_is_not_what_it_was_is_told(records, play, harm):
    store = await records.open(blob_bytes=1024)
    origin = await play(store)
    await store.append(origin.episode_id, make_step(2, blocks=(TEXT,)), partial(after, origin, 2))
    store.record_prompt(origin.episode_id, (IMAGE,))
    assert (await store.find(origin.episode_id)).prompt == (IMAGE,)
    for path in files(records):
        path.unlink() if harm == "missing" else path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(StoreError, match=f"block 1: the blob [0-9a-f]{{64}} is {harm}"):
        await store.steps(origin.episode_id)
    with pytest.raises(StoreError, match=f"the prompt of the episode .* is {harm}"):
        await store.find(origin.episode_id)
    assert [step.number for step in await store.steps(origin.episode_id, 0, 1)] == [1]
    with pytest.raises(StoreError, match=harm):
        _ = [pair async for pair in store.stream()]


async def test_a_file_that_was_cut_off_is_written_again(records, play):
    store = await records.open(blob_bytes=1024)
    origin = await play(store)
    await store.append(origin.episode_id, make_step(2, blocks=(TEXT,)), partial(after, origin, 2))
    (path,) = files(records)
    path.write_bytes(b"half")
    await store.append(origin.episode_id, make_step(3, blocks=(TEXT,)), partial(after, origin, 3))
    assert (await store.steps(origin.episode_id))[1].blocks == (TEXT,)


async def test_a_folder_that_cannot_be_written_fails_the_step_alone(records, play):
    store = await records.open(blob_bytes=1024)
    origin = await play(store)
    records.blobs.write_text("no folder")
    with pytest.raises(StoreError, match=r"could not be written"):
        await store.append(origin.episode_id, make_step(2, blocks=(TEXT,)), partial(after, origin, 2))
    records.blobs.unlink()
    await store.append(origin.episode_id, make_step(2, blocks=(TEXT,)), partial(after, origin, 2))
    assert len(await store.steps(origin.episode_id)) == 2


async def test_a_reader_of_another_process_finds_the_files(records, play):
    store = await records.open(blob_bytes=1024)
    origin = await play(store)
    await store.append(origin.episode_id, make_step(2, blocks=(TEXT, IMAGE)), partial(after, origin, 2))
    reader = await open_reader(str(records.path))
    try:
        assert (await reader.steps(origin.episode_id))[1].blocks == (TEXT, IMAGE)
    finally:
        await reader.aclose()
