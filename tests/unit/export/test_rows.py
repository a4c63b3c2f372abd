"""What each format for training says of an episode."""

import json

import pytest

from ors_server.export.chat import ConversationOptions, TrainedCalls, openai_row
from ors_server.export.episodes import LeftOutError
from ors_server.export.offered_tools import ANY
from ors_server.export.sharegpt import OUT_OF_TURN, sharegpt_row
from ors_server.export.trl import preference_row, trl_row
from ors_server.export.verl import VerlOptions, verl_row
from ors_server.model.wire import TextBlock, ToolSpec
from tests.fixtures.recorded_episodes import ASKED, IMAGE, REFUSED, Played, of_every_kind, step_of

PLAIN = ConversationOptions({})
RAN = ConversationOptions({}, TrainedCalls.RAN)
WHOLE = ConversationOptions({}, keeps_last_result=True)
TOOL = ToolSpec(name="add", description="Adds.", input_schema=None)
EPISODES = {played.name: played for played in of_every_kind()}
ROWS = {
    "openai": openai_row,
    "sharegpt": sharegpt_row,
    "trl": trl_row,
    "verl": lambda record, steps, options: verl_row(record, steps, options, VerlOptions()),
}


def row_of(make, name, options=PLAIN, **more):
    played = EPISODES[name] if isinstance(name, str) else name
    return make(played.record, played.steps, options, **more)


