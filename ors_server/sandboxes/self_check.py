"""What a sandbox must hold, asked from inside a real one: facts are observed, flags are not believed."""

import os
import socket
from dataclasses import dataclass

from ors_server.sandboxes.base import Sandbox
from ors_server.sandboxes.tier import Resource, Strength, TierReport

_CHECK_LIMIT = 10.0
_CANARY = __file__
"""A file of the host that everybody may read, outside the system folders that a sandbox shows."""


@dataclass(frozen=True)
class IsolationCheck:
    """One command whose standard output must be as said."""

    name: str
    command: str
    expected: str
    resource: Resource | None = None
    """Asked only of a tier that holds this; None asks every tier that isolates anything."""
    at_least: Strength = Strength.PARTIAL
    """Asked only of a tier this strong."""


def isolation_checks(canary: str, port: int) -> tuple[IsolationCheck, ...]:
    """Return the checks.

    Args:
        canary: A file of the host that everybody may read.
        port: A TCP port of the host's loopback on which somebody listens.
    """
    return (
        IsolationCheck(
            "a file of the host is unreadable", f"cat {canary} >/dev/null 2>&1; echo $?", "1", Resource.FILES
        ),
        IsolationCheck(
            "the host's loopback is out of reach",
            f"(exec 9<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null; echo $?",
            "1",
            Resource.NETWORK,
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
            # In a pid namespace of our own whatever carries that number is one of us, and not the server:
            # that is the first process in its container, say, and so is the one in here.
            f"if [ /proc/1/ns/pid -ef /proc/self/ns/pid ] && [ -e /proc/{os.getpid()} ]; then echo 1; "
            f"else kill -0 {os.getpid()} 2>/dev/null; echo $?; fi",
            "1",
            Resource.PROCESSES,
        ),
        IsolationCheck("the system is read-only", ": >/usr/ors-probe; echo $?", "1", Resource.FILES),
        IsolationCheck("nothing of the server's environment shows", "echo ${ORS_PROBE_SECRET-none}", "none"),
        IsolationCheck(
            "a namespace is refused", "unshare -Ur true >/dev/null 2>&1; [ $? -ne 0 ]; echo $?", "0"
        ),
        IsolationCheck("the work dir is ours", "echo x >probe && cat probe && rm probe && echo $?", "x\n0"),
    )


def is_claimed(check: IsolationCheck, report: TierReport) -> bool:
    """Tell whether a tier's report promises what a check asks for.

    Args:
        check: One of `isolation_checks`.
        report: The tier's.
    """
    return report.strength >= check.at_least and (check.resource is None or report.holds(check.resource))


async def check_isolation(sandbox: Sandbox) -> list[str]:
    """Run the checks that the sandbox's report claims; return the names of those that fail.

    Args:
        sandbox: A live one.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
        broken: list[str] = []
        for check in isolation_checks(_CANARY, port):
            if not is_claimed(check, sandbox.report):
                continue
            result = await sandbox.exec(check.command, time_limit=_CHECK_LIMIT)
            if result.stdout.text.strip() != check.expected:
                broken.append(f"{check.name} (said {result.stdout.text.strip()[:100]!r})")
        return broken
