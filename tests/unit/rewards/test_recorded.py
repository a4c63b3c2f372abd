"""A recorded episode as the fields of a reward: what the environment's own reward saw when it ended."""

import json
from dataclasses import replace

import anyio
import pytest

from ors_server import Environment, EpisodePolicy, ToolOutput, terminal, tool
from ors_server.model.errors import RecordError
from ors_server.model.trajectory import StepStatus
from ors_server.model.wire import ImageBlock, TextBlock
from ors_server.rewards.batch.batch_worker import read_group
from ors_server.rewards.define import as_reward
from ors_server.rewards.group import score_group_with
from ors_server.rewards.recorded_fields import (
    fields_of_episode,
    fields_of_row,
    find_in_row,
    find_submitted_answer,
    is_recorded,
    write_recorded,
)
from ors_server.rewards.reward_errors import RewardFieldError
from ors_server.rewards.scoring import score
from ors_server.store.memory import MemoryStore
from ors_server.testing.local_client import CallRefusedError, open_environment

SEEN: list[dict] = []


def watch(final_response, trajectory, metadata, step, answer="", **rest):
    """Keeps what it is given."""
    messages = [
        {key: value for key, value in message.items() if key != "tool_calls"} for message in trajectory
    ]
    SEEN.append(
        {
            "final_response": final_response,
            "actions": [each.action for each in trajectory.steps],
            "results": [each.whole_result for each in trajectory.steps],
            "task": trajectory.task,
            "messages": [message["content"] for message in messages],
            "reward": trajectory.reward,
            "metadata": metadata,
            "step": step,
            "answer": answer,
            "output": rest.get("output", "none"),
        }
    )
    return 1.0


class Desk(Environment):
    """Takes answers in many ways."""

    name = "desk"
    reward = watch
    policy = EpisodePolicy(invalid_call_penalty=0.5)

    @classmethod
    def list_splits(cls):
        return ["train"]

    @classmethod
    def list_tasks(cls, split):
        return [{"id": "a", "answer": "42", "rollouts": "a field of the task's own"}]

    def get_prompt(self):
        return "How much?"

    @tool
    async def think(self, thought: str) -> str:
        """Thinks."""
        return f"You thought {thought}."

    @tool
    async def done(self, answer: str | None = None, loud: int = 1) -> ToolOutput:
        """Ends with an answer."""
        return ToolOutput(finished=True)

    @tool
    async def stop(self) -> ToolOutput:
        """Ends with nothing but a text."""
        return ToolOutput(blocks=[TextBlock(text="The end.")], finished=True)

    @terminal
    @tool
    async def tell(self, message: str) -> ToolOutput:
        """Ends with a message."""
        return ToolOutput(finished=True)


@pytest.fixture(autouse=True)
def forget():
    SEEN.clear()


def record(calls, cls=Desk, **order):
    """An episode as a store has it: its record and its steps."""

    async def play():
        store = MemoryStore()
        async with open_environment(cls, store=store) as client:
            session = await client.create(split="train", index=0, **order)
            await session.prompt()
            for name, arguments in calls:
                try:
                    await session.submit(name, arguments)
                except CallRefusedError:
                    continue
            await session.aclose()
        found = await store.find(session.id)
        return found, tuple(await store.steps(found.origin.episode_id))

    return anyio.run(play)


THINK = ("think", {"thought": "hard"})


@pytest.mark.parametrize(
    "ending",
    [
        ("done", {"answer": "41"}),
        ("done", {"answer": "41", "loud": 2}),
        ("tell", {"message": "about 41"}),
        ("stop", {}),
    ],
    ids=["answer", "answer and more", "message", "text"],
)
def test_a_recorded_episode_gives_a_reward_what_the_environment_gave_it(ending):
    episode, steps = record([THINK, ("fly", {}), ending])
    score(watch, **write_recorded(episode, steps))
    during, after = SEEN
    during.pop("output")
    assert after.pop("output") == "none"
    assert after == during
    assert after["actions"] == ["think", "fly"]
    assert (after["reward"], after["step"], after["answer"]) == (-0.5, 3, "42")


@pytest.mark.parametrize(
    ("calls", "text", "number"),
    [
        ([THINK], "", None),
        ([], "", None),
        ([THINK, ("done", {"answer": "7"})], "7", 2),
        ([("done", {"answer": None})], "", 1),
        ([("tell", {"message": "seven"})], "seven", 1),
        ([("stop", {})], "The end.", 1),
    ],
    ids=["nothing handed in", "no steps", "answer", "no answer", "message", "text"],
)
def test_what_was_handed_in_is_read_off_the_call_that_ended_the_episode(calls, text, number):
    found = find_submitted_answer(*record(calls))
    assert (found.text, found.number) == (text, number)


