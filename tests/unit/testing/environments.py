"""Environments that each break one rule, for the suite to find."""

import itertools
import time
from typing import Any, ClassVar

from ors_server import Environment, EpisodePolicy, ToolOutput, tool
from tests.fixtures.shared_dice import DICE


class Good(Environment):
    """Keeps every rule."""

    version = "1"
    policy = EpisodePolicy(reward_range=(0.0, 1.0))
    answer_fields: ClassVar[tuple[str, ...]] = ("answer",)

    @classmethod
    def list_splits(cls) -> list[str]:
        return ["train", "test"]

    @classmethod
    def list_tasks(cls, split: str) -> list[dict[str, Any]]:
        return [{"id": f"{split}-{i}", "answer": f"word{i}"} for i in range(4)]

    @classmethod
    def gold_actions(cls, task_spec: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        return [("guess", {"word": task_spec["answer"]})]

    @classmethod
    def blank_actions(cls, task_spec: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        return [("guess", {"word": ""})]

    def get_prompt(self) -> str:
        return f"Guess the word of {self.task_spec['id']}."

    @tool
    async def guess(self, word: str) -> ToolOutput:
        """Guesses."""
        return ToolOutput.final("noted", reward=float(word == self.task_spec["answer"]))


class Sharing(Good):
    """Its sessions share dice."""

    async def setup(self) -> None:
        await self.context.acquire_resource(spec=DICE, scope="global")


class NoTasks(Good):
    @classmethod
    def list_tasks(cls, split):
        return []


class NotJson(Good):
    @classmethod
    def list_tasks(cls, split):
        return [{"id": split, "answer": {1: "one"}}]


class Shifting(Good):
    counter: ClassVar = itertools.count()

    @classmethod
    def list_tasks(cls, split):
        return [{"id": f"{split}-{next(cls.counter)}", "answer": "x"}]


class Endless(Good):
    @classmethod
    def num_tasks(cls, split):
        return 2

    @classmethod
    def get_task(cls, split, index):
        return {"id": f"{split}-{index}", "answer": "x"}


class Uneven(Good):
    @classmethod
    def list_tasks(cls, split):
        return [{"id": f"{split}-0", "answer": "x"}, {"id": f"{split}-1", "answer": "x", "hint": "y"}]


class Leaking(Good):
    @classmethod
    def list_tasks(cls, split):
        return [{"id": "the same", "answer": "x"}]


class Contradicting(Good):
    """Two tasks of one split have the same prompt and different answers, of which an agent may give one."""

    policy = EpisodePolicy(reward_range=(0.0, 1.0), step_limit=1)

    def get_prompt(self):
        return "Guess the word."

    @classmethod
    def list_tasks(cls, split):
        return [{"id": f"{split}-{i}", "answer": f"word{i}"} for i in range(2)] if split == "train" else []


class Repeating(Good):
    """One split has the same task twice, under two ids."""

    def get_prompt(self):
        return f"Guess the word that rhymes with {self.task_spec['answer'][-2:]}."

    @classmethod
    def list_tasks(cls, split):
        return [{"id": f"{split}-{i}", "answer": f"{split}{i % 2}"} for i in range(3)]


class Silent(Good):
    def get_prompt(self):
        return "  "


class Telling(Good):
    def get_prompt(self):
        return f"It is {self.task_spec['answer']}, but pretend to think."


class Keyword(Good):
    @tool(name="class")
    async def class_(self) -> str:
        """Has a name that Python keeps to itself."""
        return ""


class Undescribed(Good):
    @tool
    async def mystery(self) -> str:
        return ""


class Fragile(Good):
    @tool
    async def crash(self) -> str:
        """Raises."""
        raise RuntimeError("fragile")


class Blocking(Good):
    """Sleeps on the event loop."""

    @tool
    async def guess(self, word: str) -> ToolOutput:
        """Guesses, at length."""
        time.sleep(0.5)  # noqa: ASYNC251  (an author's mistake)
        return ToolOutput.final("noted", reward=float(word == self.task_spec["answer"]))


class Unranged(Good):
    policy = EpisodePolicy()


class Stingy(Good):
    @tool
    async def guess(self, word: str) -> ToolOutput:
        """Never pays in full."""
        return ToolOutput.final("noted", reward=0.5)


class Moody(Good):
    counter: ClassVar = itertools.count()

    @tool
    async def guess(self, word: str) -> ToolOutput:
        """Says something else each time."""
        return ToolOutput.final(str(next(self.counter)), reward=float(word == self.task_spec["answer"]))


class Shared(Good):
    seen: ClassVar[list[int]] = []

    async def setup(self) -> None:
        self.seen.append(id(self))

    async def teardown(self) -> None:
        self.seen.remove(id(self))

    @tool
    async def crowd(self) -> str:
        """Says how many sessions there are."""
        return str(len(self.seen))

    @classmethod
    def gold_actions(cls, task_spec):
        return [("crowd", {}), ("guess", {"word": task_spec["answer"]})]


class Bare(Good):
    """Declares nothing and never ends."""

    gold_actions: Any = None
    blank_actions: Any = None
    answer_fields = ()

    @tool
    async def guess(self, word: str) -> ToolOutput:
        """Never ends."""
        return ToolOutput.ongoing("noted")


class Wild(Good):
    """Breaks where no engine catches it."""

    @classmethod
    def gold_actions(cls, task_spec):
        raise KeyError("no gold")


BROKEN = {
    Blocking: "event-loop-is-free",
    NoTasks: "tasks-exist",
    NotJson: "tasks-are-json",
    Shifting: "tasks-are-stable",
    Endless: "tasks-end",
    Uneven: "tasks-share-keys",
    Leaking: "splits-are-disjoint",
    Contradicting: "golds-agree",
    Repeating: "tasks-are-distinct",
    Silent: "prompt-is-there",
    Telling: "prompt-keeps-answers",
    Keyword: "python-names",
    Undescribed: "tools-are-described",
    Fragile: "tools-survive",
    Unranged: "reward-range",
    Stingy: "gold-earns-the-most",
    Moody: "calls-are-repeatable",
    Shared: "sessions-are-apart",
}
"""Environment -> the check that finds what is wrong with it."""
