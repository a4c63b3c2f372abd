"""How often an agent-role key may start the same task in the lobby."""

import anyio
import pytest

from ors_server.transports.mcp.mcp_results import SESSION_KEY

TRAINER_KEY = "trainer-key-0123456789"
AGENT_KEY = "agent-key-0123456789"
OTHER_KEY = "other-key-0123456789"
KEYS = f"trainer:t:{TRAINER_KEY},agent:a:{AGENT_KEY},agent:b:{OTHER_KEY}"


async def start(site, key: str, split: str = "test", index: int = 0) -> dict:
    arguments = {"environment": "desk", "split": split, "index": index}
    headers = {"Authorization": f"Bearer {key}"}
    answer = await site.post("/mcp", "tools/call", {"name": "start_episode", "arguments": arguments}, headers)
    result: dict = answer.json()["result"]
    return result


async def label(site, result: dict) -> str | None:
    """Gives the count that stands in the record."""
    status = await site.app.manager.status(result["_meta"][SESSION_KEY])
    return status.origin.labels.get("attempt")


async def test_an_agents_key_starts_a_task_of_a_test_split_once(make_site):
    site = await make_site(api_keys=KEYS)
    first, second = [await start(site, AGENT_KEY) for _ in range(2)]
    assert await label(site, first) == "1"
    assert second["isError"]
    assert second["content"][0]["text"] == (
        "this key has started desk/test/0 1 times, and may do so 1 times (setting attempts_per_task); "
        "start another task"
    )
    assert not (await start(site, AGENT_KEY, index=1))["isError"]
    assert not (await start(site, OTHER_KEY))["isError"]


async def test_a_training_task_and_a_trainers_task_are_started_any_number_of_times(make_site):
    site = await make_site(api_keys=KEYS)
    labels = [await label(site, await start(site, AGENT_KEY, "train")) for _ in range(3)]
    assert labels == ["1", "2", "3"]
    site = await make_site(api_keys=KEYS)
    results = [await start(site, TRAINER_KEY) for _ in range(3)]
    assert [result["isError"] for result in results] == [False] * 3
    assert await label(site, results[0]) is None


@pytest.mark.parametrize(("limit", "started"), [(2, 2), (0, 4)])
async def test_the_setting_says_how_often_on_every_split(make_site, limit, started):
    site = await make_site(api_keys=KEYS, attempts_per_task=limit)
    for split in ("test", "train"):
        errors = [(await start(site, AGENT_KEY, split))["isError"] for _ in range(4)]
        assert errors.count(False) == started


async def test_the_count_outlives_the_sessions_and_the_server(make_site, tmp_path):
    store = str(tmp_path / "episodes.db")
    site = await make_site(api_keys=KEYS, store=store)
    first = await start(site, AGENT_KEY)
    await site.app.manager.delete(first["_meta"][SESSION_KEY])
    assert (await start(site, AGENT_KEY))["isError"]
    other = await make_site(api_keys=KEYS, store=store)
    assert (await start(other, AGENT_KEY))["isError"]


async def test_two_at_once_are_one_too_many(make_site):
    site = await make_site(api_keys=KEYS)
    results: list[dict] = []

    async def go() -> None:
        results.append(await start(site, AGENT_KEY))

    async with anyio.create_task_group() as tasks:
        for _ in range(6):
            tasks.start_soon(go)
    assert [result["isError"] for result in results].count(False) == 1
