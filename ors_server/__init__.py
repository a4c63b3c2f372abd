"""Serve RL environments for language-model agents over the Open Reward Standard and MCP.

The names here are the whole public surface for authors of environments. They are loaded on first use, so that
importing the package costs little.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ors_server.app import create_app
    from ors_server.authoring.client import (
        Ability,
        AbilityError,
        AskError,
        Elicit,
        Elicited,
        ListRoots,
        Root,
        RootList,
        Sample,
        Sampled,
    )
    from ors_server.authoring.context import CallContext
    from ors_server.authoring.environment import Environment, Prompt
    from ors_server.authoring.offers import prompt, resource
    from ors_server.authoring.rich import audio_block, resource_block
    from ors_server.authoring.tool import ForbiddenActionError, ToolError, Toolset, terminal, tool
    from ors_server.authoring.toolsets.bash import BashTools
    from ors_server.policy import EpisodePolicy, PenaltyCause
    from ors_server.sandboxes.base import ExecResult, Sandbox
    from ors_server.sandboxes.base import Limits as SandboxLimits
    from ors_server.settings import Settings
    from ors_server.visibility import Visibility
    from ors_server.wire import (
        GroupCandidate,
        GroupScore,
        ImageBlock,
        JSONObject,
        Message,
        ReasoningBlock,
        Split,
        TextBlock,
        ToolCallBlock,
        ToolOutput,
        ToolResultBlock,
    )

__version__ = "0.1.0"

__all__ = [
    "Ability",
    "AbilityError",
    "AskError",
    "BashTools",
    "CallContext",
    "Elicit",
    "Elicited",
    "Environment",
    "EpisodePolicy",
    "ExecResult",
    "ForbiddenActionError",
    "GroupCandidate",
    "GroupScore",
    "ImageBlock",
    "JSONObject",
    "ListRoots",
    "Message",
    "PenaltyCause",
    "Prompt",
    "ReasoningBlock",
    "Root",
    "RootList",
    "Sample",
    "Sampled",
    "Sandbox",
    "SandboxLimits",
    "Settings",
    "Split",
    "TextBlock",
    "ToolCallBlock",
    "ToolError",
    "ToolOutput",
    "ToolResultBlock",
    "Toolset",
    "Visibility",
    "__version__",
    "audio_block",
    "create_app",
    "prompt",
    "resource",
    "resource_block",
    "terminal",
    "tool",
]

_HOMES = {
    "Ability": "ors_server.authoring.client",
    "AbilityError": "ors_server.authoring.client",
    "AskError": "ors_server.authoring.client",
    "BashTools": "ors_server.authoring.toolsets.bash",
    "CallContext": "ors_server.authoring.context",
    "Elicit": "ors_server.authoring.client",
    "Elicited": "ors_server.authoring.client",
    "Environment": "ors_server.authoring.environment",
    "EpisodePolicy": "ors_server.policy",
    "ExecResult": "ors_server.sandboxes.base",
    "ForbiddenActionError": "ors_server.authoring.tool",
    "GroupCandidate": "ors_server.wire",
    "GroupScore": "ors_server.wire",
    "ImageBlock": "ors_server.wire",
    "JSONObject": "ors_server.wire",
    "ListRoots": "ors_server.authoring.client",
    "Message": "ors_server.wire",
    "PenaltyCause": "ors_server.policy",
    "Prompt": "ors_server.authoring.environment",
    "ReasoningBlock": "ors_server.wire",
    "Root": "ors_server.authoring.client",
    "RootList": "ors_server.authoring.client",
    "Sample": "ors_server.authoring.client",
    "Sampled": "ors_server.authoring.client",
    "Sandbox": "ors_server.sandboxes.base",
    "SandboxLimits": "ors_server.sandboxes.base:Limits",
    "Settings": "ors_server.settings",
    "Split": "ors_server.wire",
    "TextBlock": "ors_server.wire",
    "ToolCallBlock": "ors_server.wire",
    "ToolError": "ors_server.authoring.tool",
    "ToolOutput": "ors_server.wire",
    "ToolResultBlock": "ors_server.wire",
    "Toolset": "ors_server.authoring.tool",
    "Visibility": "ors_server.visibility",
    "audio_block": "ors_server.authoring.rich",
    "create_app": "ors_server.app",
    "prompt": "ors_server.authoring.offers",
    "resource": "ors_server.authoring.offers",
    "resource_block": "ors_server.authoring.rich",
    "terminal": "ors_server.authoring.tool",
    "tool": "ors_server.authoring.tool",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        msg = f"module 'ors_server' has no attribute {name!r}"
        raise AttributeError(msg)
    module, _, own_name = home.partition(":")
    value = getattr(import_module(module), own_name or name)
    globals()[name] = value
    return value
