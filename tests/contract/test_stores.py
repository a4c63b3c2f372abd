"""Every store keeps the promises of the interface; what SQL keeps is what memory would have kept."""

import shutil
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path

import anyio
import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ors_server.model.errors import StoreError
from ors_server.model.trajectory import Transition
from ors_server.model.wire import ImageBlock, TextBlock
from ors_server.store.base import EpisodeStore
from ors_server.store.location import parse_location
from ors_server.store.memory import MemoryStore
from ors_server.store.open import open_store
from ors_server.store.sql.components import prepare
from ors_server.store.store_options import Durability, StoreOptions
from ors_server.testing.store_promises import STORE_PROMISES, after, make_origin, make_step
from ors_server.testing.store_suite import check_store

BACKENDS = ("memory", "sqlite", "postgres")


@dataclass
class Makers:
    """Makes empty records."""

    request: pytest.FixtureRequest
    folder: Path
    empty: Path
    """A record in SQLite with nothing in it."""
    numbers: count = field(default_factory=count)
    database: str | None = None
    """The one that all records of a test have, one after another."""

    def place(self, backend: str) -> str:
        if backend == "memory":
            return "memory"
        if backend == "sqlite":
            path = self.folder / f"record-{next(self.numbers)}.db"
            shutil.copy(self.empty, path)  # making its tables takes longer than most tests
            return str(path)
        if self.database is None:
            self.database = str(self.request.getfixturevalue("postgres").create_database())
        else:
            with psycopg.connect(self.database, autocommit=True) as connection:
                connection.execute("TRUNCATE episodes, blobs, totals, call_minutes CASCADE")
        return self.database


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("empty") / "record.db"
    prepare(parse_location(str(path)))
    return path


@pytest.fixture
def makers(request: pytest.FixtureRequest, tmp_path: Path, empty: Path) -> Makers:
    return Makers(request, tmp_path, empty)


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_store_keeps_every_promise(backend: str, makers: Makers) -> None:
    names = iter(STORE_PROMISES)

    async def make() -> EpisodeStore:
        name = next(names)
        options = StoreOptions(durability=Durability.STEP if "many" in name else Durability.NONE)
        return await open_store(makers.place(backend), options)

    verdicts = await check_store(make)
    assert [verdict for verdict in verdicts if verdict.problem] == []
    assert len(verdicts) == len(STORE_PROMISES)


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_name_with_a_nul_is_no_episode(backend: str, makers: Makers) -> None:
    store = await open_store(makers.place(backend), StoreOptions(durability=Durability.NONE))
    try:
        assert await store.find("\0") is None
        assert list(await store.resolve("\0")) == []
    finally:
        await store.aclose()


async def test_the_suite_finds_a_store_that_breaks_its_word() -> None:
    class Forgetful(MemoryStore):
        async def steps(self, *args, **options):
            return ()

        async def resolve(self, *args, **options):
            raise StoreError("gone")

    broken = [verdict.name for verdict in await check_store(Forgetful) if verdict.problem]
    assert "steps come back as they were, in any slice" in broken
    assert "a beginning leads to ids" in broken
    assert "figures are those of the episodes" not in broken
    assert await check_store(Forgetful, only=["nothing of the kind"]) == []


@pytest.mark.parametrize("backend", BACKENDS)
async def test_what_is_said_of_an_episode_before_it_is_opened_is_passed_over(
    backend: str, makers: Makers
) -> None:
    store = await open_store(makers.place(backend), StoreOptions(durability=Durability.NONE))
    try:
        origin = make_origin(1)
        summary = after(origin, 0)
        move = Transition("setup_done", "ready", None, origin.created_at)
        store.record_transition(origin.episode_id, move, summary)
        await store.open(origin)
        record = await store.find(origin.episode_id)
        assert (record.transitions, record.summary.phase) == ((), "created")
        store.record_transition(origin.episode_id, move, summary)
        await store.open(origin)
        assert len((await store.find(origin.episode_id)).transitions) == 1
    finally:
        await store.aclose()


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
blocks = st.lists(
    st.builds(TextBlock, text=texts | st.just("x" * 3000))
    | st.builds(ImageBlock, data=st.just("aGk="), mimeType=st.just("image/png")),
    max_size=2,
)
acts = st.one_of(
    st.tuples(st.just("open")),
    st.tuples(st.just("step"), st.dictionaries(texts, json_values, max_size=2), blocks, st.floats(-1, 1)),
    st.tuples(st.just("again"), st.floats(-1, 1)),
    st.tuples(st.just("gap")),
    st.tuples(st.just("move"), texts),
    st.tuples(st.just("prompt"), blocks),
    st.tuples(st.just("close")),
    st.tuples(st.just("look")),
)


class Player:
    """Does the same to one store as another player does to another."""

    def __init__(self, store: EpisodeStore) -> None:
        self.store = store
        self.counts: dict[int, int] = {}
        self.returns: dict[int, float] = {}

    async def act(self, number: int, act: tuple) -> object:
        origin = make_origin(number, episode_id=f"{number:032x}", labels={"n": str(number)})
        steps = self.counts.get(number, 0)
        match act:
            case ("open",):
                await self.store.open(origin)
            case ("step", arguments, content, reward):
                step = make_step(steps + 1, arguments=arguments, blocks=tuple(content), reward=reward)
                return await self._append(number, step, origin)
            case ("again", reward):
                return await self._append(number, make_step(max(steps, 1), reward=reward), origin)
            case ("gap",):
                return await self._append(number, make_step(steps + 2), origin)
            case ("move", event):
                move = Transition(event, "ready", None, origin.created_at)
                self.store.record_transition(origin.episode_id, move, after(origin, steps))
            case ("prompt", content):
                self.store.record_prompt(origin.episode_id, content)
            case ("close",):
                await self.store.close(origin.episode_id, after(origin, steps, phase="finished"))
            case _:
                return await self.see(origin.episode_id)
        return None

    async def _append(self, number, step, origin) -> str:
        try:
            await self.store.append(origin.episode_id, step, partial(after, origin, step.number))
        except StoreError:
            return "refused"
        self.counts[number] = max(step.number, self.counts.get(number, 0))
        return "written"

    async def see(self, episode_id: str) -> object:
        return await self.store.find(episode_id), list(await self.store.steps(episode_id))


async def compare(place: str, scenes: list[tuple[int, tuple]]) -> None:
    options = StoreOptions(durability=Durability.NONE, blob_bytes=2048)
    known, tried = Player(MemoryStore()), Player(await open_store(place, options))
    try:
        with anyio.fail_after(60):
            for number, act in scenes:
                assert await tried.act(number, act) == await known.act(number, act)
            everything = [pair async for pair in tried.store.stream()]
            assert [(record, list(steps)) for record, steps in everything] == [
                (record, list(steps)) async for record, steps in known.store.stream()
            ]
            assert await tried.store.totals() == await known.store.totals()
    finally:
        await tried.store.aclose()


@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_a_record_is_the_one_that_memory_would_have_kept(backend: str, makers: Makers) -> None:
    @settings(
        max_examples=25,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(st.tuples(st.integers(0, 2), acts), max_size=25))
    def holds(scenes: list[tuple[int, tuple]]) -> None:
        anyio.run(compare, makers.place(backend), [(0, ("open",)), (1, ("open",)), *scenes])

    holds()
