"""Which task a client of OpenEnv plays, and which requests for one are refused."""

import httpx2
import pytest

from ors_server import Environment, ToolOutput, tool
from ors_server.app import App
from ors_server.environments.loading import definitions_of
from ors_server.model.settings import Settings
from ors_server.store.memory import MemoryStore


class Riddles(Environment):
    """Riddles that name their task."""

    name = "riddles"

    @classmethod
    def list_splits(cls):
        return ["train", "test"]

    @classmethod
    def list_tasks(cls, split):
        return [{"question": f"{split}/{number}"} for number in range(3)]

    def get_prompt(self):
        return self.task_spec["question"]

    @tool
    async def submit(self, answer: str) -> ToolOutput:
        """Submits an answer."""
        return ToolOutput.final(answer, reward=0.0)


@pytest.fixture
async def reset():
    app = App(definitions_of(Riddles), Settings(), store=MemoryStore())
    transport = httpx2.ASGITransport(app)
    async with app.running(), httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:

        async def post(**arguments):
            return await client.post("/openenv/riddles/reset", json=arguments)

        yield post


@pytest.mark.parametrize(
    ("arguments", "task"),
    [
        ({}, "train/0"),
        ({"split": "test", "index": 2}, "test/2"),
        ({"task_id": "test/1"}, "test/1"),
        ({"task_id": "test/1", "split": "test", "index": 1}, "test/1"),
        ({"task_id": "test/1", "split": None, "index": None}, "test/1"),
    ],
)
async def test_reset_plays_the_task_that_is_named(reset, arguments, task):
    assert (await reset(**arguments)).json()["observation"]["prompt"] == task


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"split": "test", "task_id": "train/1"}, "split 'test' contradicts task_id 'train/1'"),
        ({"index": 2, "task_id": "train/1"}, "index 2 contradicts task_id 'train/1'"),
        ({"index": 10**9}, "Invalid index 1000000000 in split 'train': expected 0 to 2"),
        ({"index": -1}, "Invalid index -1 in split 'train': expected 0 to 2"),
        ({"split": "test", "index": -4}, "Invalid index -4 in split 'test': expected 0 to 2"),
        ({"split": "other", "index": -1}, "Invalid split 'other'"),
    ],
)
async def test_reset_refuses_contradictions_and_indices_that_no_task_has(reset, arguments, words):
    refused = await reset(**arguments)
    assert 400 <= refused.status_code < 500
    assert words in refused.text
