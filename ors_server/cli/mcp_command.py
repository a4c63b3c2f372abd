"""`ors-server mcp install`: writes a server into the settings of an MCP host."""

import json
import os
import re
import shutil
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, cast
from urllib.parse import urlsplit

import typer

from ors_server.cli.command_options import Command, CommandGroup, from_fields
from ors_server.cli.command_output import CommandError, MisuseError, say
from ors_server.cli.examples import epilog_of
from ors_server.cli.shell_completion import installed_names

KEY_VARIABLE = "ORS_API_KEY"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TABLE = re.compile(r"^\s*\[", re.MULTILINE)

mcp = typer.Typer(
    cls=CommandGroup, no_args_is_help=True, help="Connect MCP hosts, the programs that connect a model."
)


class McpHost(Enum):
    """The hosts whose settings can be written."""

    CLAUDE = "claude"
    CURSOR = "cursor"
    VSCODE = "vscode"
    CODEX = "codex"


@dataclass(frozen=True)
class McpInstallOptions:
    """Options of `mcp install`."""

    host: Annotated[McpHost, typer.Argument(help="Claude Code, Cursor, VS Code or Codex.")]
    references: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="REF",
            autocompletion=installed_names,
            help="Environments that the host serves to itself over standard input and output.",
            show_default=False,
        ),
    ] = None
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Connect to this running server, or agent URL, instead."),
    ] = None
    key: Annotated[
        bool, typer.Option("--key", help=f"The server needs a key, which the host reads from {KEY_VARIABLE}.")
    ] = False
    name: Annotated[str, typer.Option(help="Name of the server in the host.")] = "ors"
    project: Annotated[
        bool, typer.Option("--project", help="For the project in this folder, not for all of the user's.")
    ] = False
    print: Annotated[bool, typer.Option("--print", help="Print the settings, and write nothing.")] = False
    yes: Annotated[bool, typer.Option("--yes", help="Write without asking.")] = False


def install(options: McpInstallOptions) -> None:
    """Write a server into the settings of an MCP host.

    Shows what is written and asks first; the file as it was is kept beside it with the ending .backup. The
    key itself is never written.
    """
    _check(options)
    path = _settings_file(options)
    entry = _entry(options)
    write = _with_table if options.host is McpHost.CODEX else _with_entry
    if options.print:
        say(write("", options, entry, path).rstrip("\n"))
        return
    before = path.read_text() if path.exists() else ""
    after = write(before, options, entry, path)
    if after == before:
        say(f"{path} has this server already")
        return
    say(f"{path}:")
    say(write("", options, entry, path).rstrip("\n"))
    if not options.yes:
        if not sys.stdin.isatty():
            raise MisuseError("nothing was written: stdin is not a terminal; pass --yes")
        if not typer.confirm("Write it?"):
            raise CommandError("nothing was written")
    _replace(path, before, after)
    say(f"Written. Start {options.host.value} again to connect to {options.name!r}.")


mcp.command("install", cls=Command, epilog=epilog_of("mcp install"))(from_fields(install))


