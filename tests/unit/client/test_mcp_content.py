"""What MCP carries, read as the standard's blocks, results and errors."""

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from ors_server.client import BrokenAnswerError, Patience, UnreachableError
from ors_server.client.mcp_connection import translate
from ors_server.client.mcp_content import RESULT_KEY, blocks_of, result_of
from ors_server.client.patient_transport import PatientTransport
from ors_server.model import errors
from ors_server.model.clock import SystemClock
from ors_server.model.wire import ImageBlock, TextBlock


def result(*texts, is_error=False, **figures):
    meta = {RESULT_KEY: figures} if figures else None
    content = [types.TextContent(type="text", text=text) for text in texts]
    return types.CallToolResult(content=content, is_error=is_error, meta=meta)


def test_what_the_standard_has_no_block_for_becomes_text():
    image = types.ImageContent(type="image", data="eA==", mime_type="image/png")
    link = types.ResourceLink(type="resource_link", name="n", uri="ors://x")
    blocks = blocks_of([image, link])
    assert blocks[0] == ImageBlock(data="eA==", mimeType="image/png")
    assert isinstance(blocks[1], TextBlock)
    assert "ors://x" in blocks[1].text


def test_figures_of_another_form_are_no_answer_and_without_figures_there_is_content_alone():
    with pytest.raises(BrokenAnswerError, match="figures"):
        result_of("c", "t", result("x", reward="much"))
    plain = result_of("c", "t", result("hello"))
    assert (plain.text, plain.reward, plain.step, plain.finished) == ("hello", None, None, False)
    refused = result_of("c", "t", result("no such tool", is_error=True))
    assert (refused.is_error, refused.refusal) == (True, None)


def error_of(code, data=None, last=None):
    carrier = PatientTransport(None, Patience(), SystemClock())
    carrier.last_error = last
    return translate(MCPError(code, "why", data), carrier)


@pytest.mark.parametrize(
    ("code", "data", "cls"),
    [
        (-32004, {"code": "session_not_found", "blame": "client"}, errors.SessionNotFoundError),
        (-32005, {"code": "from_the_future", "blame": "machinery"}, errors.MachineryError),
        (types.METHOD_NOT_FOUND, None, errors.NotSupportedError),
        (types.CONNECTION_CLOSED, None, UnreachableError),
        (types.INTERNAL_ERROR, "text", UnreachableError),
        (types.INVALID_PARAMS, None, errors.ClientError),
    ],
)
def test_errors_of_the_protocol_become_ours(code, data, cls):
    assert type(error_of(code, data)) is cls


def test_what_broke_below_the_protocol_is_told_as_it_was():
    last = UnreachableError("refused")
    assert error_of(types.INTERNAL_ERROR, None, last) is last


async def test_a_transport_of_ones_own_is_closed_with_its_connection():
    carrier = PatientTransport(None, Patience(), SystemClock())
    await carrier.aclose()
    assert carrier.last_error is None
