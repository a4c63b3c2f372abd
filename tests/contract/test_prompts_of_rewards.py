"""A reward receives the prompt, so that the question itself is no answer: in environments and in `score`."""

import json
from pathlib import Path

import anyio
import pytest

from ors_server import Environment, ImageBlock, TextBlock, ToolOutput, graded_output, reward, tool
from ors_server.cli.main import main
from ors_server.export.plain import plain_row
from ors_server.rewards import math_equal_reward, score
from ors_server.store.memory import MemoryStore
from ors_server.testing import open_environment

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A PNG image of one pixel."""
ECHOES = [
    "17 + 26",
    "$17+26$",
    "\\boxed{17+26}",
    "The answer is $17 + 26$.",
    "What is 17 + 26?",
    "So the answer is $26+17$.",
]
STORY = "Nia has 40 red pears and finds 3 green ones behind the old barn. How many pears does she have now?"
ANSWERS = ["43", "The answer is 43.", "17 + 26 = 43", "\\boxed{43}"]


class Sum(Environment):
    """Asks for a sum; its tool grades the answer with the class's reward."""

    reward = math_equal_reward

    @classmethod
    def list_splits(cls):
        return ["train"]

    @classmethod
    def list_tasks(cls, split):
        return [{"id": "sum", "answer": "43"}]

    def get_prompt(self):
        return "What is 17 + 26?"

    @tool
    def answer(self, text: str) -> ToolOutput:
        """Answers."""
        return ToolOutput.final(text, reward=None)


class Graded(Sum):
    """Its tool computes the reward itself."""

    reward = None  # type: ignore[assignment]

    @tool
    async def answer(self, text: str) -> ToolOutput:  # type: ignore[override]
        """Answers."""
        return graded_output(await self.grade(math_equal_reward, final_response=text), text, finished=True)


class Pictured(Sum):
    """Its prompt has an image between two texts."""

    def get_prompt(self):
        return [
            TextBlock(text="Look."),
            ImageBlock(data=DOT, mimeType="image/png"),
            TextBlock(text="What is 17 + 26?"),
        ]


class OnlyPicture(Sum):
    """Its prompt has no text."""

    def get_prompt(self):
        return [ImageBlock(data=DOT, mimeType="image/png")]


class Own(Sum):
    """The task has a prompt of its own, which the reward reads in place of what the agent was shown."""

    @classmethod
    def list_tasks(cls, split):
        return [{"id": "sum", "answer": "43", "prompt": STORY}]


@reward
def prompt_length(prompt):
    """Pays for the length of the prompt."""
    return float(len(prompt))


class Needing(Sum):
    """Its reward must have the prompt."""

    reward = prompt_length


def earned(environment, texts):
    """Return what each text earns in an episode of its own, whose prompt no agent has read."""
    name, argument = ("submit", "answer") if isinstance(environment, Path) else ("answer", "text")

    async def run():
        rewards = []
        async with open_environment(str(environment) if name == "submit" else environment) as client:
            for text in texts:
                session = await client.create(split="train", index=0)
                rewards.append((await session.submit(name, {argument: text})).reward)
                await session.aclose()
        return rewards

    return anyio.run(run)


@pytest.mark.parametrize("environment", [Sum, Graded, Pictured])
def test_a_class_gives_its_prompt_to_the_reward(environment):
    assert earned(environment, ECHOES) == [0.0] * len(ECHOES)
    assert earned(environment, ANSWERS) == [1.0] * len(ANSWERS)


def test_a_prompt_without_text_forbids_nothing():
    assert earned(OnlyPicture, ("17 + 26", "43")) == [1.0, 1.0]


def test_a_field_of_the_task_named_prompt_is_the_author_s_choice():
    assert earned(Own, ("40 + 3", "17 + 26", "43")) == [0.0, 1.0, 1.0]


def test_a_reward_that_must_have_the_prompt_has_it_before_an_agent_reads_it():
    assert earned(Needing, [""]) == [len("What is 17 + 26?")]


class Repeated(Sum):
    """The prompt holds the gold answer."""

    def get_prompt(self):
        return "Is $6 \\cdot 7$ equal to $43$, or to $42$? Answer with the number, such as 43."


def test_the_gold_answer_is_paid_where_the_prompt_holds_it():
    assert earned(Repeated, ("43", "$43$", "The answer is 43.", "42")) == [1.0, 1.0, 1.0, 0.0]


@pytest.fixture
def declare(tmp_path):
    def declare(declaration, **row):
        (tmp_path / "train.jsonl").write_text(json.dumps(row) + "\n")
        (tmp_path / "environment.toml").write_text(
            f'data = "train.jsonl"\nanswer = "answer"\n{declaration}\n'
        )
        return tmp_path

    return declare


