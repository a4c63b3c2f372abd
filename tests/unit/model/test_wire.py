"""The standard's bodies: what they hold, what they refuse, and what they never show."""

import copy
import math
import sys

import pytest
from pydantic import ValidationError

from ors_server.model import wire
from ors_server.model.wire import (
    CallRequest,
    CreateRequest,
    GroupScore,
    ImageBlock,
    Message,
    ReasoningBlock,
    ScoreGroupRequest,
    Secret,
    Split,
    TaskRangeRequest,
    TaskRequest,
    TextBlock,
    ToolCallBlock,
    ToolListing,
    ToolOutput,
    ToolResultBlock,
    ToolSpec,
    WireModel,
    as_blocks,
)

BLOCKS = {
    "text": TextBlock(text="t"),
    "image": ImageBlock(data="", mimeType="image/png"),
    "reasoning": ReasoningBlock(text="r"),
    "tool_call": ToolCallBlock(id="1", name="n", input={}),
    "tool_result": ToolResultBlock(tool_call_id="1", blocks=[]),
}
PLACES = {
    "system": {"text", "image"},
    "user": {"text", "image", "tool_result"},
    "assistant": {"text", "image", "reasoning", "tool_call"},
}


BODIES = [
    value
    for value in vars(wire).values()
    if isinstance(value, type) and issubclass(value, WireModel) and value.__module__ == wire.__name__
]


@pytest.mark.parametrize("model", BODIES)
def test_every_body_is_frozen_and_closed_to_unknown_fields(model):
    assert model.model_config["frozen"]
    assert model.model_config["extra"] == "forbid"


def test_a_step_has_all_four_keys_on_the_wire():
    assert set(ToolOutput().model_dump()) == {"blocks", "metadata", "reward", "finished"}


def test_a_tool_is_announced_with_exactly_three_keys():
    assert set(ToolSpec(name="n", description="d", input_schema=None).model_dump()) == {
        "name",
        "description",
        "input_schema",
    }
    assert ToolListing(tools=[]).message_block_types == [
        "text",
        "image",
        "reasoning",
        "tool_call",
        "tool_result",
    ]


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf])
def test_no_reward_is_not_a_number(reward):
    for make in (ToolOutput.ongoing, ToolOutput.final, ToolOutput, GroupScore):
        with pytest.raises(ValidationError, match="finite"):
            make(reward=reward)


def test_constructors_take_text_and_blocks_in_order_and_an_end_must_say_its_reward():
    with pytest.raises(TypeError):
        ToolOutput.final("over")  # type: ignore[call-arg]  # the mistake is tested
    assert ToolOutput.final("over", reward=None).finished
    image = BLOCKS["image"]
    output = ToolOutput.ongoing("one", image, TextBlock(text="two"), reward=0.5, metadata={"k": 1})
    assert output.blocks == [TextBlock(text="one"), image, TextBlock(text="two")]
    assert (output.reward, output.finished, output.metadata) == (0.5, False, {"k": 1})
    assert as_blocks([]) == []


@pytest.mark.parametrize("role", PLACES)
@pytest.mark.parametrize("kind", BLOCKS)
def test_a_role_holds_its_own_blocks_only(role, kind):
    if kind in PLACES[role]:
        assert Message(role=role, blocks=[BLOCKS[kind]]).blocks[0].type == kind
    else:
        with pytest.raises(ValidationError, match=f"a {role} message must hold"):
            Message(role=role, blocks=[BLOCKS[kind]])


@pytest.mark.parametrize(
    ("body", "is_legal"),
    [
        ({"task_spec": {}}, True),
        ({"task_spec": {"a": 1}, "env_name": "e"}, True),
        ({"split": "train", "index": 0}, True),
        ({"split": "train", "index": 0, "toolset_name": "t", "secrets": {"K": "v"}}, True),
        ({"task_spec": None, "split": "train", "index": 0}, True),
        ({}, False),
        ({"task_spec": None}, False),
        ({"split": "train"}, False),
        ({"index": 0}, False),
        ({"task_spec": {}, "split": "train", "index": 0}, False),
        ({"task_spec": {}, "split": "train"}, False),
        ({"task_spec": []}, False),
        ({"split": "train", "index": 0, "extra": 1}, False),
        ({"split": "train", "index": 0, "secrets": {"K": {"value": "v"}}}, False),
    ],
    ids=str,
)
def test_a_session_is_created_from_exactly_one_source(body, is_legal):
    if is_legal:
        CreateRequest.model_validate(body)
        return
    with pytest.raises(ValidationError):
        CreateRequest.model_validate(body)


def test_no_repr_shows_a_secret_or_a_task():
    create = CreateRequest(task_spec={"answer": "forty-two"}, secrets={"KEY": "s3cr3t"})
    shown = repr(create) + repr(Secret(value="s3cr3t")) + str(create)
    assert "s3cr3t" not in shown
    assert "forty-two" not in shown


@pytest.mark.parametrize(
    ("model", "body"),
    [
        (TaskRequest, {"split": "train", "index": 1.5}),
        (TaskRequest, {"split": "train", "index": None}),
        (TaskRangeRequest, {"split": "train", "start": "x"}),
        (CallRequest, {"name": "n", "input": None}),
        (CallRequest, {"name": "n", "input": []}),
        (CallRequest, {"name": "n"}),
        (CallRequest, {"name": "n", "input": {}, "x": 1}),
        (ScoreGroupRequest, {"candidates": {}}),
        (Split, {"name": "train", "type": "other"}),
    ],
    ids=str,
)
def test_a_body_of_another_form_is_refused(model, body):
    with pytest.raises(ValidationError):
        model.model_validate(body)


def test_a_body_of_lax_form_is_taken_as_the_reference_takes_it():
    assert TaskRequest.model_validate({"split": "train", "index": "1"}).index == 1
    assert TaskRangeRequest.model_validate({"split": "train", "start": None, "stop": None}).stop is None


@pytest.mark.parametrize(
    ("content", "reward"),
    [
        ((), None),
        (("one", "two"), 0.5),
        ((TextBlock(text="one"), ImageBlock(data="aGk=", mimeType="image/png")), -1.0),
        (("one",), 1),
        (("one",), sys.float_info.max),
    ],
)
def test_an_output_of_a_constructor_is_what_checking_every_field_gives(content, reward):
    made = ToolOutput.ongoing(*content, reward=reward)
    blocks = [TextBlock(text=item) if isinstance(item, str) else item for item in content]
    checked = ToolOutput(blocks=blocks, reward=reward, metadata=None, finished=False)
    assert made == checked
    assert (repr(made), made.model_dump_json()) == (repr(checked), checked.model_dump_json())
    assert made.model_fields_set == checked.model_fields_set
    assert isinstance(made.reward, float | None)
    assert copy.deepcopy(made) == copy.copy(made) == made.model_copy() == checked
    with pytest.raises(ValidationError, match="frozen"):
        made.reward = 1.0  # type: ignore[misc]  # the mistake is tested


def test_a_constructor_makes_an_output_of_its_class_and_checks_other_kinds_of_blocks():
    class Own(ToolOutput):
        """An author's own output."""

        hint: str = "none"

    class Shouted(TextBlock):
        """An author's own block."""

    own = Own.final(reward=1.0)
    assert isinstance(own, Own)
    assert own.hint == "none"
    assert ToolOutput.ongoing(Shouted(text="a")) == ToolOutput(blocks=[Shouted(text="a")])
    with pytest.raises(ValidationError):
        ToolOutput.ongoing(3)  # type: ignore[arg-type]  # the mistake is tested
