"""`ors-server call`: makes one tool call, in this process or at a running server."""

import json
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, cast

import typer

from ors_server.cli.command_options import TaskPlaceOptions
from ors_server.cli.command_output import MisuseError, say, say_json
from ors_server.cli.data_options import DataOptions, declared_keys, resolve_references
from ors_server.cli.episodes_show import describe_reward, is_unjudged
from ors_server.cli.exit_status import ExitStatus
from ors_server.cli.shell_completion import installed_names

_EXPECTED = """expected one such as '{"answer": "42"}'"""


@dataclass(frozen=True, kw_only=True)
class CallOptions(DataOptions, TaskPlaceOptions):
    """Options of `call`."""

    where: Annotated[
        str,
        typer.Argument(
            metavar="REF|URL",
            help="An environment, or a running server's URL.",
            autocompletion=installed_names,
        ),
    ]
    tool: Annotated[str, typer.Argument(help="The tool's name.")]
    arguments: Annotated[
        str, typer.Argument(help="Its arguments as JSON; - reads them from standard input.")
    ] = "{}"
    environment: Annotated[
        str | None,
        typer.Option(help="Name of the environment, where there are several.", show_default="the first one"),
    ] = None
    session: Annotated[
        str | None,
        typer.Option(help="At a URL: call in this session, which stays open."),
    ] = None
    json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")] = False


def call(options: CallOptions) -> None:
    """Make one tool call and show its output.

    The status is 1 if the call was refused or failed, or its reward could not be computed.

    Without --session the call is made in a new session, which ends after it. A server's API key is
    read from the environment variable ORS_API_KEY.
    """
    import anyio

    from ors_server.cli.server_requests import is_url

    arguments = read_arguments(options.arguments)
    if options.session is not None and not is_url(options.where):
        raise MisuseError("--session needs a running server's URL, such as http://127.0.0.1:8080")
    if declared_keys(options) and is_url(options.where):
        raise MisuseError("the options of data files need a data file, such as train.jsonl, not a URL")
    result = anyio.run(_call, options, arguments)
    if options.json:
        say_json(result)
    else:
        show(result)
    if is_failed(result):
        raise typer.Exit(ExitStatus.FAILED)


def read_arguments(text: str) -> dict[str, Any]:
    """Read a tool's arguments: a JSON object, or `-` to read one from standard input.

    Raises:
        MisuseError: If the text is not a JSON object.
    """
    try:
        arguments = json.loads(sys.stdin.read() if text == "-" else text)
    except ValueError as error:
        raise MisuseError(f"the arguments are not JSON: {error}; {_EXPECTED}") from error
    if not isinstance(arguments, dict):
        raise MisuseError(f"the arguments must be a JSON object, got {type(arguments).__name__}; {_EXPECTED}")
    return cast("dict[str, Any]", arguments)


def show(result: dict[str, Any]) -> None:
    """Print a result, as the control API gives it, for a person."""
    if result["kind"] != "completed":
        say(f"{result['kind']}: {result['detail']}")
        return
    output = result["output"]
    for block in output["blocks"]:
        say(block["text"] if block["type"] == "text" else f"[{block.get('mimeType', block['type'])}]")
    style = "bad" if is_failed(result) else "notice" if output["reward"] is None else "good"
    say(f"{describe_reward(output)}{', finished' if output['finished'] else ''}", style=style)


def is_failed(result: dict[str, Any]) -> bool:
    """Return whether a call was refused or failed, or its judgement failed."""
    return result["kind"] != "completed" or is_unjudged(result["output"])


async def _call(options: CallOptions, arguments: dict[str, Any]) -> dict[str, Any]:
    from urllib.parse import quote

    from ors_server.client.call_result import read_output
    from ors_server.client.typed_answers import CallKind, CompletedFields, DetailFields, read_answer

    async with _open(options) as request:
        session_id = options.session or await _create(request, options)
        path = f"/sessions/{quote(session_id, safe='')}"
        try:
            result: dict[str, Any] = await request(
                "POST", f"{path}/calls", {"name": options.tool, "arguments": arguments}
            )
            source = f"the answer of POST {path}/calls"
            if read_answer(CallKind, result, source)["kind"] == "completed":
                read_output(read_answer(CompletedFields, result, source)["output"])
            else:
                read_answer(DetailFields, result, source)
        finally:
            if options.session is None:
                await request("DELETE", path)
    return result


@asynccontextmanager
async def _open(options: CallOptions) -> AsyncGenerator[Callable[..., Awaitable[Any]]]:
    """Give a function that makes requests of the control API, at the server or in this process."""
    from ors_server.cli.server_requests import ask, is_url, open_server

    if is_url(options.where):
        async with open_server(options.where) as server:
            yield partial(ask, server)
        return
    from ors_server.client.connection import HttpRequest
    from ors_server.testing.local_client import open_environment

    (environment,) = resolve_references([options.where], options)
    async with open_environment(environment) as local:

        async def request(method: str, path: str, body: Any = None) -> Any:
            return await local.client.server.connection.ask(HttpRequest(method, f"/_ors{path}", body))

        yield request


async def _create(request: Callable[..., Awaitable[Any]], options: CallOptions) -> str:
    from urllib.parse import quote

    from ors_server.client.typed_answers import (
        EnvironmentNameFields,
        SessionIdFields,
        SplitNameFields,
        read_answer,
    )

    name, split = options.environment, options.split
    if split is None:
        if name is None:
            listed = read_answer(
                EnvironmentNameFields, await request("GET", "/environments"), "/environments"
            )
            name = listed["environments"][0]["name"]
        path = f"/environments/{quote(name, safe='')}"
        stated = read_answer(SplitNameFields, await request("GET", path), f"the answer of GET {path}")
        split = stated["splits"][0]["name"]
    body = {"environment": name, "split": split, "index": options.index}
    created = read_answer(
        SessionIdFields, await request("POST", "/sessions", body), "the answer of POST /sessions"
    )
    return created["session_id"]
