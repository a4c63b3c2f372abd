"""`datasets`, TRL's own functions and its chat templates read what was exported."""

import json
import os
import subprocess

import pytest

from tests.clients.conftest import PLAY_LIMIT, SCRIPTS, client_python
from tests.clients.exports import TOOLS, write_exports

CALL = '<tool_call>\n{"name": "submit", "arguments": {"answer": "6"}}\n</tool_call>'


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exports")
    write_exports(folder)
    ran = subprocess.run(
        [str(client_python("trl")), str(SCRIPTS / "read_exports.py"), str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PLAY_LIMIT,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "home")},
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_trl_reads_prompts_completions_and_rewards(seen):
    read = seen["prompt_completion"]
    assert read["columns"] == ["prompt", "completion", "reward", "tools", "episode"]
    assert all(read["is_conversational"])
    assert read["rewards"] == [1.0, -0.5, 1.0, None, 0.5, 0.0, 1.0]


def test_nothing_is_added_to_arguments_that_differ_from_call_to_call(seen):
    messages = [message for row in seen["prompt_completion"]["rows"] for message in row["completion"]]
    calls = [call["function"] for message in messages for call in message.get("tool_calls") or ()]
    assert {tuple(call["arguments"]) for call in calls} == {("a", "b"), ("answer",)}


@pytest.mark.parametrize("family", ["qwen2_5", "qwen3", "llama3_1", "glm4moe", "gptoss"])
def test_chat_templates_put_every_episode_into_text(seen, family):
    rendered = [row for row in seen["prompt_completion"]["rendered"] if row["template"] == family]
    assert len(rendered) == 7
    assert "Add 2 and 3, then submit." in rendered[1]["prompt"]
    assert "submit" in rendered[1]["completion"]
    assert '\\"answer\\"' not in rendered[1]["completion"], "the arguments were put into text twice"


def test_a_chat_template_announces_the_tools(seen):
    (first, *_) = [row for row in seen["prompt_completion"]["rendered"] if row["template"] == "qwen3"]
    assert all(tool.name in first["prompt"] for tool in TOOLS)


def test_trl_trains_on_the_calls_of_the_agent_and_on_nothing_else(seen):
    trained = seen["masked"][1]["trained"]
    assert CALL in trained
    assert '{"name": "ad", "arguments": {"a": 1, "b": 3}}' in trained
    assert "there is no tool" not in trained
    assert "It is 2." not in seen["masked"][6]["trained"], "the example of the prompt was trained on"


def test_trl_reads_preferences(seen):
    read = seen["preferences"]
    assert read["columns"][:3] == ["prompt", "chosen", "rejected"]
    assert all(read["is_conversational"])
    assert all(read["extracted"])
    assert read["labels"] == [True, False]
    assert all(row["chosen"] != row["rejected"] for row in read["rendered"])
    assert len(read["rendered"]) == 5


def test_trl_reads_conversations_of_from_and_value(seen):
    read = seen["sharegpt"]
    assert all(read["is_from_value"])
    assert all(names == ["episode", "messages", "system", "tools"] for names in read["converted"])
    assert [tool["name"] for tool in read["tools"][0]] == [tool.name for tool in TOOLS]


def test_conversations_alternate_as_llama_factory_demands(seen):
    for roles in seen["sharegpt"]["roles"]:
        assert len(roles) % 2 == 0
        assert set(roles[::2]) <= {"human", "observation"}
        assert set(roles[1::2]) <= {"gpt", "function_call"}


def test_datasets_reads_chat_messages_of_text_and_images(seen):
    read = seen["openai"]
    assert (read["columns"], read["count"]) == (["messages", "tools", "parallel_tool_calls"], 7)
    assert read["weights"][1] == [None, 1, None, 1]
    assert CALL in read["rendered"][1]


def test_datasets_reads_verls_columns(seen):
    row = seen["tables"]["verl"][1]
    assert set(row) >= {"data_source", "prompt", "ability", "reward_model", "extra_info"}
    assert row["reward_model"] == {"ground_truth": "5", "style": "rule"}
    assert (row["reward"], row["train_mask"]) == (-0.5, [0, 1, 0, 1])
    assert row["extra_info"]["index"] == 0
    assert "Add 2 and 3" in seen["tables"]["prompts"][1]
    assert json.loads(row["responses"][0])[0]["tool_calls"][0]["function"]["name"] == "ad"


def test_a_chat_template_takes_verls_messages_with_the_nulls_of_its_columns(seen):
    texts = seen["tables"]["messages"]
    assert CALL in texts[1]
    assert all("None" not in text for text in texts)


def test_datasets_reads_the_record_itself(seen):
    assert [seen["tables"][name] for name in ("episodes", "steps", "plain")] == [11, 16, 11]
