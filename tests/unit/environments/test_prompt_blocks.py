"""A conversation as plain blocks, in the words of the reference implementation."""

from ors_server import ImageBlock, Message, ReasoningBlock, TextBlock, ToolCallBlock, ToolResultBlock
from ors_server.environments.prompt_blocks import flatten_messages

IMAGE = ImageBlock(data="", mimeType="image/png")


def test_one_user_message_of_text_and_images_keeps_its_blocks():
    blocks = [TextBlock(text="see"), IMAGE]
    assert flatten_messages([Message(role="user", blocks=blocks)]) == blocks


def test_anything_longer_gets_a_header_for_each_message():
    flat = flatten_messages([Message(role="system", blocks=[]), Message(role="user", blocks=[IMAGE])])
    assert [block.detail for block in flat] == [{"role": "system"}, {"role": "user"}, None]
    assert flat[-1] is IMAGE


def test_every_kind_of_block_becomes_text():
    history = [
        Message(
            role="assistant",
            blocks=[ReasoningBlock(text="hm"), ToolCallBlock(id="c1", name="calc", input={"e": "2+2"})],
        ),
        Message(role="user", blocks=[ToolResultBlock(tool_call_id="c1", blocks=[TextBlock(text="4")])]),
        Message(role="user", blocks=[ToolResultBlock(tool_call_id="c2", blocks=[IMAGE], is_error=True)]),
    ]
    flat = flatten_messages(history)
    assert [getattr(block, "text", "image") for block in flat] == [
        *("[assistant]", "<think>hm</think>", '[tool_call calc] {"e": "2+2"}', "[user]", "[tool_result]"),
        *("4", "[user]", "[tool_result (error)]", "image"),
    ]
    assert flat[2].detail == {"type": "tool_call", "id": "c1"}


def test_a_lone_tool_result_is_no_plain_message():
    flat = flatten_messages([Message(role="user", blocks=[ToolResultBlock(tool_call_id="c", blocks=[])])])
    assert len(flat) == 2