def test_openai_writes_calls_with_their_arguments_as_text_and_results_that_answer_them():
    messages = row_of(openai_row, "good")["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
    call = messages[3]["tool_calls"][0]
    assert (call["type"], call["function"]["name"]) == ("function", "submit")
    assert json.loads(call["function"]["arguments"]) == {"answer": "5 €"}
    assert messages[2]["tool_call_id"] == messages[1]["tool_calls"][0]["id"]
    assert messages[1]["content"] is None


def test_openai_weighs_what_the_agent_did_and_nothing_else():
    weights = [message.get("weight") for message in row_of(openai_row, "led")["messages"]]
    assert weights == [None, None, 0, None, 0, None, 1, None, 1]


def test_openai_can_weigh_only_calls_that_ran():
    weights = [message.get("weight") for message in row_of(openai_row, "poor", RAN)["messages"]]
    assert weights == [None, 0, None, 1]


def test_openai_shows_a_users_images_and_notes_those_of_results():
    asked, _, answered = row_of(openai_row, "seen", WHOLE)["messages"]
    assert asked["content"][1]["image_url"]["url"].startswith("data:image/png;base64,iVBOR")
    assert answered["content"] == "look\n[image: image/png]"


def test_openai_says_rewards_only_when_asked():
    assert set(row_of(openai_row, "good")) == {"messages"}
    about = row_of(openai_row, "poor", with_episode=True)["episode"]
    assert (about["return"], about["rewards"]) == (-0.5, [-0.5, 0.0])
    assert about["components"] == [{"invalid_call": -0.5}, {"tool": 0.0}]
    assert about["statuses"] == ["refused", "graded"]


def test_sharegpt_alternates_and_ends_with_the_agent():
    row = row_of(sharegpt_row, "good")
    speakers = [message["from"] for message in row["conversations"]]
    assert speakers == ["human", "function_call", "observation", "function_call"]
    assert row["conversations"][3]["value"] == '{"name": "submit", "arguments": {"answer": "5 €"}}'
    assert (row["system"], row["tools"]) == ("", "")


def test_sharegpt_marks_what_is_trained_on():
    said = row_of(sharegpt_row, "poor", RAN)["conversations"]
    assert [message["train"] for message in said] == [False, False, False, True]
    said = row_of(sharegpt_row, "led")["conversations"]
    assert [message["train"] for message in said] == [False] * 5 + [True, False, True]


def test_sharegpt_takes_the_system_message_out():
    row = row_of(sharegpt_row, "led")
    assert row["system"] == "Be brief."
    assert row["conversations"][0] == {"from": "human", "value": "What is 1 + 1?", "train": False}


def conversation(*texts):
    return [TextBlock(text=text, detail={"role": text[1:-1]} if text[0] == "[" else None) for text in texts]


def test_sharegpt_joins_messages_of_the_user_that_follow_one_another():
    played = Played("twice", [step_of(1)], conversation("[user]", "One", "[user]", "Two"))
    assert row_of(sharegpt_row, played)["conversations"][0]["value"] == "One\nTwo"


def test_sharegpt_writes_several_calls_of_one_message_as_a_list():
    calls, results = [], []
    for n in ("1", "2"):
        calls.append(TextBlock(text=f'[tool_call add] {{"a": {n}}}', detail={"type": "tool_call", "id": n}))
        result = TextBlock(text="[tool_result]", detail={"type": "tool_result", "tool_call_id": n})
        results += [result, TextBlock(text=f"got {n}")]
    prompt = [*conversation("[user]", "Go", "[assistant]"), *calls, *conversation("[user]"), *results]
    row = row_of(sharegpt_row, Played("both", [step_of(1)], prompt))
    assert json.loads(row["conversations"][1]["value"]) == [
        {"name": "add", "arguments": {"a": 1}},
        {"name": "add", "arguments": {"a": 2}},
    ]
    assert row["conversations"][2] == {"from": "observation", "value": "got 1\ngot 2", "train": False}


@pytest.mark.parametrize(
    "texts",
    [("[user]", "Go", "[system]", "Late", "[user]", "On"), ("[assistant]", "I begin", "[user]", "On")],
    ids=["late-system", "agent-first"],
)
def test_sharegpt_leaves_out_what_it_cannot_say(texts):
    with pytest.raises(LeftOutError, match=OUT_OF_TURN):
        row_of(sharegpt_row, Played("odd", [step_of(1)], conversation(*texts)))


def test_trl_writes_arguments_as_objects_and_every_content_as_text():
    row = row_of(trl_row, "seen", WHOLE)
    assert row["prompt"] == [{"role": "user", "content": "Add 2 and 3, then submit.\n[image: image/png]"}]
    call, result = row["completion"]
    assert call["content"] == ""
    assert call["tool_calls"][0]["function"] == {"name": "add", "arguments": {"a": 1, "b": 3}}
    assert (result["role"], result["name"]) == ("tool", "add")


def test_trl_says_the_return_and_null_where_nothing_was_judged():
    assert row_of(trl_row, "good")["reward"] == 1.0
    assert row_of(trl_row, "unjudged")["reward"] is None
    assert row_of(trl_row, "unjudged")["episode"]["rewards"] == [None]


def test_trl_leaves_out_a_prompt_that_asks_nothing():
    with pytest.raises(LeftOutError, match="system message"):
        row_of(trl_row, Played("told", [step_of(1)], conversation("[system]", "Be brief.")))


def test_a_preference_has_one_prompt_and_two_ends():
    good, poor = EPISODES["good"], EPISODES["poor"]
    row = preference_row((good.record, good.steps), (poor.record, poor.steps), PLAIN)
    assert (row["chosen_return"], row["rejected_return"]) == (1.0, -0.5)
    assert row["chosen"][-1]["tool_calls"][0]["function"]["arguments"] == {"answer": "5 €"}
    assert row["rejected"][0]["tool_calls"][0]["function"]["name"] == "ad"
    assert row["chosen_episode"]["episode_id"] == good.origin.episode_id


def test_two_prompts_make_no_preference():
    good, other = EPISODES["good"], EPISODES["seen"]
    with pytest.raises(LeftOutError, match="different prompts"):
        preference_row((good.record, good.steps), (other.record, other.steps), PLAIN)


def test_verl_has_the_columns_of_its_documentation():
    row = row_of(verl_row, "good", extra=VerlOptions("answer", "math", "gsm"))
    assert (row["data_source"], row["ability"]) == ("gsm", "math")
    assert row["reward_model"] == {"style": "rule", "ground_truth": "5"}
    assert (row["extra_info"]["split"], row["extra_info"]["index"]) == ("train", 0)
    assert row["prompt"] == [{"role": "user", "content": "Add 2 and 3, then submit."}]


@pytest.mark.parametrize(
    ("name", "key", "truth"),
    [
        ("good", None, None),
        ("good", "gone", None),
        ("good", "question", "2 + 3"),
        ("seen", "answer", '["a", "b"]'),
    ],
    ids=["unnamed", "missing", "text", "list"],
)
def test_verl_takes_the_ground_truth_from_the_task_and_makes_none_up(name, key, truth):
    row = row_of(verl_row, name, extra=VerlOptions(key))
    assert row["reward_model"]["ground_truth"] == truth


def test_verl_has_the_play_as_messages_with_a_mask_and_as_a_response():
    row = row_of(verl_row, "poor", RAN, extra=VerlOptions())
    assert row["train_mask"] == [0, 0, 0, 1]
    assert len(row["messages"]) == 4
    (response,) = row["responses"]
    assert json.loads(response) == row["messages"][1:]
    assert json.loads(row["messages"][1]["tool_calls"][0]["function"]["arguments"]) == {"a": 1, "b": 3}
    assert (row["reward"], row["rewards"]) == (-0.5, [-0.5, 0.0])


@pytest.mark.parametrize("form", ROWS)
@pytest.mark.parametrize(
    ("name", "reason"), [("unasked", "without a prompt"), ("idle", "without a call")], ids=["prompt", "call"]
)
def test_every_format_leaves_out_what_is_no_conversation(form, name, reason):
    with pytest.raises(LeftOutError, match=reason):
        row_of(ROWS[form], name)


@pytest.mark.parametrize("form", ROWS)
@pytest.mark.parametrize("key", ["sums", ANY], ids=["environment", "any"])
def test_every_format_announces_the_tools_that_it_is_given(form, key):
    tools = row_of(ROWS[form], "good", ConversationOptions({key: [TOOL]}))["tools"]
    (tool,) = json.loads(tools) if isinstance(tools, str) else tools
    parameters = {"type": "object", "properties": {}}
    announced = {"name": "add", "description": "Adds.", "parameters": parameters}
    assert tool.get("function", tool) == announced


def test_openai_announces_tools_without_parallel_calls_and_nothing_without_tools():
    row = row_of(openai_row, "good", ConversationOptions({"sums": [TOOL]}))
    assert row["parallel_tool_calls"] is False
    assert "tools" not in row_of(openai_row, "good", ConversationOptions({"other": [TOOL]}))


def test_a_refused_call_is_shown_with_what_the_agent_was_told():
    steps = [step_of(1, "ad", **REFUSED), step_of(2)]
    messages = row_of(openai_row, Played("refused", steps, ASKED))["messages"]
    assert messages[2]["content"] == "there is no tool 'ad'"


def test_an_image_alone_can_be_asked():
    (asked, *_) = row_of(openai_row, Played("image", [step_of(1)], (IMAGE,)))["messages"]
    assert [part["type"] for part in asked["content"]] == ["image_url"]
