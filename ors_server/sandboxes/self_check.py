"""Checks from inside a real sandbox that it isolates what its report claims."""

import os
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from ors_server.sandboxes.base import Sandbox
from ors_server.sandboxes.isolation_report import IsolatedResource, IsolationReport, Strength

_CHECK_LIMIT = 10.0
_CANARY = __file__
"""A file of the host that every user may read, outside the system folders that a sandbox shows."""


@dataclass(frozen=True)
class IsolationCheck:
    """One command whose standard output must be as expected."""

    name: str
    command: str
    expected: str
    resource: IsolatedResource | None = None
    """Run only if the report claims to isolate this; None: for every report that isolates anything."""
    at_least: Strength = Strength.PARTIAL
    """Run only for this strength or more."""


def isolation_checks(canary: str, port: int) -> tuple[IsolationCheck, ...]:
    """Return the checks, with a host file that every user may read and a loopback port with a listener."""
    return (
        IsolationCheck(
            "a file of the host is unreadable",
            f"cat {canary} >/dev/null 2>&1; echo $?",
            "1",
            IsolatedResource.FILES,
        ),
        IsolationCheck(
            "the host's loopback is out of reach",
            f"(exec 9<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null; echo $?",
            "1",
            IsolatedResource.NETWORK,
        ),
        IsolationCheck(
            "no new privileges, no capabilities, a filter",
            'while read -r k v; do case $k in NoNewPrivs:|CapEff:|Seccomp:) echo -n "$v ";; esac; done '
            "</proc/self/status",
            "0000000000000000 1 2",
        ),
        IsolationCheck(
            "few processes are visible",
            "p=(/proc/[0-9]*); echo $((${#p[@]} < 10))",
            "1",
            at_least=Strength.NAMESPACES,
        ),
        IsolationCheck(
            "the server cannot be signalled",
            # In its own pid namespace, a process with the server's number is one of the sandbox: both may be
            # the first process of a container, for example.
            f"if [ /proc/1/ns/pid -ef /proc/self/ns/pid ] && [ -e /proc/{os.getpid()} ]; then echo 1; "
            f"else kill -0 {os.getpid()} 2>/dev/null; echo $?; fi",
            "1",
            IsolatedResource.PROCESSES,
        ),
        IsolationCheck("the system is read-only", ": >/usr/ors-probe; echo $?", "1", IsolatedResource.FILES),
        IsolationCheck("nothing of the server's environment shows", "echo ${ORS_PROBE_SECRET-none}", "none"),
        IsolationCheck(
            "a namespace is refused", "unshare -Ur true >/dev/null 2>&1; [ $? -ne 0 ]; echo $?", "0"
        ),
        IsolationCheck("the work dir is ours", "echo x >probe && cat probe && rm probe && echo $?", "x\n0"),
    )


def image_checks(canary: str, port: int, *, has_range: bool) -> tuple[IsolationCheck, ...]:
    """Return the checks of a session over an image: what it isolates, and what it can change.

    Only the shell itself is used: an image need not have any other program.
    """
    names = {
        "a file of the host is unreadable": "IFS= read -r line 2>/dev/null <" + canary + "; echo $?",
        "the host's loopback is out of reach": None,
        "few processes are visible": None,
        "the server cannot be signalled": None,
        "nothing of the server's environment shows": None,
    }
    common = tuple(
        replace(check, command=names[check.name] or check.command)
        for check in isolation_checks(canary, port)
        if check.name in names
    )
    rights = "00000000000000fb" if has_range else "0000000000000000"
    return (
        *common,
        IsolationCheck(
            "no new privileges, no capability on the host, a filter",
            'while read -r k v; do case $k in NoNewPrivs:|CapEff:|Seccomp:) echo -n "$v ";; esac; done '
            "</proc/self/status",
            f"{rights} 1 2",
        ),
        IsolationCheck(
            "the root can be changed", "echo x >/.ors-probe; read -r x </.ors-probe; echo $x", "x"
        ),
    )


def is_claimed(check: IsolationCheck, report: IsolationReport) -> bool:
    """Return whether a report claims what a check tests."""
    return report.strength >= check.at_least and (check.resource is None or report.isolates(check.resource))


async def check_isolation(
    sandbox: Sandbox, make_checks: Callable[[str, int], Iterable[IsolationCheck]] = isolation_checks
) -> list[str]:
    """Run the checks that the sandbox's report claims; return the names of those that fail."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
        broken: list[str] = []
        for check in make_checks(_CANARY, port):
            if not is_claimed(check, sandbox.report):
                continue
            result = await sandbox.exec(check.command, time_limit=_CHECK_LIMIT)
            if result.stdout.text.strip() != check.expected:
                broken.append(f"{check.name} (printed {result.stdout.text.strip()[:100]!r})")
        return broken
