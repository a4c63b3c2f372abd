"""A small conformance suite for MCP servers over streamable HTTP, by their URLs.

```python
report = await check_mcp_server("http://127.0.0.1:8080/mcp")
```

It calls no tool with valid arguments, so it changes nothing. The official suite of the protocol's authors
checks more, but needs a server with its own fixture tools.
"""

from collections.abc import Callable, Iterable

import anyio

from ors_server.conformance.mcp_checks import MCP_CHECKS, Check, Host
from ors_server.conformance.ors_manifest import Requirement
from ors_server.conformance.report import ConformanceReport, RequirementVerdict, verdict_of

TIME_LIMIT = 60.0
"""Seconds that one check may take."""


async def check_mcp_server(
    url: str,
    *,
    only: Iterable[str] = (),
    api_key: str | None = None,
    on_verdict: Callable[[RequirementVerdict], None] = lambda _: None,
) -> ConformanceReport:
    """Check the MCP server at an endpoint such as `http://127.0.0.1:8080/mcp`.

    Args:
        only: Ids of requirements; empty for all.
    """
    chosen = frozenset(only)
    host = Host(url, {} if api_key is None else {"X-API-Key": api_key})
    verdicts: list[RequirementVerdict] = []
    for requirement, check in MCP_CHECKS.items():
        if not chosen or requirement.id in chosen:
            verdicts.append(await _judge(requirement, check, host))
            on_verdict(verdicts[-1])
    return ConformanceReport(url, tuple(verdicts))


async def _judge(requirement: Requirement, check: Check, host: Host) -> RequirementVerdict:
    try:
        with anyio.fail_after(TIME_LIMIT):
            await check(host)
    except Exception as error:  # noqa: BLE001  (any failure is caused by the server)
        return verdict_of(requirement, error, unexpected="")
    return RequirementVerdict(requirement, "pass")
