"""`ors-server front`: HAProxy before the hosts of a server on several machines."""

import asyncio
import re
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ors_server.cli.command_output import CommandError, MisuseError, say, say_json

_ADDRESS = re.compile(r"[^\s/,]+:[0-9]+")


@dataclass(frozen=True)
class FrontCommandOptions:
    """Options of `front`; what limits connections is a setting, as for `serve`."""

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
    """Send each session's requests to its host, for a server on several machines.

    HAProxy carries the requests and is started again if it ends; nothing else is kept here, so there may be
    several fronts. SIGHUP reads the certificate again.
    """
    from ors_server.cli.listening import bind
    from ors_server.cli.serving_workers import front_options, front_program, write_certificate
    from ors_server.model import logs
    from ors_server.model.settings import load_settings
    from ors_server.supervisor.front_control import FrontControl
    from ors_server.supervisor.haproxy import check_configuration, find_program, write_configuration
    from ors_server.supervisor.supervising import HostsFailedError, Supervisor, inheritable

    for address in options.addresses:
        if _ADDRESS.fullmatch(address) is None:
            raise MisuseError(f"expected the address of a host as HOST:PORT, got {address!r}")
    given = {
        "host": options.host,
        "port": options.port,
        "tls_cert": options.tls_cert,
        "tls_key": options.tls_key,
    }
    settings = load_settings(None, **{name: value for name, value in given.items() if value is not None})
    logs.configure(form=settings.log_format, level=settings.log_level)
    haproxy = find_program()
    listener = bind(settings.host, settings.port)
    with listener, tempfile.TemporaryDirectory(prefix="ors-front-") as name:
        folder = Path(name)
        control = FrontControl(folder, options.addresses)
        descriptor = inheritable(listener)
        path = write_configuration(front_options(settings, folder, options.addresses), descriptor)
        check_configuration(haproxy, path, descriptor)
        port = listener.getsockname()[1]
        scheme = "http" if settings.tls_cert is None else "https"
        url = f"{scheme}://{settings.host}:{port}"

        def announce(_announcement: object) -> None:
            if options.json:
                say_json({"url": url, "hosts": list(options.addresses)})
            else:
                say(f"The front listens at {url}, before {', '.join(options.addresses)}. Stop with Ctrl-C.")

        async def run() -> None:
            program = front_program(haproxy, path, descriptor)
            renew = partial(write_certificate, settings, folder)
            await Supervisor([], program, control, renew).run(announce)

        try:
            asyncio.run(run())
        except HostsFailedError as error:
            raise CommandError(str(error)) from None
