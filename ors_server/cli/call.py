"""`ors-server call`: makes one tool call, in this process or at a running server."""

import json
import sys
from dataclasses import dataclass
from typing import Annotated, Any, cast

import typer

from ors_server.cli.completion import installed_names
from ors_server.cli.exit_status import ExitStatus
from ors_server.cli.output import CommandError, MisuseError, say, say_json


@dataclass(frozen=True)
class CallOptions:
    """What `call` can be told."""

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
    split: Annotated[str | None, typer.Option(help="Split of the task.", show_default="the first one")] = None
    index: Annotated[int, typer.Option(help="Index of the task.")] = 0
    environment: Annotated[
        str | None,
        typer.Option(help="Name of the environment, where there are several.", show_default="the first one"),
    ] = None
    session: Annotated[
        str | None, typer.Option(help="At a URL: call in this session, which stays, not in a new one.")
    ] = None
    json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")] = False


def call(options: CallOptions) -> None:
    """Make one tool call and show its output; the status is 1 where the call was refused or failed.

    Without --session the call is made in a session of its own, which ends after it. A server's API key is
    read from the environment variable ORS_API_KEY.
    """
    from ors_server.cli.remote import is_url

    arguments = read_arguments(options.arguments)
    remote = is_url(options.where)
    if options.session is not None and not remote:
        raise MisuseError("--session needs a running server's URL")
    result = _call_remote(options, arguments) if remote else _call_here(options, arguments)
    if options.json:
        say_json(result)
    else:
        show(result)
    if result["kind"] != "completed":
        raise typer.Exit(ExitStatus.FAILED)


def read_arguments(text: str) -> dict[str, Any]:
    """Read a tool's arguments.

    Args:
        text: A JSON object, or `-` to read one from standard input.

    Raises:
        MisuseError: If it is something else.
    """
    try:
        arguments = json.loads(sys.stdin.read() if text == "-" else text)
    except ValueError as error:
        raise MisuseError(f"the arguments are not JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise MisuseError(f"the arguments are a JSON object, not {type(arguments).__name__}")
    return cast("dict[str, Any]", arguments)


def show(result: dict[str, Any]) -> None:
    """Print a result for a person.

    Args:
        result: As the control API gives it.
    """
    if result["kind"] != "completed":
        say(f"{result['kind']}: {result['detail']}")
        return
    output = result["output"]
    for block in output["blocks"]:
        say(block["text"] if block["type"] == "text" else f"[{block['mimeType']}]")
    reward = "none" if output["reward"] is None else f"{output['reward']:g}"
    say(f"reward {reward}{', finished' if output['finished'] else ''}")


def _call_remote(options: CallOptions, arguments: dict[str, Any]) -> dict[str, Any]:
    from urllib.parse import quote

    from ors_server.cli.remote import RemoteServer

    server = RemoteServer(options.where)
    session_id = options.session or _create(server, options)
    path = f"/sessions/{quote(session_id, safe='')}"
    try:
        result: dict[str, Any] = server.ask(
            "POST", f"{path}/calls", {"name": options.tool, "arguments": arguments}
        )
    finally:
        if options.session is None:
            server.ask("DELETE", path)
    return result


def _create(server: Any, options: CallOptions) -> str:
    name, split = options.environment, options.split
    if split is None:
        name = name or server.ask("GET", "/environments")["environments"][0]["name"]
        split = server.ask("GET", f"/environments/{name}")["splits"][0]["name"]
    order = {"environment": name, "split": split, "index": options.index}
    session_id: str = server.ask("POST", "/sessions", order)["session_id"]
    return session_id


def _call_here(options: CallOptions, arguments: dict[str, Any]) -> dict[str, Any]:
    import anyio

    from ors_server.testing.client import open_environment

    async def run() -> dict[str, Any]:
        async with open_environment(options.where) as client:
            split = options.split or client.engine.environment(options.environment).splits[0].name
            session = await client.create(environment=options.environment, split=split, index=options.index)
            begun = await client.engine.call(session.id, options.tool, arguments)
            return {"call_id": begun.id, **render(await begun.wait())}

    return anyio.run(run)


def render(result: Any) -> dict[str, Any]:
    """Render a call's result as the control API does.

    Args:
        result: Completed, refused, or failed.
    """
    from ors_server.sessions.session_call import Completed, Failure, Refusal

    match result:
        case Completed():
            return {
                "kind": "completed",
                "step": result.step,
                "is_error": result.is_error,
                "output": result.output.model_dump(mode="json"),
            }
        case Refusal():
            return {
                "kind": "refused",
                "step": result.step,
                "reason": result.reason.value,
                "detail": result.error,
            }
        case Failure():
            error = result.error
            return {"kind": "failed", "code": error.code, "blame": error.blame.value, "detail": str(error)}
        case _:
            raise CommandError("the id belongs to the scoring of a group, not to a tool call")
