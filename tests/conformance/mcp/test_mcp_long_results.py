"""Long results over MCP are what the tool gave, to the letter, although they are written in parts."""

import pytest

from ors_server import ImageBlock, TextBlock, ToolOutput, tool
from ors_server.doors.http.sse import LONG_CHARACTERS
from ors_server.doors.mcp.mcp_results import EXTENSION, RESULT_KEY
from tests.conformance.mcp.conftest import HANDSHAKE, MODERN, Site
from tests.fixtures.single_task import SingleTask

STAND_IN = f'"long-value-{"0" * 32}"'
"""What a stand-in looks like, in a text of an author's."""
OUTPUTS = {
    "short": ToolOutput.ongoing('é\x01"\\ \u2028😀' + STAND_IN, reward=0.5),
    "just short": ToolOutput.ongoing("x" * (LONG_CHARACTERS - 100), reward=0.5),
    "just long": ToolOutput.ongoing("x" * LONG_CHARACTERS, reward=0.5),
    "controls": ToolOutput.ongoing("\x01\nabcdef" * 40_000, reward=0.5),
    "letters": ToolOutput.ongoing("é😀\u2028 abcdefghijkl" * 20_000, reward=0.5),
    "a stand-in": ToolOutput.ongoing(STAND_IN * 6_000, reward=0.5),
    "two texts and an image": ToolOutput(
        blocks=[
            TextBlock(text="a" * LONG_CHARACTERS, detail={"a": None, "b": [True, 1.5, {}]}),
            ImageBlock(data="A" * LONG_CHARACTERS, mimeType="image/png"),
            TextBlock(text="b" * LONG_CHARACTERS),
        ],
        reward=0.25,
    ),
    "many blocks": ToolOutput(blocks=[TextBlock(text=f"{number} é") for number in range(10_000)], reward=1.0),
    "long metadata": ToolOutput(metadata={"long": ["m" * 1_000] * 400, "short": [None, 1]}, reward=0.0),
}


class Speaker(SingleTask):
    """Gives one of the outputs above."""

    name = "speaker"
    SPLIT = "test"
    TASKS = ({"text": "t" * 2 * LONG_CHARACTERS},)

    def get_prompt(self) -> str:
        return str(self.task_spec["text"])

    @tool
    async def give(self, name: str) -> ToolOutput:
        """Gives an output."""
        return OUTPUTS[name]


@pytest.fixture
async def speaker(make_site) -> Site:
    site: Site = await make_site(Speaker)
    return site


@pytest.mark.parametrize("name", OUTPUTS)
async def test_a_client_reads_what_the_tool_gave(speaker, era, name):
    # The real client reads no event of more than 1 MiB: in the handshake era, texts stand in a result once.
    visibility = "visible" if era == MODERN else "meta"
    session = await speaker.start("speaker", visibility=visibility)
    async with speaker.client(f"/sessions/{session}/mcp", era) as client:
        result = await client.call_tool("give", {"name": name})
        given = OUTPUTS[name]
        told = [block.text if block.type == "text" else block.data for block in result.content]
        assert told == [block.text if isinstance(block, TextBlock) else block.data for block in given.blocks]
        figures = (result.meta or {})[RESULT_KEY]
        assert figures["reward"] == given.reward
        wanted = given.metadata or {}
        assert {key: figures["metadata"][key] for key in wanted} == wanted
        if visibility == "visible":
            shown = result.structured_content
            assert [block["detail"] for block in shown["blocks"]] == [block.detail for block in given.blocks]
            assert {key: shown["metadata"][key] for key in wanted} == wanted
        after = await client.call_tool("give", {"name": "short"})
        assert after.content[0].text == OUTPUTS["short"].blocks[0].text


@pytest.mark.parametrize("era", [MODERN, HANDSHAKE])
async def test_the_json_is_that_of_a_short_result(speaker, era):
    session = await speaker.start("speaker", visibility="visible")
    shapes = []
    async with speaker.client(f"/sessions/{session}/mcp", era) as client:
        for name in ("just short", "just long"):
            result = (await client.call_tool("give", {"name": name})).model_dump()
            result["content"][0]["text"] = result["structured_content"]["blocks"][0]["text"] = ""
            result["structured_content"]["metadata"] = result["meta"][RESULT_KEY]["metadata"] = None
            result["meta"][RESULT_KEY]["step"] = None
            shapes.append(result)
    assert shapes[0] == shapes[1]


async def test_long_prompts_tasks_and_lobbies_are_whole(speaker, era):
    text = "t" * 2 * LONG_CHARACTERS
    session = await speaker.start("speaker")
    async with speaker.client(f"/sessions/{session}/mcp", era) as client:
        (offer, *_) = (await client.list_prompts()).prompts
        assert text in (await client.get_prompt(offer.name)).messages[0].content.text
        (resource, *_) = (await client.list_resources()).resources
        assert text in (await client.read_resource(str(resource.uri))).contents[0].text
    tasks = await speaker.post("/mcp", f"{EXTENSION}/tasks", {"split": "test"})
    assert text in tasks.text
    async with speaker.client("/mcp", era) as lobby:
        place = {"environment": "speaker", "split": "test", "index": 0}
        started = await lobby.call_tool("start_episode", place)
        assert started.content[0].text.endswith(f"The task:\n\n{text}")
