"""`ors-server serve --workers N`: starts hosts and a front, and prints one announcement for all of them."""

import asyncio
import os
import sys
import tempfile
from collections.abc import Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ors_server.cli.command_output import CommandError, complain, say, say_json
from ors_server.cli.listening import bind
from ors_server.doors.access import TOKEN_PREFIX
from ors_server.doors.http.connection_limits import SPARE_FILES, ConnectionLimits, raise_file_limit
from ors_server.doors.mcp.mcp_results import SESSION_KEY
from ors_server.installation import install_hint
from ors_server.model.errors import SettingsError
from ors_server.model.host_slot import UNIX, socket_path
from ors_server.sessions.session_services import default_gradings
from ors_server.store.location import MEMORY, StoreKind, parse_location
from ors_server.supervisor.front_control import FrontControl
from ors_server.supervisor.haproxy import (
    FrontOptions,
    check_configuration,
    find_program,
    write_configuration,
)
from ors_server.supervisor.supervising import (
    HostOptions,
    HostsFailedError,
    Program,
    Supervisor,
    host_program,
    inheritable,
)

if TYPE_CHECKING:
    from ors_server.model.settings import Settings

WRITERS = 4
"""Hosts that may write to one SQLite file before the 99th percentile of a call passes a second."""
DIVIDED = ("max_sessions", "max_sessions_per_environment", "max_sessions_per_credential", "gradings_at_once")
"""Settings that are limits of the server, of which each host takes its share."""


