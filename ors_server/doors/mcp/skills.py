"""The Skills extension (SEP-2640): the lobby has one skill, which says how episodes are played.

An episode's endpoint has none: its agent sees the task alone, and no instructions that the task's author did
not write.
"""

import hashlib
from collections.abc import Sequence

import mcp_types as types
from typing_extensions import override

from ors_server.doors.mcp.lobby_tools import LIST_ENVIRONMENTS, LIST_TASKS, START_EPISODE
from ors_server.doors.mcp.mcp_results import EPISODE_OVER
from ors_server.doors.mcp.sdk import Context, Extension, MCPError, MethodBinding, Result
from ors_server.doors.mcp.session_access import SessionAccess

SKILLS_EXTENSION = "io.modelcontextprotocol/skills"
"""Identifier of the extension."""

_FRONTMATTER = {
    "name": "play-episodes",
    "description": (
        "Play tasks of this server's environments over MCP. Use it to find an environment, start an episode "
        "and act in it until it is over."
    ),
}
SKILL_URI = f"skill://{_FRONTMATTER['name']}/SKILL.md"
"""URI of the lobby's one skill."""
SKILL_TEXT = f"""\
---
name: {_FRONTMATTER["name"]}
description: {_FRONTMATTER["description"]}
---

# Play episodes

1. Call `{LIST_ENVIRONMENTS}`, then `{LIST_TASKS}` for the environment that you want.
2. Call `{START_EPISODE}` with the environment, and with a split and an index if you want a certain task.
   The result has a `session_id` and the task.
3. List the tools again: the environment's tools are there now.
4. Call them to work on the task, each with that `session_id`. A call that fails tells you why; correct it
   and go on.
5. Stop when a result says: {EPISODE_OVER}
6. Wait for the result of a call that takes long before you make another one.

An episode is played once. What counts is what the tools do: submit an answer with the tool that the task
names.
"""
_CACHEABLE: Result = {"resultType": "complete", "ttlMs": 300_000, "cacheScope": "public"}


class GetSkillParams(types.RequestParams):
    """A skill."""

    uri: str


def read_skill() -> Result:
    """Return the skill's text as `resources/read` does."""
    contents = {"uri": SKILL_URI, "mimeType": "text/markdown", "text": SKILL_TEXT}
    return {"contents": [contents], **_CACHEABLE}


class SkillsExtension(Extension):
    """The extension's methods at the lobby."""

    identifier = SKILLS_EXTENSION

    def __init__(self, access: SessionAccess) -> None:
        self._access = access
        text = SKILL_TEXT.encode()
        file = {"uri": SKILL_URI, "digest": f"sha256:{hashlib.sha256(text).hexdigest()}", "size": len(text)}
        self._skill: Result = {"uri": SKILL_URI, "frontmatter": _FRONTMATTER, "resources": [file]}

    @override
    def methods(self) -> Sequence[MethodBinding]:
        """Return the extension's methods; there are no directories to read."""
        return [
            MethodBinding("skills/list", types.PaginatedRequestParams, self._list),
            MethodBinding("skills/get", GetSkillParams, self._get),
        ]

    async def _list(self, context: Context, _params: types.PaginatedRequestParams) -> Result:
        is_lobby = self._access.find_session(context) is None
        return {"skills": [self._skill] if is_lobby else [], **_CACHEABLE}

    async def _get(self, context: Context, params: GetSkillParams) -> Result:
        if params.uri != SKILL_URI or self._access.find_session(context) is not None:
            raise MCPError(types.INVALID_PARAMS, "no skill has this URI", {"uri": params.uri})
        return {"skill": self._skill, **_CACHEABLE}