def test_an_episode_that_a_limit_ended_handed_in_nothing():
    found = find_submitted_answer(*record([THINK], policy={"step_limit": 1}))
    assert (found.text, found.number) == ("", None)


def test_a_call_of_submit_without_an_answer_hands_in_nothing():
    episode, steps = record([("stop", {})])
    assert find_submitted_answer(episode, [replace(steps[0], tool="submit")]).text == ""


@pytest.mark.parametrize("argument", [["a", 1], 7, {"b": None}], ids=repr)
def test_an_answer_that_is_no_text_is_written_as_json(argument):
    episode, steps = record([("done", {"answer": "x"})])
    assert find_submitted_answer(
        episode, [replace(steps[0], arguments={"answer": argument})]
    ).text == json.dumps(argument)


@pytest.mark.parametrize(
    ("source", "text", "number"),
    [
        ("think.thought", "twice", None),
        ("think", "You thought twice.", None),
        ("done.answer", "7", 4),
        ("done.nothing", "", 4),
        ("nosuch", "", 4),
    ],
)
def test_the_final_response_can_be_somewhere_else(source, text, number):
    calls = [THINK, ("think", {"thought": "twice"}), ("think", {}), ("done", {"answer": "7"})]
    episode, steps = record(calls)
    found = find_submitted_answer(episode, steps, source)
    assert (found.text, found.number) == (text, number)


def test_a_task_cannot_pass_for_what_only_a_running_episode_has():
    fields = fields_of_episode(*record([("stop", {})]))
    assert "rollouts" not in fields
    assert "rollouts" not in fields["trajectory"].metadata
    assert fields["metadata"]["rollouts"] == "a field of the task's own"


def test_pictures_and_metadata_do_not_travel():
    episode, steps = record([THINK])
    picture = ImageBlock(data="AAAA", mimeType="image/png")
    shown = replace(steps[0], blocks=(*steps[0].blocks, picture), metadata={"a": 1})
    row = write_recorded(replace(episode, prompt=(*episode.prompt, picture)), [shown])
    assert "AAAA" not in json.dumps(row)
    assert row["steps"][0]["metadata"] is None
    (step,) = fields_of_row(row)["trajectory"].steps
    assert step.whole_result == "You thought hard."


def test_a_row_may_say_more_and_win():
    row = write_recorded(*record([THINK, ("done", {"answer": "7"})]))
    fields = fields_of_row(row | {"answer": "8", "final_response_from": "think.thought", "group": "g"})
    assert (fields["answer"], fields["final_response"]) == ("8", "hard")
    assert not {"group", "record", "steps", "final_response_from"} & set(fields)


def test_other_rows_stay_as_they_are():
    assert fields_of_row({"steps": [], "record": 7}) == {"steps": [], "record": 7}
    assert not is_recorded({"steps": [], "record": {}})


def test_a_row_that_cannot_be_read_is_no_judgement():
    row = {"record": {"origin": 1}, "steps": []}
    with pytest.raises(RecordError):
        fields_of_row(row)
    assert "invalid record of an episode" in (score(watch, **row).reason or "")
    whole = write_recorded(*record([THINK]))
    with pytest.raises(RewardFieldError, match="final_response_from"):
        fields_of_row(whole | {"final_response_from": 7})


def test_keys_are_found_in_the_row_in_the_origin_and_among_the_labels():
    row = write_recorded(*record([THINK], labels={"run": "3"})) | {"mine": 1}
    assert [find_in_row(row, key) for key in ("mine", "environment", "run")] == [1, "desk", "3"]
    for strange in (row, {}):
        with pytest.raises(KeyError):
            find_in_row(strange, "nosuch")


def test_recorded_episodes_are_rollouts_of_a_group():
    def lengths(rollouts, answer):
        return [float(len(one.final_response) + int(answer)) for one in rollouts]

    rows = [write_recorded(*record([("done", {"answer": text})])) for text in ("1", "22")]
    asked = as_reward(lengths)
    rollouts, given = read_group(asked, {"rows": rows}, {})
    assert [result.reward for result in score_group_with(asked, rollouts, **given)] == [43.0, 44.0]


def test_steps_that_failed_hand_in_nothing():
    episode, steps = record([("stop", {})])
    assert find_submitted_answer(episode, [replace(steps[0], status=StepStatus.FAILED)]).number is None