def _check(options: McpInstallOptions) -> None:
    if (options.url is None) == (not options.references):
        raise MisuseError(
            "expected environments to serve, or --url of a running server, got "
            + ("neither" if options.url is None else "both")
        )
    if options.key and options.url is None:
        raise MisuseError("--key needs --url: a host that starts the server itself needs no key")
    if _NAME.fullmatch(options.name) is None:
        raise MisuseError(f"expected a name of 1 to 64 letters, digits, - and _, got {options.name!r:.80}")
    if options.url is not None:
        parts = urlsplit(options.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise MisuseError(f"expected a URL such as http://127.0.0.1:8080/mcp, got {options.url!r:.200}")


def _settings_file(options: McpInstallOptions) -> Path:
    """Return the file that the host reads for this project, or for the user."""
    home, here = Path.home(), Path.cwd()
    match options.host:
        case McpHost.CLAUDE:
            return here / ".mcp.json" if options.project else home / ".claude.json"
        case McpHost.CURSOR:
            return (here if options.project else home) / ".cursor" / "mcp.json"
        case McpHost.VSCODE:
            if options.project:
                return here / ".vscode" / "mcp.json"
            folder = home / "Library/Application Support" if sys.platform == "darwin" else home / ".config"
            return folder / "Code" / "User" / "mcp.json"
        case McpHost.CODEX:
            if options.project:
                return here / ".codex" / "config.toml"
            return Path(os.environ.get("CODEX_HOME") or home / ".codex") / "config.toml"


def _entry(options: McpInstallOptions) -> dict[str, Any]:
    """Return what the host's settings have of the server, without the header of its key."""
    if options.url is None:
        # A host does not activate environments, so that the whole path is named.
        program = Path(sys.executable).with_name("ors-server")
        command = [str(program)] if program.exists() else [sys.executable, "-m", "ors_server"]
        references = [
            str(Path(reference).resolve()) if Path(reference).exists() else reference
            for reference in options.references or ()
        ]
        return {"command": command[0], "args": [*command[1:], "serve", *references, "--stdio"]}
    url = options.url if urlsplit(options.url).path.strip("/") else f"{options.url.rstrip('/')}/mcp"
    entry: dict[str, Any] = {"url": url}
    if options.host in {McpHost.CLAUDE, McpHost.VSCODE}:
        entry = {"type": "http", **entry}
    return entry


def _with_entry(text: str, options: McpInstallOptions, entry: dict[str, Any], path: Path) -> str:
    """Return a host's JSON with the server in it."""
    try:
        decoded: object = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise CommandError(
            f"{path} is not plain JSON ({error}); add what --print shows to it by hand"
        ) from error
    servers_key = "servers" if options.host is McpHost.VSCODE else "mcpServers"
    settings = cast("dict[str, Any]", decoded) if isinstance(decoded, dict) else None
    servers: object = None if settings is None else settings.setdefault(servers_key, {})
    if settings is None or not isinstance(servers, dict):
        raise CommandError(f"{path}: expected an object with {servers_key!r}; add what --print shows by hand")
    if options.key:
        value = {McpHost.CLAUDE: f"${{{KEY_VARIABLE}}}", McpHost.CURSOR: f"${{env:{KEY_VARIABLE}}}"}.get(
            options.host, f"${{input:{options.name}-key}}"
        )
        entry = {**entry, "headers": {"X-API-Key": value}}
        if options.host is McpHost.VSCODE:  # asks for the key once, and keeps it
            inputs: list[Any] = settings.setdefault("inputs", [])
            prompt = {"type": "promptString", "id": f"{options.name}-key", "password": True}
            ids = [cast("dict[str, Any]", item).get("id") for item in inputs if isinstance(item, dict)]
            if prompt["id"] not in ids:
                inputs.append({**prompt, "description": "API key of ors-server"})
    cast("dict[str, Any]", servers)[options.name] = entry
    return json.dumps(settings, indent=2, ensure_ascii=False) + "\n"


def _with_table(text: str, options: McpInstallOptions, entry: dict[str, Any], path: Path) -> str:
    """Return Codex's TOML with the server's table in it; every other line stays as it is."""
    import tomllib

    if options.key:
        entry = {**entry, "bearer_token_env_var": KEY_VARIABLE}
    header = f"[mcp_servers.{options.name}]"
    table = "\n".join([header, *(f"{name} = {json.dumps(value)}" for name, value in entry.items())]) + "\n"
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CommandError(f"{path} is not valid TOML ({error}); fix it first") from error
    start = next(
        (match.start() for match in re.finditer(rf"^{re.escape(header)}\s*$", text, re.MULTILINE)), None
    )
    if start is None:
        after = f"{text.rstrip()}\n\n{table}" if text.strip() else table
    else:
        following = _TABLE.search(text, start + len(header))
        rest = "" if following is None else f"\n{text[following.start() :].lstrip()}"
        after = f"{text[:start]}{table}{rest}"
    wanted = {**before, "mcp_servers": {**before.get("mcp_servers", {}), options.name: entry}}
    try:
        is_right = tomllib.loads(after) == wanted
    except tomllib.TOMLDecodeError:
        is_right = False
    if not is_right:
        raise CommandError(f"{path} has {options.name!r} in another form; add what --print shows by hand")
    return after


def _replace(path: Path, before: str, after: str) -> None:
    """Write a file whole, and keep what it was."""
    path = path.resolve()  # a link to settings that are kept elsewhere stays a link
    path.parent.mkdir(parents=True, exist_ok=True)
    if before:
        shutil.copy2(path, path.with_name(f"{path.name}.backup"))
    new = path.with_name(f".{path.name}.new")
    new.write_text(after)
    if before:
        shutil.copymode(path, new)
    new.replace(path)
