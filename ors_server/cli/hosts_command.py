"""`ors-server hosts`, `drain` and `restart`: look after the hosts of a running server."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ors_server.cli.command_output import CommandError, say, say_json

if TYPE_CHECKING:
    from ors_server.client.async_client import AsyncClient

DEFAULT_URL = "http://127.0.0.1:8080"
LOOK_SECONDS = 0.5
"""Seconds between two looks at a host that is giving its sessions up."""


@dataclass(frozen=True)
class HostsOptions:
    """Options of `hosts` and of `restart`."""

    url: Annotated[str, typer.Argument(metavar="URL", help="URL of the running server.")] = DEFAULT_URL
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False


@dataclass(frozen=True)
class DrainOptions:
    """Options of `drain`."""

    host: Annotated[str, typer.Argument(metavar="HOST", help="Name of the host, such as h1.")]
    url: Annotated[str, typer.Argument(metavar="URL", help="URL of the running server.")] = DEFAULT_URL
    wait_seconds: Annotated[
        float, typer.Option(help="Seconds to wait until the host has given its sessions up.", min=0.0)
    ] = 120.0
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False


def hosts(options: HostsOptions) -> None:
    """List the hosts of a server, with their addresses and their slots of session ids.

    The API key of an admin is read from the environment variable ORS_API_KEY.
    """
    import anyio

    _show(anyio.run(_request, options.url, "GET", "/hosts"), as_json=options.json)


def drain(options: DrainOptions) -> None:
    """Let a host suspend its sessions and give them to the other hosts; it ends then.

    Its sessions continue on the other hosts when a request names them. The API key of an admin is read from
    the environment variable ORS_API_KEY.
    """
    import anyio

    _show(anyio.run(_drain, options), as_json=options.json)


def restart(options: HostsOptions) -> None:
    """Start each host of a server again, one after another; their sessions continue.

    The API key of an admin is read from the environment variable ORS_API_KEY.
    """
    import anyio

    answer = anyio.run(_request, options.url, "POST", "/restart")
    if options.json:
        say_json(answer)
    else:
        say(
            "the hosts are started again, one after another; the server's log says when all of them have been"
        )


def _show(listed: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        say_json(listed)
        return
    for host in listed["hosts"]:
        state = "drained" if host["is_draining"] and not host["slots"] else "draining" * host["is_draining"]
        say(f"{host['name']}  {host['slots']:>4} slots  {host['address']}  {state}".rstrip())
    if not listed["hosts"]:
        say("this server is a single process")


async def _request(url: str, method: str, path: str) -> dict[str, Any]:
    from ors_server.cli.server_requests import ask, open_server

    async with open_server(url) as server:
        answer: dict[str, Any] = await ask(server, method, path)
        return answer


async def _drain(options: DrainOptions) -> dict[str, Any]:
    from urllib.parse import quote

    import anyio

    from ors_server.cli.server_requests import ask, open_server

    async with open_server(options.url) as server:
        listed: dict[str, Any] = await ask(server, "POST", f"/hosts/{quote(options.host, safe='')}/drain")
        with anyio.move_on_after(options.wait_seconds):
            while not _is_drained(listed, options.host):
                await anyio.sleep(LOOK_SECONDS)
                listed = await _look(server) or listed
    if not _is_drained(listed, options.host):
        raise CommandError(
            f"host {options.host} has not given its sessions up within {options.wait_seconds:g} s; it does "
            "so once its running calls have ended"
        )
    return listed


async def _look(server: "AsyncClient") -> dict[str, Any] | None:
    """Return the hosts; `None` if the host that was asked is the one that ends."""
    from ors_server.cli.server_requests import ask

    try:
        listed: dict[str, Any] = await ask(server, "GET", "/hosts")
    except CommandError:
        return None
    return listed


def _is_drained(listed: dict[str, Any], name: str) -> bool:
    return any(host["name"] == name and not host["slots"] for host in listed["hosts"])
