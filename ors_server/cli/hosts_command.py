"""`ors-server hosts`, `drain`, `restart` and `front`: the hosts of a server, and HAProxy before them."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ors_server.cli.command_output import CommandError, MisuseError, say, say_json

if TYPE_CHECKING:
    from ors_server.client.async_client import AsyncClient

_ADDRESS = re.compile(r"[^\s/,]+:[0-9]+")
DEFAULT_URL = "http://127.0.0.1:8080"
POLL_SECONDS = 0.5
"""Seconds between two requests for the state of a host that is giving up its sessions."""


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
    """Make a host suspend its sessions, give them to the other hosts, and end.

    Its sessions continue on the other hosts when a request names them. The API key of an admin is read from
    the environment variable ORS_API_KEY.
    """
    import anyio

    _show(anyio.run(_drain, options), as_json=options.json)


def restart(options: HostsOptions) -> None:
    """Restart the hosts of a server one after another; their sessions continue.

    The API key of an admin is read from the environment variable ORS_API_KEY.
    """
    import anyio

    answer = anyio.run(_request, options.url, "POST", "/restart")
    if options.json:
        say_json(answer)
    else:
        say("the hosts are restarting one after another; the server's log has 'hosts_restarted' at the end")


def _show(listed: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        say_json(listed)
        return
    for host in listed["hosts"]:
        state = ""
        if host["is_draining"]:
            state = "draining" if host["slots"] else "drained"
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
                await anyio.sleep(POLL_SECONDS)
                listed = await _list_hosts(server) or listed
    if not _is_drained(listed, options.host):
        raise CommandError(
            f"host {options.host} has not given up its sessions within {options.wait_seconds:g} s; it will "
            "when its running calls have ended"
        )
    return listed


async def _list_hosts(server: "AsyncClient") -> dict[str, Any] | None:
    """Return the hosts; `None` if the request reached the host that is ending."""
    from ors_server.cli.server_requests import ask

    try:
        listed: dict[str, Any] = await ask(server, "GET", "/hosts")
    except CommandError:
        return None
    return listed


def _is_drained(listed: dict[str, Any], name: str) -> bool:
    return any(host["name"] == name and not host["slots"] for host in listed["hosts"])


@dataclass(frozen=True)
class FrontCommandOptions:
    """Options of `front`; limits on connections are settings, as for `serve`."""

    addresses: Annotated[
        list[str],
        typer.Argument(metavar="HOST:PORT", help="Where the hosts listen: the first is host 0, and so on."),
    ]
    host: Annotated[str, typer.Option(help="Address to bind to.")] = "127.0.0.1"
    port: Annotated[int, typer.Option(help="TCP port; 0 chooses a free one.", min=0, max=65535)] = 8080
    tls_cert: Annotated[
        Path | None, typer.Option(help="PEM file of the certificate; the front then speaks HTTPS only.")
    ] = None
    tls_key: Annotated[Path | None, typer.Option(help="PEM file of the certificate's private key.")] = None
    json: Annotated[bool, typer.Option("--json", help="Print one line of JSON once it listens.")] = False


def front(options: FrontCommandOptions) -> None:
    """Route each session's requests to its host, for a server on several machines.

    HAProxy carries the requests and is restarted if it ends. The front keeps no other state, so there may be
    several fronts. SIGHUP makes it read the certificate again.
    """
    from ors_server.cli.serving_workers import open_front, run_until_stopped
    from ors_server.model import logs
    from ors_server.model.settings import load_settings
    from ors_server.supervisor.front_control import FrontControl

    for address in options.addresses:
        if _ADDRESS.fullmatch(address) is None:
            raise MisuseError(f"expected the address of a host as HOST:PORT, got {address!r}")
    flags = {
        "host": options.host,
        "port": options.port,
        "tls_cert": options.tls_cert,
        "tls_key": options.tls_key,
    }
    settings = load_settings(None, **{name: value for name, value in flags.items() if value is not None})
    logs.configure(form=settings.log_format, level=settings.log_level)
    with open_front(settings) as haproxy:
        scheme = "http" if settings.tls_cert is None else "https"
        url = f"{scheme}://{settings.host}:{haproxy.port}"

        def announce(_announcement: object) -> None:
            if options.json:
                say_json({"url": url, "hosts": list(options.addresses)})
            else:
                say(f"The front listens at {url}, before {', '.join(options.addresses)}. Stop with Ctrl-C.")

        control = FrontControl(haproxy.folder, options.addresses)
        run_until_stopped(haproxy.supervise(control).run(announce))
