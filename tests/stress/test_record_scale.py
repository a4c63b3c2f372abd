"""A record of 10,000 episodes of 20 steps: queries and exports, whose memory does not grow with it."""

import pytest

from bench.record_scale import EPISODES, GROWTH, SMALL_RECORD_EPISODES, STEPS, Took, read_both, write

pytestmark = [pytest.mark.stress, pytest.mark.timeout(3000)]
ATTEMPTS = 4
COUNTS = {
    "list": EPISODES,
    "totals": EPISODES,
    "steps": EPISODES * STEPS,
    "preferences": EPISODES // ATTEMPTS,
    **dict.fromkeys(("openai", "sharegpt", "trl", "verl", "plain", "episodes"), EPISODES),
}


@pytest.fixture(scope="module")
def taken(tmp_path_factory) -> dict[str, tuple[Took, Took]]:
    """What each way of reading took on the small record and on the large one."""
    place = tmp_path_factory.mktemp("scale")
    few, many = str(place / "few.db"), str(place / "many.db")
    wrote = write(few, SMALL_RECORD_EPISODES), write(many, EPISODES)
    return {"write": wrote} | dict(read_both(few, many, place))


def test_every_episode_is_found_and_exported(taken):
    assert {way: taken[way][1].count for way in COUNTS} == COUNTS
    assert taken["filter"][1].count > 0


def test_memory_does_not_grow_with_the_record(taken, capsys):
    lines = [
        f"{way:>12} {SMALL_RECORD_EPISODES:>6,}: {small}\n{'':>12} {EPISODES:>6,}: {large}"
        for way, (small, large) in taken.items()
    ]
    with capsys.disabled():
        print("", *lines, sep="\n", flush=True)  # noqa: T201  (the figures are what is wanted)
    grown = {way: large.mib - small.mib for way, (small, large) in taken.items() if way != "write"}
    assert all(growth < GROWTH for growth in grown.values()), grown
    assert taken["plain"][1].bytes > 2 * GROWTH * 2**20, "the record is too small to tell"
