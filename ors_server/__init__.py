"""Serve RL environments for language-model agents over the Open Reward Standard and MCP.

The names here are the whole public surface for authors of environments. They are loaded on first use, so that
importing the package costs little.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ors_server._version import __version__

if TYPE_CHECKING:
    from ors_server.app import create_app
    from ors_server.authoring.call_context import CallContext
    from ors_server.authoring.calling_client import (
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
    from ors_server.authoring.environment import Environment, Prompt
    from ors_server.authoring.offers import prompt, resource
    from ors_server.authoring.rich_blocks import audio_block, resource_block
    from ors_server.authoring.tool import (
        ForbiddenActionError,
        ToolError,
        Toolset,
        terminal,
        tool,
        tool_from_schema,
    )
    from ors_server.authoring.toolsets.bash import BashTools
    from ors_server.authoring.toolsets.file_tools import FileTools
    from ors_server.authoring.toolsets.milestones import CommandSucceeds, FileExists, FileMatches, Milestone
    from ors_server.authoring.toolsets.patch import PatchTools
    from ors_server.authoring.toolsets.python import PythonTools
    from ors_server.authoring.toolsets.submit import Submission, SubmitTools
    from ors_server.grading.cases import CaseReport, CaseResult, FunctionCase, StdioCase, TimeLimits
    from ors_server.grading.evidence import Evidence, gather_evidence
    from ors_server.grading.function_cases import grade_functions
    from ors_server.grading.grading_errors import GradingError
    from ors_server.grading.pytest_cases import grade_pytest
    from ors_server.grading.stdio_cases import PythonProgram, grade_stdio
    from ors_server.grading.text_comparison import TextComparison
    from ors_server.offload import OffloadLimits, OverLimitError
    from ors_server.offload import run as run_offloaded
    from ors_server.policy import EpisodePolicy, PenaltyCause
    from ors_server.resources.resource_context import Context
    from ors_server.resources.resource_pool import ResourcePool
    from ors_server.resources.spec import (
        ALFWorldSpec,
        LocalEnvResourceSpec,
        NamedResourceSpec,
        ResourceSpec,
        ScienceWorldSpec,
        WebShopSpec,
    )
    from ors_server.rewards.agentfly.answers import (
        math_equal_reward,
        math_equal_reward_tool,
        qa_f1_reward,
        qa_f1_reward_tool,
    )
    from ors_server.rewards.agentfly.stateful import (
        alfworld_episode_reward,
        scienceworld_reward,
        webshop_reward,
    )
    from ors_server.rewards.arise import (
        answer_match_reward,
        code_execution_reward,
        efficiency_reward,
        task_success,
    )
    from ors_server.rewards.batch.batch_scorer import BatchScorer, ascore_rows, score_rows
    from ors_server.rewards.catalogue import find_reward, list_rewards
    from ors_server.rewards.composite import (
        ClippedReward,
        CompositeReward,
        GatedReward,
        MinReward,
        ProductReward,
    )
    from ors_server.rewards.define import BaseReward, Reward, reward
    from ors_server.rewards.group import score_group_with
    from ors_server.rewards.judged import llm_judge_reward
    from ors_server.rewards.learned import LearnedReward
    from ors_server.rewards.result import RewardResult, RewardStatus
    from ors_server.rewards.result_output import graded_output
    from ors_server.rewards.reward_errors import RewardError
    from ors_server.rewards.reward_trajectory import Step, Trajectory
    from ors_server.rewards.scoring import score
    from ors_server.sandboxes.base import Entry, EntryKind, ExecResult, Sandbox
    from ors_server.sandboxes.base import Limits as SandboxLimits
    from ors_server.sandboxes.fresh import FreshRun
    from ors_server.sandboxes.sandbox_errors import SandboxFileError, SandboxFileMissingError
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

__all__ = [
    "ALFWorldSpec",
    "Ability",
    "AbilityError",
    "AskError",
    "BaseReward",
    "BashTools",
    "BatchScorer",
    "CallContext",
    "CaseReport",
    "CaseResult",
    "ClippedReward",
    "CommandSucceeds",
    "CompositeReward",
    "Context",
    "Elicit",
    "Elicited",
    "Entry",
    "EntryKind",
    "Environment",
    "EpisodePolicy",
    "Evidence",
    "ExecResult",
    "FileExists",
    "FileMatches",
    "FileTools",
    "ForbiddenActionError",
    "FreshRun",
    "FunctionCase",
    "GatedReward",
    "GradingError",
    "GroupCandidate",
    "GroupScore",
    "ImageBlock",
    "JSONObject",
    "LearnedReward",
    "ListRoots",
    "LocalEnvResourceSpec",
    "Message",
    "Milestone",
    "MinReward",
    "NamedResourceSpec",
    "OffloadLimits",
    "OverLimitError",
    "PatchTools",
    "PenaltyCause",
    "ProductReward",
    "Prompt",
    "PythonProgram",
    "PythonTools",
    "ReasoningBlock",
    "ResourcePool",
    "ResourceSpec",
    "Reward",
    "RewardError",
    "RewardResult",
    "RewardStatus",
    "Root",
    "RootList",
    "Sample",
    "Sampled",
    "Sandbox",
    "SandboxFileError",
    "SandboxFileMissingError",
    "SandboxLimits",
    "ScienceWorldSpec",
    "Settings",
    "Split",
    "StdioCase",
    "Step",
    "Submission",
    "SubmitTools",
    "TextBlock",
    "TextComparison",
    "TimeLimits",
    "ToolCallBlock",
    "ToolError",
    "ToolOutput",
    "ToolResultBlock",
    "Toolset",
    "Trajectory",
    "Visibility",
    "WebShopSpec",
    "__version__",
    "alfworld_episode_reward",
    "answer_match_reward",
    "ascore_rows",
    "audio_block",
    "code_execution_reward",
    "create_app",
    "efficiency_reward",
    "find_reward",
    "gather_evidence",
    "grade_functions",
    "grade_pytest",
    "grade_stdio",
    "graded_output",
    "list_rewards",
    "llm_judge_reward",
    "math_equal_reward",
    "math_equal_reward_tool",
    "prompt",
    "qa_f1_reward",
    "qa_f1_reward_tool",
    "resource",
    "resource_block",
    "reward",
    "run_offloaded",
    "scienceworld_reward",
    "score",
    "score_group_with",
    "score_rows",
    "task_success",
    "terminal",
    "tool",
    "tool_from_schema",
    "webshop_reward",
]

_HOMES = {
    "ALFWorldSpec": "ors_server.resources.spec",
    "Ability": "ors_server.authoring.calling_client",
    "AbilityError": "ors_server.authoring.calling_client",
    "AskError": "ors_server.authoring.calling_client",
    "BaseReward": "ors_server.rewards.define",
    "BashTools": "ors_server.authoring.toolsets.bash",
    "BatchScorer": "ors_server.rewards.batch.batch_scorer",
    "CallContext": "ors_server.authoring.call_context",
    "CaseReport": "ors_server.grading.cases",
    "CaseResult": "ors_server.grading.cases",
    "ClippedReward": "ors_server.rewards.composite",
    "CommandSucceeds": "ors_server.authoring.toolsets.milestones",
    "CompositeReward": "ors_server.rewards.composite",
    "Context": "ors_server.resources.resource_context",
    "Elicit": "ors_server.authoring.calling_client",
    "Elicited": "ors_server.authoring.calling_client",
    "Entry": "ors_server.sandboxes.base",
    "EntryKind": "ors_server.sandboxes.base",
    "Environment": "ors_server.authoring.environment",
    "EpisodePolicy": "ors_server.policy",
    "Evidence": "ors_server.grading.evidence",
    "ExecResult": "ors_server.sandboxes.base",
    "FileExists": "ors_server.authoring.toolsets.milestones",
    "FileMatches": "ors_server.authoring.toolsets.milestones",
    "FileTools": "ors_server.authoring.toolsets.file_tools",
    "ForbiddenActionError": "ors_server.authoring.tool",
    "FreshRun": "ors_server.sandboxes.fresh",
    "FunctionCase": "ors_server.grading.cases",
    "GatedReward": "ors_server.rewards.composite",
    "GradingError": "ors_server.grading.grading_errors",
    "GroupCandidate": "ors_server.wire",
    "GroupScore": "ors_server.wire",
    "ImageBlock": "ors_server.wire",
    "JSONObject": "ors_server.wire",
    "LearnedReward": "ors_server.rewards.learned",
    "ListRoots": "ors_server.authoring.calling_client",
    "LocalEnvResourceSpec": "ors_server.resources.spec",
    "Message": "ors_server.wire",
    "Milestone": "ors_server.authoring.toolsets.milestones",
    "MinReward": "ors_server.rewards.composite",
    "NamedResourceSpec": "ors_server.resources.spec",
    "OffloadLimits": "ors_server.offload",
    "OverLimitError": "ors_server.offload",
    "PatchTools": "ors_server.authoring.toolsets.patch",
    "PenaltyCause": "ors_server.policy",
    "ProductReward": "ors_server.rewards.composite",
    "Prompt": "ors_server.authoring.environment",
    "PythonProgram": "ors_server.grading.stdio_cases",
    "PythonTools": "ors_server.authoring.toolsets.python",
    "ReasoningBlock": "ors_server.wire",
    "ResourcePool": "ors_server.resources.resource_pool",
    "ResourceSpec": "ors_server.resources.spec",
    "Reward": "ors_server.rewards.define",
    "RewardError": "ors_server.rewards.reward_errors",
    "RewardResult": "ors_server.rewards.result",
    "RewardStatus": "ors_server.rewards.result",
    "Root": "ors_server.authoring.calling_client",
    "RootList": "ors_server.authoring.calling_client",
    "Sample": "ors_server.authoring.calling_client",
    "Sampled": "ors_server.authoring.calling_client",
    "Sandbox": "ors_server.sandboxes.base",
    "SandboxFileError": "ors_server.sandboxes.sandbox_errors",
    "SandboxFileMissingError": "ors_server.sandboxes.sandbox_errors",
    "SandboxLimits": "ors_server.sandboxes.base:Limits",
    "ScienceWorldSpec": "ors_server.resources.spec",
    "Settings": "ors_server.settings",
    "Split": "ors_server.wire",
    "StdioCase": "ors_server.grading.cases",
    "Step": "ors_server.rewards.reward_trajectory",
    "Submission": "ors_server.authoring.toolsets.submit",
    "SubmitTools": "ors_server.authoring.toolsets.submit",
    "TextBlock": "ors_server.wire",
    "TextComparison": "ors_server.grading.text_comparison",
    "TimeLimits": "ors_server.grading.cases",
    "ToolCallBlock": "ors_server.wire",
    "ToolError": "ors_server.authoring.tool",
    "ToolOutput": "ors_server.wire",
    "ToolResultBlock": "ors_server.wire",
    "Toolset": "ors_server.authoring.tool",
    "Trajectory": "ors_server.rewards.reward_trajectory",
    "Visibility": "ors_server.visibility",
    "WebShopSpec": "ors_server.resources.spec",
    "alfworld_episode_reward": "ors_server.rewards.agentfly.stateful",
    "answer_match_reward": "ors_server.rewards.arise",
    "ascore_rows": "ors_server.rewards.batch.batch_scorer",
    "audio_block": "ors_server.authoring.rich_blocks",
    "code_execution_reward": "ors_server.rewards.arise",
    "create_app": "ors_server.app",
    "efficiency_reward": "ors_server.rewards.arise",
    "find_reward": "ors_server.rewards.catalogue",
    "gather_evidence": "ors_server.grading.evidence",
    "grade_functions": "ors_server.grading.function_cases",
    "grade_pytest": "ors_server.grading.pytest_cases",
    "grade_stdio": "ors_server.grading.stdio_cases",
    "graded_output": "ors_server.rewards.result_output",
    "list_rewards": "ors_server.rewards.catalogue",
    "llm_judge_reward": "ors_server.rewards.judged",
    "math_equal_reward": "ors_server.rewards.agentfly.answers",
    "math_equal_reward_tool": "ors_server.rewards.agentfly.answers",
    "prompt": "ors_server.authoring.offers",
    "qa_f1_reward": "ors_server.rewards.agentfly.answers",
    "qa_f1_reward_tool": "ors_server.rewards.agentfly.answers",
    "resource": "ors_server.authoring.offers",
    "resource_block": "ors_server.authoring.rich_blocks",
    "reward": "ors_server.rewards.define",
    "run_offloaded": "ors_server.offload:run",
    "scienceworld_reward": "ors_server.rewards.agentfly.stateful",
    "score": "ors_server.rewards.scoring",
    "score_group_with": "ors_server.rewards.group",
    "score_rows": "ors_server.rewards.batch.batch_scorer",
    "task_success": "ors_server.rewards.arise",
    "terminal": "ors_server.authoring.tool",
    "tool": "ors_server.authoring.tool",
    "tool_from_schema": "ors_server.authoring.tool",
    "webshop_reward": "ors_server.rewards.agentfly.stateful",
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
