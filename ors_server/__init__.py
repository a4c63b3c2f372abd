"""Serve RL environments for language-model agents over the Open Reward Standard and MCP.

The names here are the whole public surface for authors of environments. They are loaded on first use, so that
importing the package costs little.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ors_server._version import __version__

if TYPE_CHECKING:
    from ors_server.app import create_app
    from ors_server.environments.call_context import CallContext
    from ors_server.environments.calling_client import (
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
    from ors_server.environments.environment import Environment, Prompt
    from ors_server.environments.indexed_tasks import IndexedTasks
    from ors_server.environments.loading import environment_at
    from ors_server.environments.offers import prompt, resource
    from ors_server.environments.rich_blocks import audio_block, resource_block
    from ors_server.environments.simulated_user.conversation import (
        SimulatedUser,
        UserBudget,
        UserConversation,
        UserReply,
    )
    from ors_server.environments.simulated_user.model_user import ModelUser, choose_user
    from ors_server.environments.simulated_user.scripted_user import FunctionUser, ScriptedUser
    from ors_server.environments.simulated_user.user_errors import UserError, UserMessageError
    from ors_server.environments.simulated_user.user_script import ScriptedReply, UserScript
    from ors_server.environments.tool import (
        ForbiddenActionError,
        ToolError,
        Toolset,
        terminal,
        tool,
        tool_from_schema,
    )
    from ors_server.environments.toolsets.bash import BashTools
    from ors_server.environments.toolsets.file_tools import FileTools
    from ors_server.environments.toolsets.milestones import (
        CommandSucceeds,
        FileExists,
        FileMatches,
        Milestone,
    )
    from ors_server.environments.toolsets.patch import PatchTools
    from ors_server.environments.toolsets.python import PythonTools
    from ors_server.environments.toolsets.submit import Submission, SubmitTools
    from ors_server.environments.toolsets.user import UserTools
    from ors_server.grading.cases import CaseReport, CaseResult, FunctionCase, StdioCase, TimeLimits
    from ors_server.grading.evidence import Evidence, gather_evidence
    from ors_server.grading.function_cases import grade_functions
    from ors_server.grading.grading_errors import GradingError
    from ors_server.grading.pytest_cases import grade_pytest
    from ors_server.grading.stdio_cases import PythonProgram, grade_stdio
    from ors_server.grading.text_comparison import TextComparison
    from ors_server.installation import install_hint
    from ors_server.model.policy import EpisodePolicy, PenaltyCause
    from ors_server.model.settings import Settings
    from ors_server.model.trajectory import UserTurn
    from ors_server.model.visibility import Visibility
    from ors_server.model.wire import (
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
    from ors_server.processes.child_variables import child_variables
    from ors_server.processes.offload import OffloadLimits, OverLimitError
    from ors_server.processes.offload import run as run_offloaded
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
    from ors_server.sandboxes.base import Entry, EntryKind, ExecResult, Sandbox, SandboxRequest, SandboxRoot
    from ors_server.sandboxes.base import Limits as SandboxLimits
    from ors_server.sandboxes.fresh import FreshRun
    from ors_server.sandboxes.sandbox_errors import SandboxFileError, SandboxFileMissingError

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
    "FunctionUser",
    "GatedReward",
    "GradingError",
    "GroupCandidate",
    "GroupScore",
    "ImageBlock",
    "IndexedTasks",
    "JSONObject",
    "LearnedReward",
    "ListRoots",
    "LocalEnvResourceSpec",
    "Message",
    "Milestone",
    "MinReward",
    "ModelUser",
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
    "SandboxRequest",
    "SandboxRoot",
    "ScienceWorldSpec",
    "ScriptedReply",
    "ScriptedUser",
    "Settings",
    "SimulatedUser",
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
    "UserBudget",
    "UserConversation",
    "UserError",
    "UserMessageError",
    "UserReply",
    "UserScript",
    "UserTools",
    "UserTurn",
    "Visibility",
    "WebShopSpec",
    "__version__",
    "alfworld_episode_reward",
    "answer_match_reward",
    "ascore_rows",
    "audio_block",
    "child_variables",
    "choose_user",
    "code_execution_reward",
    "create_app",
    "efficiency_reward",
    "environment_at",
    "find_reward",
    "gather_evidence",
    "grade_functions",
    "grade_pytest",
    "grade_stdio",
    "graded_output",
    "install_hint",
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
    "app": "create_app",
    "environments.call_context": "CallContext",
    "environments.calling_client": (
        "Ability AbilityError AskError Elicit Elicited ListRoots Root RootList Sample Sampled"
    ),
    "environments.environment": "Environment Prompt",
    "environments.indexed_tasks": "IndexedTasks",
    "environments.loading": "environment_at",
    "environments.offers": "prompt resource",
    "environments.rich_blocks": "audio_block resource_block",
    "environments.simulated_user.conversation": "SimulatedUser UserBudget UserConversation UserReply",
    "environments.simulated_user.model_user": "ModelUser choose_user",
    "environments.simulated_user.scripted_user": "FunctionUser ScriptedUser",
    "environments.simulated_user.user_errors": "UserError UserMessageError",
    "environments.simulated_user.user_script": "ScriptedReply UserScript",
    "environments.tool": "ForbiddenActionError ToolError Toolset terminal tool tool_from_schema",
    "environments.toolsets.bash": "BashTools",
    "environments.toolsets.file_tools": "FileTools",
    "environments.toolsets.milestones": "CommandSucceeds FileExists FileMatches Milestone",
    "environments.toolsets.patch": "PatchTools",
    "environments.toolsets.python": "PythonTools",
    "environments.toolsets.submit": "Submission SubmitTools",
    "environments.toolsets.user": "UserTools",
    "grading.cases": "CaseReport CaseResult FunctionCase StdioCase TimeLimits",
    "grading.evidence": "Evidence gather_evidence",
    "grading.function_cases": "grade_functions",
    "grading.grading_errors": "GradingError",
    "grading.pytest_cases": "grade_pytest",
    "grading.stdio_cases": "PythonProgram grade_stdio",
    "grading.text_comparison": "TextComparison",
    "installation": "install_hint",
    "processes.child_variables": "child_variables",
    "processes.offload": "OffloadLimits OverLimitError run_offloaded",
    "model.policy": "EpisodePolicy PenaltyCause",
    "resources.resource_context": "Context",
    "resources.resource_pool": "ResourcePool",
    "resources.spec": (
        "ALFWorldSpec LocalEnvResourceSpec NamedResourceSpec ResourceSpec ScienceWorldSpec WebShopSpec"
    ),
    "rewards": (
        "BaseReward ClippedReward CompositeReward GatedReward LearnedReward MinReward ProductReward "
        "Reward RewardError RewardResult RewardStatus Step Trajectory alfworld_episode_reward "
        "answer_match_reward code_execution_reward efficiency_reward find_reward graded_output "
        "list_rewards llm_judge_reward math_equal_reward math_equal_reward_tool qa_f1_reward "
        "qa_f1_reward_tool reward scienceworld_reward score score_group_with task_success webshop_reward"
    ),
    "rewards.batch.batch_scorer": "BatchScorer ascore_rows score_rows",
    "sandboxes.base": "Entry EntryKind ExecResult Sandbox SandboxLimits SandboxRequest SandboxRoot",
    "sandboxes.fresh": "FreshRun",
    "sandboxes.sandbox_errors": "SandboxFileError SandboxFileMissingError",
    "model.settings": "Settings",
    "model.trajectory": "UserTurn",
    "model.visibility": "Visibility",
    "model.wire": (
        "GroupCandidate GroupScore ImageBlock JSONObject Message ReasoningBlock Split TextBlock "
        "ToolCallBlock ToolOutput ToolResultBlock"
    ),
}
"""The public names by the module that has them."""

_NAMES_AT_HOME = {"SandboxLimits": "Limits", "run_offloaded": "run"}


def __getattr__(name: str) -> Any:
    home = next((module for module, names in _HOMES.items() if name in names.split()), None)
    if home is None:
        raise AttributeError(f"module 'ors_server' has no attribute {name!r}")
    try:
        module = import_module(f"ors_server.{home}")
    except ModuleNotFoundError as error:
        from ors_server.installation import explain_absence

        raise explain_absence(f"ors_server.{name}", error) from error
    value = getattr(module, _NAMES_AT_HOME.get(name, name))
    globals()[name] = value
    return value
