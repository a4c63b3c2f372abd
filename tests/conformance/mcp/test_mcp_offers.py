"""What an environment offers besides its tools, and content that only MCP can carry.

Sources: MCP 2026-07-28 and 2025-11-25, server/prompts, server/resources, server/utilities.
"""

import base64
from pathlib import Path
from typing import Literal

import mcp_types as types
import pytest
from mcp import MCPError

from ors_server import (
    CallContext,
    Message,
    TextBlock,
    ToolOutput,
    audio_block,
    prompt,
    resource,
    resource_block,
    terminal,
    tool,
)
from tests.fixtures.single_task import SingleTask

FIXTURE = str(Path(__file__).parents[2] / "fixtures" / "mcp_fixture.py") + ":McpFixture"


class Library(SingleTask):
    """A library with prompts and resources."""

    name = "library"
    SPLIT = "test"
    TASKS = ({"book": "Emma"},)

    def get_prompt(self) -> list[str]:
        return ["Find", self.task_spec["book"]]

    @prompt
    def summarise(self, length: Literal["short", "shorter", "long"], tone: str = "plain") -> str:
        """Asks for a summary.

        Args:
            length: How long.
        """
        return f"{length} {tone} {self.task_spec['book']}"

    @prompt(name="discuss")
    async def talk(self, context: CallContext) -> list[Message]:
        return [
            Message(role="user", blocks=[TextBlock(text=f"step {context.step}")]),
            Message(role="assistant", blocks=[TextBlock(text="Yes."), TextBlock(text="No.")]),
        ]

    @prompt
    def several(self) -> list[TextBlock]:
        return [TextBlock(text="one"), TextBlock(text="two")]

    @prompt
    def broken_prompt(self) -> str:
        raise RuntimeError("torn page")

    @resource("library://{shelf}/{book}")
    def page(self, shelf: str, book: str) -> str:
        """One page."""
        return f"{book} on {shelf}"

    @resource("library://cover", mime_type="image/png")
    async def cover(self, context: CallContext) -> bytes:
        return context.session_id.encode()

    @resource("library://broken")
    def broken(self) -> str:
        return 5  # type: ignore[return-value]  # a mistake that authors make

    @tool
    async def listen(self) -> ToolOutput:
        """Plays a sound."""
        return ToolOutput.ongoing(
            audio_block("AAAA", "audio/wav", "a click"),
            resource_block("library://x", "text/plain", text="a text"),
            resource_block("library://y", "image/png", data="AAAA"),
        )

    @tool
    async def chatter(self, context: CallContext) -> str:
        """Logs a line of every kind."""
        for level in ("debug", "info", "warning", "error"):
            await context.log(level, f"a {level}", "library")
        return "done"

    @tool
    @terminal
    async def answer(self, text: str) -> ToolOutput:
        """Takes the answer."""
        return ToolOutput.final("Thank you.", reward=float(text == "here"))


async def connected(make_site, era, **options):
    site = await make_site(Library)
    session_id = await site.start("library")
    return site.client(f"/sessions/{session_id}/mcp", era, **options), session_id


async def test_an_environments_prompts_are_listed_after_the_task(make_site, era):
    client, _ = await connected(make_site, era)
    async with client as reader:
        prompts = (await reader.list_prompts()).prompts
    assert [one.name for one in prompts] == ["task", "summarise", "discuss", "several", "broken_prompt"]
    described = [(one.name, one.description, one.required) for one in prompts[1].arguments]
    assert described == [("length", "How long.", True), ("tone", "", False)]


async def test_an_environments_prompt_is_rendered_for_the_task(make_site, era):
    client, _ = await connected(make_site, era)
    async with client as reader:
        short = await reader.get_prompt("summarise", {"length": "short"})
        talk = await reader.get_prompt("discuss")
        several = await reader.get_prompt("several")
    assert [message.content.text for message in short.messages] == ["short plain Emma"]
    assert [(message.role, message.content.text) for message in talk.messages] == [
        ("user", "step 1"),
        ("assistant", "Yes."),
        ("assistant", "No."),
    ]
    assert [message.content.text for message in several.messages] == ["one", "two"]


async def test_a_prompt_without_arguments_is_refused_and_one_that_breaks_is_the_servers_error(make_site, era):
    client, _ = await connected(make_site, era)
    async with client as reader:
        with pytest.raises(MCPError, match="missing arguments: length"):
            await reader.get_prompt("summarise")
    client, _ = await connected(make_site, era)
    async with client as reader:
        for ask in (reader.get_prompt("broken_prompt"), reader.read_resource("library://broken")):
            with pytest.raises(MCPError) as caught:
                await ask
            assert caught.value.code == types.INTERNAL_ERROR


