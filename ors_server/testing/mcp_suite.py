"""A small conformance suite for MCP servers over streamable HTTP: what every agent host relies on, by URL.

```python
report = await check_mcp_server("http://127.0.0.1:8080/mcp")
```

It calls no tool with valid arguments, so that it changes nothing. The official suite of the protocol's
authors goes deeper, but wants a server with fixture tools of its own.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, cast

import anyio

from ors_server.testing.mcp_checks import Check, Host
from ors_server.testing.mcp_manifest import MCP_CHECKS, MCP_REQUIREMENTS, McpRequirement
from ors_server.testing.ors_manifest import Level
from ors_server.testing.ors_subject import NotApplicableError, NotMetError

TIME_LIMIT = 60.0
"""Seconds that one check may take."""


@dataclass(frozen=True, slots=True)
class McpVerdict:
    """How a server stands to one requirement."""

    requirement: McpRequirement
    outcome: Literal["pass", "fail", "skip"]
    reason: str = ""
    """What was expected and what came, or why there was nothing to judge; empty for a pass."""


@dataclass(frozen=True, slots=True)
class McpReport:
    """How a server stands to every requirement that was asked about."""

    url: str
    verdicts: tuple[McpVerdict, ...]

    @property
    def is_conformant(self) -> bool:
        """Whether no MUST failed."""
        return not any(
            verdict.outcome == "fail" and verdict.requirement.level is Level.MUST for verdict in self.verdicts
        )


async def check_mcp_server(
    url: str,
    *,
    only: Iterable[str] = (),
    api_key: str | None = None,
    on_verdict: Callable[[McpVerdict], None] = lambda _: None,
) -> McpReport:
    """Check an MCP server.

    Args:
        url: Its endpoint, for instance `http://127.0.0.1:8080/mcp`.
        only: Ids of requirements; empty for all.
        api_key: Sent as `X-API-Key`.
        on_verdict: Called with each verdict as it falls.
    """
    wanted = frozenset(only)
    host = Host(url, {} if api_key is None else {"X-API-Key": api_key})
    verdicts: list[McpVerdict] = []
    for requirement in MCP_REQUIREMENTS:
        if not wanted or requirement.id in wanted:
            verdicts.append(await _judge(requirement, MCP_CHECKS[requirement.id], host))
            on_verdict(verdicts[-1])
    return McpReport(url, tuple(verdicts))


async def _judge(requirement: McpRequirement, check: Check, host: Host) -> McpVerdict:
    try:
        with anyio.fail_after(TIME_LIMIT):
            await check(host)
    except Exception as error:  # noqa: BLE001  (whatever it is, the server caused it)
        cause: BaseException = error
        while isinstance(cause, BaseExceptionGroup):
            cause = cast("BaseExceptionGroup[BaseException]", cause).exceptions[0]
        if isinstance(cause, NotApplicableError):
            return McpVerdict(requirement, "skip", str(cause))
        if isinstance(cause, NotMetError):
            return McpVerdict(requirement, "fail", str(cause))
        return McpVerdict(requirement, "fail", f"{type(cause).__name__}: {cause}")
    return McpVerdict(requirement, "pass")
