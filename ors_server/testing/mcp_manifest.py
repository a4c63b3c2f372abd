"""What an MCP server must and should do, one requirement a line: id -> section -> text -> check."""

from collections.abc import Mapping

from ors_server.testing import mcp_checks as checks
from ors_server.testing.mcp_checks import Check
from ors_server.testing.ors_manifest import Level, Requirement

_MUST, _SHOULD = Level.MUST, Level.SHOULD
_OLD, _NEW = "2025-11-25", "2026-07-28"

_ROWS: tuple[tuple[str, Level, str, str, Check], ...] = (
    ("M1", _MUST, f"{_OLD} basic/lifecycle", "a handshake gives a version and a name", checks.handshake),
    ("M2", _SHOULD, f"{_NEW} basic", "a client without a handshake is served", checks.no_handshake),
    ("M3", _MUST, f"{_OLD} basic/utilities/ping", "a ping is answered", checks.ping),
    ("M4", _MUST, f"{_OLD} basic", "an unknown method is error -32601", checks.unknown_method),
    (
        "M5",
        _MUST,
        f"{_OLD} basic/transports",
        "a body that is not JSON is refused with 4xx",
        checks.malformed_json,
    ),
    ("M6", _MUST, f"{_OLD} basic/transports", "a foreign Origin is refused with 403", checks.foreign_origin),
    ("M7", _MUST, f"{_OLD} server/tools", "tools have names, each once", checks.unique_tools),
    ("M8", _SHOULD, f"{_OLD} server/tools", "tool names are ones that every host takes", checks.tool_names),
    ("M9", _MUST, f"{_OLD} server/tools", "every schema is JSON Schema of an object", checks.tool_schemas),
    ("M10", _SHOULD, f"{_OLD} server/tools", "every tool has a description", checks.described_tools),
    ("M11", _MUST, f"{_NEW} server/tools", "tools do not vary by connection", checks.stable_tools),
    ("M12", _MUST, f"{_OLD} server/tools", "an unknown tool is an error", checks.unknown_tool),
    (
        "M13",
        _SHOULD,
        f"{_OLD} server/tools",
        "invalid arguments are an error that the agent sees",
        checks.invalid_arguments,
    ),
    ("M14", _MUST, f"{_OLD} server/prompts", "declared prompts can be listed", checks.prompts),
    ("M15", _MUST, f"{_OLD} server/resources", "declared resources can be listed", checks.resources),
)

MCP_REQUIREMENTS: tuple[Requirement, ...] = tuple(
    Requirement(name, level, section, "wire", text) for name, level, section, text, _ in _ROWS
)
"""Every requirement, in order; `section` is a revision and a section of the specification."""

MCP_CHECKS: Mapping[str, Check] = {row[0]: row[4] for row in _ROWS}
"""Requirement id -> its check."""