async def test_closed_lists_of_values_are_completed(make_site, era):
    client, _ = await connected(make_site, era)
    reference = types.PromptReference(name="summarise")
    async with client as reader:
        short = await reader.complete(reference, {"name": "length", "value": "sh"})
        free = await reader.complete(reference, {"name": "tone", "value": "p"})
        unknown = await reader.complete(types.PromptReference(name="nothing"), {"name": "a", "value": ""})
        template = types.ResourceTemplateReference(uri="library://{shelf}/{book}")
        none = await reader.complete(template, {"name": "shelf", "value": ""})
    assert short.completion.values == ["short", "shorter"]
    assert [one.completion.values for one in (free, unknown, none)] == [[], [], []]


async def test_resources_are_listed_and_read_by_name_and_by_pattern(make_site, era):
    client, session_id = await connected(make_site, era)
    async with client as reader:
        resources = (await reader.list_resources()).resources
        templates = (await reader.list_resource_templates()).resource_templates
        page = await reader.read_resource("library://fiction/emma")
        cover = await reader.read_resource("library://cover")
    assert [one.uri for one in resources] == ["ors://session/task", "library://cover", "library://broken"]
    assert [one.uri_template for one in templates] == ["library://{shelf}/{book}"]
    assert page.contents[0].text == "emma on fiction"
    assert base64.b64decode(cover.contents[0].blob).decode() == session_id


async def test_reading_and_prompting_are_no_steps(make_site, era):
    site = await make_site(Library)
    async with site.play(era, "library") as (session_id, reader):
        await reader.get_prompt("several")
        await reader.read_resource("library://cover")
    assert (await site.summary(session_id)).steps == 0


async def test_rich_content_travels_whole_over_mcp_and_as_text_elsewhere(make_site, era):
    site = await make_site(Library)
    async with site.play(era, "library") as (session_id, reader):
        result = await reader.call_tool("listen", {})
    assert [block.type for block in result.content] == ["audio", "resource", "resource"]
    steps = await site.app.manager.steps(session_id)
    assert [block.text for block in steps[0].blocks] == ["a click", "a text", "[image/png: library://y]"]


async def test_the_terminal_tool_is_a_tool_like_any_other(make_site, era):
    site = await make_site(Library)
    async with site.play(era, "library") as (session_id, reader):
        tools = {one.name: one for one in (await reader.list_tools()).tools}
        result = await reader.call_tool("answer", {"text": "here"})
    assert list(tools) == ["listen", "chatter", "answer"]
    assert tools["answer"].input_schema["required"] == ["text"]
    assert not result.is_error
    assert (await site.summary(session_id)).episode_return == 1.0


@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
async def test_log_lines_reach_a_client_that_wants_them(make_site, era):
    lines = []

    async def note(params: types.LoggingMessageNotificationParams) -> None:
        lines.append((params.level, params.data, params.logger))

    options = {"logging_callback": note, **({"log_level": "warning"} if era == "2026-07-28" else {})}
    client, _ = await connected(make_site, era, **options)
    async with client as reader:
        if era != "2026-07-28":
            await reader.session.set_logging_level("warning")
        await reader.call_tool("chatter", {})
    assert lines == [("warning", "a warning", "library"), ("error", "a error", "library")]


async def test_log_lines_do_not_reach_a_client_that_did_not_ask(make_site):
    lines = []

    async def note(params: types.LoggingMessageNotificationParams) -> None:
        lines.append(params.data)

    client, _ = await connected(make_site, "2026-07-28", logging_callback=note)
    async with client as reader:
        await reader.call_tool("chatter", {})
    assert lines == []


@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
async def test_a_resource_can_be_subscribed_to_in_the_handshake_era(make_site):
    client, _ = await connected(make_site, "2025-11-25")
    async with client as reader:
        await reader.session.subscribe_resource("library://cover")
        await reader.session.unsubscribe_resource("library://cover")


async def test_the_suites_own_environment_is_served_by_its_path(make_site, era):
    site = await make_site(FIXTURE)
    async with site.play(era, "mcp_fixture") as (_, client):
        tools = await client.list_tools()
        result = await client.call_tool("test_multiple_content_types", {})
    assert len(tools.tools) == 23
    assert [block.type for block in result.content] == ["text", "image", "resource"]
