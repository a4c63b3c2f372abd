"""Environments that make each task from its split and index, through a client."""

from typing import ClassVar

import pytest

from ors_server import IndexedTasks, ToolOutput, tool
from ors_server.client import Client
from ors_server.errors import UnknownTaskError
from ors_server.testing import check_environment


class Squares(IndexedTasks):
    """Squares of numbers."""

    split_sizes: ClassVar = {"train": 20_000, "validation": 0, "test": 3}

    @classmethod
    def make_task(cls, split, index):
        return {"id": f"{split}/{index}", "number": index}

    def get_prompt(self):
        return f"What is {self.task_spec['number']} squared?"

    @tool
    def answer(self, number: int) -> ToolOutput:
        """Answers."""
        return ToolOutput.final("Thanks.", reward=float(number == self.task_spec["number"] ** 2))


class Unmade(IndexedTasks):
    split_sizes: ClassVar = {"train": 1}

    def get_prompt(self):
        return "?"

    @tool
    def answer(self) -> ToolOutput:
        """Answers."""
        return ToolOutput.final("Thanks.", reward=1.0)


@pytest.fixture
def client(serve_live):
    with Client(serve_live(Squares).url) as connected:
        yield connected


def test_splits_with_tasks_are_listed(client):
    assert [split.name for split in client.splits()] == ["train", "test"]
    assert (client.num_tasks("train"), client.num_tasks("test")) == (20_000, 3)


def test_tasks_come_by_index_and_by_slice(client):
    assert client.task("test", -1)["id"] == "test/2"
    assert [task["number"] for task in client.tasks("train", 19_998)] == [19_998, 19_999]


def test_a_list_may_have_any_length():
    assert len(Squares.list_tasks("train")) == 20_000


@pytest.mark.parametrize("index", [3, -4])
def test_an_index_outside_of_a_split_is_refused(client, index):
    with pytest.raises(UnknownTaskError, match=f"Invalid index {index} in split 'test'"):
        client.task("test", index)


@pytest.mark.parametrize("index", [3, -4])
def test_the_class_itself_refuses_an_index_outside_of_a_split(index):
    with pytest.raises(IndexError, match=f"index {index} is out of range: split 'test' has 3 tasks"):
        Squares.get_task("test", index)


def test_a_class_without_make_task_is_told_what_to_define():
    report = check_environment(Unmade)
    assert not report.is_conformant
    assert "Unmade must define make_task(split, index)" in str(report)
