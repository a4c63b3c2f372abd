"""The `openai` package's own types, and pyarrow, read what was exported."""

import importlib
import json

import pyarrow.parquet  # type: ignore[import-untyped]  # pyarrow has no types
import pytest
from pydantic import ConfigDict, TypeAdapter, with_config
from typing_extensions import TypedDict

from tests.clients.exports import write_exports


@with_config(ConfigDict(extra="forbid"))
class FineTuningRow(TypedDict, total=False):
    """`FineTuneChatRequestInput` of OpenAI's API reference, its messages and tools judged one by one."""

    messages: list[object]
    tools: list[object]
    parallel_tool_calls: bool


ROW = TypeAdapter(FineTuningRow)


@pytest.fixture(scope="module")
def chat():
    """The package's types, imported only by the process that runs these tests: that takes seconds."""
    return importlib.import_module("openai.types.chat")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exports")
    write_exports(folder)
    return folder


@pytest.fixture(scope="module")
def rows(folder):
    return [json.loads(line) for line in (folder / "openai.jsonl").read_text().splitlines()]


def test_every_message_is_one_of_the_chat_completions_api(rows, chat):
    adapter = TypeAdapter(chat.ChatCompletionMessageParam)
    assert len(rows) == 7
    for row in rows:
        for message in row["messages"]:
            bare = {key: value for key, value in message.items() if key != "weight"}
            read = adapter.validate_python(bare)
            assert set(read) == set(bare), "a key is none of the API's"


def test_every_tool_is_one_of_the_chat_completions_api(rows, chat):
    adapter = TypeAdapter(chat.ChatCompletionToolUnionParam)
    for row in rows:
        for tool in row["tools"]:
            assert adapter.validate_python(tool)["type"] == "function"


def test_a_row_has_only_what_a_fine_tuning_file_may_have(rows):
    for row in rows:
        ROW.validate_python(row)
        assert {message.get("weight") for message in row["messages"]} <= {None, 0, 1}
        assert all("weight" not in message for message in row["messages"] if message["role"] != "assistant")


def test_every_result_answers_a_call_before_it_and_the_agent_speaks_last(rows):
    for row in rows:
        called = set()
        for message in row["messages"]:
            called |= {call["id"] for call in message.get("tool_calls", ())}
            assert message["role"] != "tool" or message["tool_call_id"] in called
        assert row["messages"][-1]["role"] == "assistant"


def test_no_id_is_longer_than_the_api_takes(rows):
    ids = [
        call["id"] for row in rows for message in row["messages"] for call in message.get("tool_calls", ())
    ]
    assert all(len(one) <= 40 for one in ids)


@pytest.mark.parametrize(("name", "count"), [("verl", 7), ("episodes", 11), ("steps", 16)])
def test_pyarrow_reads_every_table(folder, name, count):
    table = pyarrow.parquet.read_table(folder / f"{name}.parquet")
    table.validate(full=True)
    assert table.num_rows == count


def test_pyarrow_keeps_what_was_not_judged_apart_from_zero(folder):
    returns = pyarrow.parquet.read_table(folder / "episodes.parquet")["return"].to_pylist()
    assert (returns.count(None), returns.count(0.0)) == (3, 3)