PLAIN = 'prompt = "{{ question }}"\nreward = "math_equal_reward"'
WEIGHTED = 'prompt = "{{ question }}"\nreward = [{ name = "math_equal_reward", weight = 2 }]'


@pytest.mark.parametrize("declaration", [PLAIN, WEIGHTED])
def test_a_declared_environment_gives_its_prompt_to_the_reward(declare, declaration):
    folder = declare(declaration, question="What is 17 + 26?", answer="43")
    assert earned(folder, ECHOES) == [0.0] * len(ECHOES)
    assert earned(folder, ANSWERS) == [1.0] * len(ANSWERS)


@pytest.mark.parametrize("column", ["17 + 26?", [{"role": "user", "content": "17 + 26?"}], 7, {"a": 1}])
def test_a_column_that_happens_to_be_named_prompt_is_not_the_prompt(declare, column):
    folder = declare(PLAIN, question=STORY, answer="43", prompt=column)
    assert earned(folder, ("17 + 26", "40 + 3", "43")) == [1.0, 0.0, 1.0]


def test_a_declared_field_named_prompt_is(declare):
    folder = declare(f"{PLAIN}\n[fields]\nprompt = 'text'", question="17 + 26?", text=STORY, answer="43")
    assert earned(folder, ("17 + 26", "40 + 3", "43")) == [1.0, 0.0, 1.0]


def test_a_recipe_gives_its_prompt_to_the_reward(tmp_path):
    problem = "There are 43 pears in a box. Tom takes 5 and puts 5 back. How many pears are in the box now?"
    row = {"problem": problem, "solution": "\\boxed{43}"}
    (tmp_path / "train.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "environment.toml").write_text('recipe = "math"\ndata = "train.jsonl"\n')
    assert earned(tmp_path, ["There are 43 pears in a box.", problem, "38 + 5"]) == [0.0] * 3
    assert earned(tmp_path, ["43", "It has 43 pears.", "$43$"]) == [1.0] * 3


def chat(*texts):
    roles = ("user", "assistant") * len(texts)
    return [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]


ROWS = [
    lambda text: {"prompt": "What is 17 + 26?", "final_response": text},
    lambda text: {"question": "What is 17 + 26?", "final_response": text},
    lambda text: {"problem": "What is 17 + 26?", "final_response": text},
    lambda text: {"prompt": chat("What is 17 + 26?"), "final_response": text},
    lambda text: {"prompt": chat("What is 17 + 26?"), "completion": chat("", text)[1:]},
    lambda text: {"messages": chat("What is 17 + 26?", text)},
    lambda text: {"messages": chat("What is 1 + 1?", "2", "And what is 17 + 26?", text)},
    lambda text: {"messages": [{"role": "system", "content": "Add."}, *chat("What is 17 + 26?", text)]},
    lambda text: {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DOT}"}},
                    {"type": "text", "text": "What is 17 + 26?"},
                ],
            },
            {"role": "assistant", "content": text},
        ]
    },
]


def test_score_takes_the_prompt_from_a_field_or_the_conversation(tmp_path, capsys):
    lines = [{**row(text), "answer": "43"} for row in ROWS for text in (*ECHOES, *ANSWERS)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert main(["score", str(path), "--reward", "math_equal_reward", "--json", "--jobs", "1"]) == 0
    paid = [json.loads(line)["reward"] for line in capsys.readouterr().out.splitlines()]
    assert paid == [*([0.0] * len(ECHOES)), *([1.0] * len(ANSWERS))] * len(ROWS)


def test_a_prompt_in_no_shape_that_is_known_is_an_error_and_no_number():
    result = score(math_equal_reward, final_response="43", answer="43", prompt={"unheard": "of"})
    assert (result.reward, result.status.value) == (None, "error")
    assert "unheard" in (result.reason or "")


async def record(reference, texts, path):
    """Submits each text in an episode, and writes the episodes as lines of JSON."""
    store = MemoryStore()
    async with open_environment(reference, store=store) as client:
        for text in texts:
            session = await client.create(split="train", index=0)
            await session.prompt()
            await session.submit("submit", {"answer": text})
            await session.aclose()
    lines = [json.dumps(plain_row(*episode)) async for episode in store.stream()]
    path.write_text("".join(f"{line}\n" for line in lines))


def test_a_recorded_episode_is_judged_with_the_prompt_that_was_shown(declare, capsys):
    folder = declare('prompt = "ask"\nreward = "exact_match_reward"', ask="What is 17 + 26?", answer="43")
    path = folder / "episodes.jsonl"
    anyio.run(record, str(folder), [*ECHOES, *ANSWERS], path)
    assert main(["score", str(path), "--reward", "math_equal_reward", "--json", "--jobs", "1"]) == 0
    paid = [json.loads(line)["reward"] for line in capsys.readouterr().out.splitlines()]
    assert paid == [0.0] * len(ECHOES) + [1.0] * len(ANSWERS)
