"""The bundled word problems as a server plays them: by name, through the engine, with its sums and limits."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from ors_server.environments.loading import load_environments
from ors_server.sessions.manager import SessionManager, open_manager
from ors_server.sessions.session_call import Completed, Refusal
from ors_server.sessions.session_request import SessionRequest
from ors_server_tasks.math_word_problems import MathWordProblems

SPLITS = {"train": 2000, "validation": 200, "test": 200}


def with_engine(play: Callable[[SessionManager], Awaitable[None]]) -> None:
    """Runs a play on an engine that serves the environment as `ors-server serve math_word_problems` does."""

    async def run() -> None:
        with anyio.fail_after(60):
            async with open_manager(load_environments(["math_word_problems"])) as engine:
                await play(engine)

    anyio.run(run)


async def begin(engine: SessionManager, index: int = 0) -> str:
    return (await engine.create(SessionRequest(split="test", index=index))).origin.session_id


async def call(engine: SessionManager, session_id: str, tool: str, **arguments: Any) -> Completed:
    result = await (await engine.find(session_id).call(tool, arguments)).wait()
    assert isinstance(result, Completed)
    return result


@pytest.mark.parametrize(("actions", "pays"), [("gold_actions", 1.0), ("blank_actions", 0.0)])
def test_every_test_task_pays_its_most_for_gold_and_its_least_for_blank(actions, pays):
    async def play(engine: SessionManager) -> None:
        for index in range(SPLITS["test"]):
            session_id = await begin(engine, index)
            for tool, arguments in getattr(MathWordProblems, actions)(
                MathWordProblems.get_task("test", index)
            ):
                await call(engine, session_id, tool, **arguments)
            episode = (await engine.status(session_id)).as_json()["episode"]
            assert (episode["return"], episode["stop_reason"]) == (pays, "completed")
            await engine.delete(session_id)

    with_engine(play)


def test_the_engine_reads_the_same_tasks_as_the_class():
    async def play(engine: SessionManager) -> None:
        source = engine.environment(None).tasks
        for split, size in SPLITS.items():
            assert await source.num_tasks(split) == size
            assert await source.get_task(split, -1) == MathWordProblems.get_task(split, size - 1)
            assert await source.get_task_range(split, 5, 9) == MathWordProblems.list_tasks(split)[5:9]

    with_engine(play)


def test_the_agent_is_offered_two_tools_with_described_arguments():
    async def play(engine: SessionManager) -> None:
        session_id = await begin(engine)
        listing = await engine.find(session_id).tools()
        assert {tool.name: list((tool.input_schema or {})["properties"]) for tool in listing.tools} == {
            "calculator": ["expression"],
            "submit": ["answer"],
        }
        for tool in listing.tools:
            assert tool.description
            assert all(
                argument["description"] for argument in (tool.input_schema or {})["properties"].values()
            )

    with_engine(play)


def test_the_prompt_holds_the_question_only():
    async def play(engine: SessionManager) -> None:
        session_id = await begin(engine, 3)
        (block,) = await engine.find(session_id).prompt()
        task = MathWordProblems.get_task("test", 3)
        assert block.model_dump()["text"].startswith(task["question"] + "\n\n")
        assert task["id"] not in block.model_dump()["text"]

    with_engine(play)


def test_after_twenty_steps_the_episode_is_over_and_nothing_is_paid():
    async def play(engine: SessionManager) -> None:
        session_id = await begin(engine)
        for step in range(1, 21):
            result = await call(engine, session_id, "calculator", expression="1 + 1")
            assert (result.step, result.output.finished) == (step, step == 20)
        late = await (await engine.find(session_id).call("submit", {"answer": "1"})).wait()
        assert isinstance(late, Refusal)
        episode = (await engine.status(session_id)).as_json()["episode"]
        assert (episode["return"], episode["stop_reason"]) == (0.0, "step_limit")

    with_engine(play)


def test_a_submission_that_is_no_number_is_an_ordinary_step_without_judgement():
    async def play(engine: SessionManager) -> None:
        session_id = await begin(engine)
        result = await call(engine, session_id, "submit", answer="a lot")
        assert (result.output.reward, result.output.finished, result.is_error) == (None, False, False)

    with_engine(play)
