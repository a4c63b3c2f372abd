"""Records for the commands that read them: episodes in a SQLite file and as lines of JSON."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio

from ors_server.export.plain import plain_row
from ors_server.model.trajectory import EpisodeRecord, Step
from ors_server.store.base import EpisodeStore
from ors_server.store.memory import MemoryStore
from ors_server.store.open import open_store
from ors_server.testing.local_client import CallRefusedError, open_environment

ENVIRONMENT = '''
import random
from ors_server import Environment, EpisodePolicy, ToolOutput, tool

class Dice(Environment):
    """Dice, some of them loaded."""

    name = "dice"
    policy = EpisodePolicy(invalid_call_penalty=0.25)

    @classmethod
    def list_splits(cls):
        return ["train"]

    @classmethod
    def list_tasks(cls, split):
        return [{"id": f"table-{index}", "answer": str(index)} for index in range(3)]

    def get_prompt(self):
        return "Roll."

    @tool
    async def roll(self) -> str:
        """Rolls."""
        return f"A {self.rng.randint(1, 10**9)}."

    @tool
    async def cheat(self) -> str:
        """Rolls otherwise."""
        return f"\\x1b[31mA {random.randint(1, 10**9)}."

    @tool
    async def open(self) -> str:
        """Opens the door."""
        return f"The door says {self.secrets.get('door', 'nothing')}."

    @tool
    async def guess(self, answer: str) -> ToolOutput:
        """Ends the episode."""
        return ToolOutput.final("Done.", reward=float(answer == self.task_spec["answer"]))
'''


async def fill(store: EpisodeStore, reference: str, plays: list[list[Any]], **order: Any) -> list[str]:
    """Plays episodes into a store, of the tasks by turns, and returns the ids of their sessions."""
    sessions: list[str] = []
    async with open_environment(reference, store=store) as client:
        for number, calls in enumerate(plays):
            session = await client.create(split="train", index=number % 3, **order)
            sessions.append(session.id)
            await session.prompt()
            for call in calls:
                name, arguments = (call, {}) if isinstance(call, str) else call
                try:
                    await session.submit(name, arguments)
                except CallRefusedError:
                    continue
            await session.aclose()
    return sessions


def write_record(folder: Path, plays: list[list[Any]], *, in_store: bool = False, **order: Any) -> list[str]:
    """Writes `dice.py`, plays of it, and the record as `episodes.jsonl`, and perhaps as `episodes.db`."""
    (folder / "dice.py").write_text(ENVIRONMENT)
    reference = str(folder / "dice.py")

    async def write() -> list[str]:
        memory = MemoryStore()
        sessions = await fill(memory, reference, plays, **order)
        episodes = [episode async for episode in memory.stream()]
        lines = [json.dumps(plain_row(*episode)) for episode in episodes]
        (folder / "episodes.jsonl").write_text("".join(f"{line}\n" for line in lines))
        if in_store:
            await copy(episodes, str(folder / "episodes.db"))
        return sessions

    return anyio.run(write)


async def copy(episodes: list[tuple[EpisodeRecord, Sequence[Step]]], where: str) -> None:
    store = await open_store(where)
    for record, steps in episodes:
        episode_id = record.origin.episode_id
        await store.open(record.origin)
        store.record_prompt(episode_id, record.prompt or ())
        for transition in record.transitions:
            store.record_transition(episode_id, transition, record.summary)
        for step in steps:
            await store.append(episode_id, step, lambda summary=record.summary: summary)
        await store.close(episode_id, record.summary)
    await store.aclose()
