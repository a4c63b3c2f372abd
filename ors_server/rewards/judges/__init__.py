"""Rewards by language models that judge: rubrics, pairs, scores; any OpenAI-compatible endpoint."""

from typing import Any

from ors_server.deprecation import deprecated_names
from ors_server.rewards.judges.accounting import Budget, Price, PriceTable, Usage
from ors_server.rewards.judges.cache import JudgeCache
from ors_server.rewards.judges.calibration import PROBES, Calibration, Labelled, Probing, calibrate, probe
from ors_server.rewards.judges.judge_endpoint import EndpointJudge, EndpointOptions, EndpointVariables
from ors_server.rewards.judges.judge_model import Completion, JudgeModel, Sampling
from ors_server.rewards.judges.judge_recording import RecordingJudge, ReplayingJudge
from ors_server.rewards.judges.pairwise import Comparison, PairwiseJudge
from ors_server.rewards.judges.probabilities import brier_score, calibration_error
from ors_server.rewards.judges.questions import Answered, JudgeOptions, Question, ask
from ors_server.rewards.judges.rubric import Criterion, Rubric
from ors_server.rewards.judges.rubric_judge import RubricJudge
from ors_server.rewards.judges.scripted_judge import ScriptedJudge
from ors_server.rewards.reward_errors import (
    JudgeBudgetError,
    JudgeError,
    JudgeSettingsError,
    UnusableReplyError,
)

__all__ = [
    "PROBES",
    "Answered",
    "Budget",
    "Calibration",
    "Comparison",
    "Completion",
    "Criterion",
    "EndpointJudge",
    "EndpointOptions",
    "EndpointVariables",
    "JudgeBudgetError",
    "JudgeCache",
    "JudgeError",
    "JudgeModel",
    "JudgeOptions",
    "JudgeSettingsError",
    "Labelled",
    "PairwiseJudge",
    "Price",
    "PriceTable",
    "Probing",
    "Question",
    "RecordingJudge",
    "ReplayingJudge",
    "Rubric",
    "RubricJudge",
    "Sampling",
    "ScriptedJudge",
    "UnusableReplyError",
    "Usage",
    "ask",
    "brier_score",
    "calibrate",
    "calibration_error",
    "probe",
]

_deprecated = deprecated_names(
    __name__, {"Manners": "ors_server.rewards.judges.judge_endpoint:EndpointOptions"}, removed_in="0.3"
)


def __getattr__(name: str) -> Any:
    return _deprecated(name)
