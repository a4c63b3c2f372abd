"""The ceiling: a low-level `mcp` server with the same tool and nothing else.

Usage: PORT
"""

import sys
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server import Server, ServerRequestContext

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOL = types.Tool(name="echo", description="Echoes the text.", input_schema=SCHEMA)


async def list_tools(
    context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    """Announce the tool."""
    del context, params
    return types.ListToolsResult(tools=[TOOL])


async def call_tool(
    context: ServerRequestContext[Any], params: types.CallToolRequestParams
) -> types.CallToolResult:
    """Echo the text."""
    del context
    text = (params.arguments or {})["text"]
    return types.CallToolResult(content=[types.TextContent(text=text)])


server: Server[Any] = Server(
    "bare", on_list_tools=list_tools, on_call_tool=call_tool, get_tool_input_schema=lambda _name: SCHEMA
)
uvicorn.run(
    server.streamable_http_app(host="127.0.0.1"),
    host="127.0.0.1",
    port=int(sys.argv[1]),
    loop="uvloop",
    http="httptools",
    log_level="warning",
    access_log=False,
    timeout_keep_alive=75,
)