def serve_with_workers(settings: "Settings", *, as_json: bool) -> None:
    """Serve with several hosts until a signal ends them.

    Raises:
        SettingsError: If the settings do not go with several hosts.
        CommandError: If the address cannot be used, or a host does not start.
    """
    _check(settings)
    with open_front(settings, "ors-hosts-") as front:
        numbers = range(settings.workers)
        # Each host gets its share of what the machine can do at once.
        gradings = max(settings.workers, settings.gradings_at_once or default_gradings()) // settings.workers
        threads = max(4, settings.worker_threads // settings.workers)
        shares = ["--gradings-at-once", str(gradings), "--worker-threads", str(threads)]
        arguments = [*sys.argv[1:], "--json", "--port", str(front.port), *shares]
        options = HostOptions(settings.workers, arguments, front.folder)
        hosts = [host_program(number, options) for number in numbers]
        addresses = [f"{UNIX}{socket_path(front.folder, number)}" for number in numbers]
        supervisor = front.supervise(FrontControl(front.folder, addresses), hosts)

        def announce(announcement: Mapping[str, Any]) -> None:
            _announce(announcement, settings.workers, as_json=as_json)

        run_until_stopped(supervisor.run(announce))


def serve_on_ray(settings: "Settings", *, as_json: bool) -> None:
    """Serve with hosts on the machines of a Ray cluster until a signal ends them; the front is here.

    Raises:
        SettingsError: If Ray is not installed, or the settings do not go with hosts on several machines.
        CommandError: If the address cannot be used, or a host cannot be placed or does not start.
    """
    _check_ray(settings)
    resources = {key: float(value) for key, value in _pairs("ray_resources", settings.ray_resources)}
    labels = dict(_pairs("ray_labels", settings.ray_labels))
    # Ray reads these when it is imported. It would leave lines of the hosts' logs out, and print its own
    # advice on standard output.
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    os.environ.setdefault("RAY_SCHEDULER_EVENTS", "0")
    try:
        from ors_server.supervisor.ray_hosts import RayHosts, RayOptions
    except ModuleNotFoundError as error:
        raise SettingsError(f"--engine ray needs Ray: {install_hint('ray')}") from error

    with open_front(settings) as front:
        arguments = [*sys.argv[1:], "--json", "--port", str(front.port)]
        hosts = RayHosts(RayOptions(settings.workers, arguments, settings.ray_address, resources, labels))

        async def run() -> None:
            try:
                announcement = await hosts.start()
                control = FrontControl(front.folder, hosts.addresses)
                supervisor = front.supervise(control)

                async def move(number: int, address: str) -> None:
                    try:
                        await control.move_host(number, address)
                    finally:
                        front.configure(control.addresses)  # for a HAProxy that is started again

                async def follow() -> None:
                    try:
                        await hosts.follow(move)
                    except HostsFailedError as error:
                        supervisor.fail(str(error))
                    else:
                        supervisor.stop()

                def announce(_: Mapping[str, Any]) -> None:
                    supervisor.start(follow())
                    _announce(announcement, settings.workers, as_json=as_json)

                await supervisor.run(announce)
            finally:
                await hosts.aclose()

        run_until_stopped(run())


def _announce(announcement: Mapping[str, Any], workers: int, *, as_json: bool) -> None:
    shown = {key: value for key, value in announcement.items() if key != "text"}
    if as_json:
        say_json({**shown, "workers": workers})
    else:
        say("\n".join(announcement["text"]))


def _pairs(name: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    """Read settings of the form NAME=VALUE."""
    pairs = [(key.strip(), value.strip()) for key, _, value in (text.partition("=") for text in texts)]
    for text, (key, value) in zip(texts, pairs, strict=True):
        is_valid, expected = bool(key and value), "NAME=VALUE"
        if name == "ray_resources":
            expected = "NAME=NUMBER"
            try:
                is_valid = is_valid and 0 <= float(value) < float("inf")
            except ValueError:
                is_valid = False
        if not is_valid:
            raise SettingsError(f"{name}: expected {expected}, got {text!r}")
    return pairs


def _check_ray(settings: "Settings") -> None:
    if parse_location(settings.record).kind is not StoreKind.POSTGRES:
        raise SettingsError(
            "--engine ray needs a record that several machines share: expected --store postgresql://…, got "
            f"{parse_location(settings.record).display_name}"
        )
    has_keys = settings.api_keys is not None and settings.api_keys.get_secret_value()
    if not has_keys and settings.api_keys_file is None:
        raise SettingsError(
            "--engine ray needs API keys, because hosts listen on their machines' addresses: set "
            "ORS_API_KEYS or --api-keys-file"
        )
    _check_shares(settings)


def _check(settings: "Settings") -> None:
    record = parse_location(settings.record)
    if record.kind is StoreKind.MEMORY:
        raise SettingsError(
            "--workers needs a record that several processes share: expected --store PATH or postgresql://…, "
            f"got {MEMORY}"
        )
    _check_shares(settings)
    cores = os.cpu_count() or 1
    if settings.workers > cores:
        complain(f"{settings.workers} workers on {cores} processors: the additional ones only cost memory")
    if record.kind is StoreKind.SQLITE and settings.workers > WRITERS:
        complain(
            f"{settings.workers} workers write to one SQLite file: above {WRITERS}, some calls wait for "
            "it longer than a second; use --store postgresql://…"
        )


def _check_shares(settings: "Settings") -> None:
    for name in DIVIDED:
        limit = getattr(settings, name)
        if limit is not None and limit < settings.workers:
            raise SettingsError(
                f"{name} is divided among the hosts: expected at least {settings.workers} for --workers "
                f"{settings.workers}, got {limit}"
            )


@dataclass(frozen=True, slots=True)
class Front:
    """HAProxy at the server's address: its program, its folder, and the listening socket that it inherits."""

    settings: "Settings"
    haproxy: str
    folder: Path
    port: int
    descriptor: int
    """Descriptor of the listening socket."""

    def configure(self, addresses: Sequence[str]) -> Path:
        """Write the configuration for hosts at these addresses, and return its path."""
        return write_configuration(self._options(addresses), self.descriptor)

    def supervise(self, control: FrontControl, hosts: Sequence[Program] = ()) -> Supervisor:
        """Configure the front for the hosts of `control`; return the supervisor of it and of `hosts`.

        Raises:
            SettingsError: If HAProxy refuses the configuration.
        """
        path = self.configure(control.addresses)
        check_configuration(self.haproxy, path, self.descriptor)
        program = Program(
            name="haproxy",
            command=[self.haproxy, "-db", "-q", "-f", str(path)],
            variables={"PATH": os.environ.get("PATH", os.defpath)},
            descriptors=(self.descriptor,),
        )
        return Supervisor(hosts, program, control, self._write_certificate)

    def _write_certificate(self) -> Path | None:
        """Copy the certificate and its key into one file for the front; return it, or `None` without any.

        Raises:
            OSError: If they cannot be read.
        """
        settings = self.settings
        if settings.tls_cert is None:
            return None
        parts = [settings.tls_cert, *([settings.tls_key] if settings.tls_key is not None else [])]
        text = "\n".join(part.read_text() for part in parts)
        certificate = self.folder / "certificate.pem"
        certificate.touch(mode=0o600)
        certificate.write_text(text)
        return certificate

    def _options(self, addresses: Sequence[str]) -> FrontOptions:
        settings = self.settings
        # Each connection of the front is two files: to the client, and to the host.
        limits = ConnectionLimits.of(settings)
        files = raise_file_limit(replace(limits, connections=2 * limits.connections))
        return FrontOptions(
            folder=self.folder,
            addresses=addresses,
            token_prefix=TOKEN_PREFIX,
            session_key=SESSION_KEY,
            max_connections=min(limits.connections, max(1, (files - min(SPARE_FILES, files // 2)) // 2)),
            max_connections_per_address=settings.max_connections_per_address,
            max_header_bytes=settings.max_header_bytes,
            header_seconds=settings.header_seconds,
            certificate=self._write_certificate(),
        )


@contextmanager
def open_front(settings: "Settings", prefix: str = "ors-front-") -> Generator[Front]:
    """Bind the server's address for a front, in a temporary folder whose name begins with `prefix`.

    Raises:
        SettingsError: If HAProxy is not installed.
        CommandError: If the address cannot be used.
    """
    haproxy = find_program()
    listener = bind(settings.host, settings.port)
    with listener, tempfile.TemporaryDirectory(prefix=prefix) as folder:
        yield Front(settings, haproxy, Path(folder), listener.getsockname()[1], inheritable(listener))


def run_until_stopped(work: Coroutine[None, None, None]) -> None:
    """Run a supervisor until a signal ends it.

    Raises:
        CommandError: If a host or the front could not be started or kept up.
    """
    try:
        asyncio.run(work)
    except HostsFailedError as error:
        raise CommandError(str(error)) from None
