"""Every reward that comes with the library, by name; each is imported on first use."""

import difflib
import inspect
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ors_server.files.importing import import_file
from ors_server.rewards.define import FunctionReward, Reward, as_reward
from ors_server.rewards.reward_errors import UnknownRewardError

_HOMES = MappingProxyType(
    {
        f"ors_server.rewards.{module}": tuple(names.split())
        for module, names in {
            "arise": "task_success code_execution_reward answer_match_reward efficiency_reward",
            "agentfly.answers": (
                "qa_f1_reward qa_f1_reward_tool math_equal_reward math_equal_reward_tool "
                "math_equal_reward_think math_reward_thought_with_tool math_string_equal_reward_tool "
                "ok_vqa_reward infoseek_reward"
            ),
            "agentfly.exact": "qa_em_reward qa_em_format_reward qa_em_reward_tool_call",
            "agentfly.gui": "gui_reward",
            "agentfly.chess": "chess_puzzle_reward chess_puzzle_reward_simple",
            "agentfly.stateful": (
                "webshop_reward alfworld_episode_reward scienceworld_reward code_reward_test"
            ),
            "judged": "llm_judge_reward llm_as_judge_reward",
            "learned": "LearnedReward",
            "text.matches": (
                "exact_match_reward normalised_match_reward word_match_reward all_of_match_reward "
                "regex_match_reward strict_answer_match_reward"
            ),
            "text.numeric_match": "numeric_match_reward gsm8k_reward",
            "text.multiple_choice": "multiple_choice_reward",
            "text.response_format": (
                "think_format_reward answer_format_reward code_format_reward tag_count_reward "
                "reasoning_steps_reward"
            ),
            "text.lengths": (
                "soft_overlong_reward cosine_length_reward length_group_reward repetition_penalty_reward "
                "token_cost_reward latency_cost_reward"
            ),
            "text.overlap": "edit_similarity_reward rouge_n_reward rouge_l_reward bleu_reward chrf_reward",
            "text.summaries": "rouge_lsum_reward",
            "voting": "majority_vote_reward group_rank_reward",
            "structures.structured": "json_valid_reward json_schema_reward json_match_reward",
            "structures.tool_calls": "tool_call_match_reward distinct_tool_use_reward",
            "sql.reward": "sql_match_reward",
            "structures.states": "state_match_reward",
            "evidence.file_rewards": "file_match_reward files_unchanged_reward diff_reward",
            "structures.points": "gui_point_reward gui_box_reward",
            "text.instructions": "instruction_reward",
            "evidence.code": "code_stdio_reward code_functions_reward code_pytest_reward",
            "evidence.completions": "code_completion_reward",
        }.items()
    }
)
"""Module to the rewards in it, in the order in which they are listed."""

_HAZARDS = re.compile(r"Hazards?:")
_SOURCE = re.compile(r"Sources?:")


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A reward in one line."""

    name: str
    """Under which `find_reward` finds it."""
    summary: str
    """The first sentence of its documentation."""
    fields: tuple[str, ...]
    """The fields that it takes; optional ones in brackets."""
    range: tuple[float, float] | None
    """The lowest and the highest number; `None` if any number is possible."""
    place: str
    """`module:name`."""
    hazards: str = ""
    """How an agent can earn without doing the task, in one paragraph; empty if none is documented."""
    source: str = ""
    """Where it comes from: its documentation's paragraph, or that of its module."""


def find_reward(name: str) -> Reward:
    """Return a reward by its name, `module:name`, or `file.py:name`; raise a `RewardError` without one."""
    if ":" in name:
        return as_reward(_load(name))
    if (home := home_of(name)) is not None:
        return as_reward(getattr(import_module(home), name))
    names = list(reward_names())
    near = [reward for reward in names if reward == f"{name}_reward"]
    near = near or difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise UnknownRewardError(
        f"unknown reward {name!r}; {hint}`ors-server rewards` lists them, and module:name finds your own"
    )


def home_of(name: str) -> str | None:
    """Return the module of a reward of the library, or `None` if there is no such reward."""
    return next((module for module, names in _HOMES.items() if name in names), None)


def reward_names() -> Iterator[str]:
    """Yield the name of each of the library's rewards, without importing any."""
    for names in _HOMES.values():
        yield from names


def list_rewards() -> Iterator[CatalogueEntry]:
    """Yield an entry for each of the library's rewards."""
    for name in reward_names():
        yield describe_reward(name)


def describe_reward(name: str) -> CatalogueEntry:
    """Return the entry of one of the library's rewards.

    Raises:
        UnknownRewardError: If there is no such reward.
    """
    reward = find_reward(name)
    module = home_of(name)
    if module is None:
        raise UnknownRewardError(f"{name!r} is not a reward of the library; `ors-server rewards` lists them")
    signature = reward.signature
    # a class says what it does in its own documentation, not in that of `call`
    documented = reward.function if isinstance(reward, FunctionReward) else type(reward)
    doc = inspect.getdoc(documented) or ""
    return CatalogueEntry(
        name=name,
        summary=doc.partition("\n")[0],
        fields=(*sorted(signature.required), *(f"[{field}]" for field in sorted(signature.optional))),
        range=reward.range,
        place=f"{module}:{name}",
        hazards=_paragraph(doc, _HAZARDS),
        source=_paragraph(doc, _SOURCE) or _paragraph(inspect.getdoc(import_module(module)) or "", _SOURCE),
    )


def _paragraph(doc: str, beginning: re.Pattern[str]) -> str:
    """Return the paragraph that begins with a word, on one line and without the word."""
    for paragraph in re.split(r"\n\s*\n", doc):
        match = beginning.match(paragraph)
        if match is not None:
            return " ".join(paragraph[match.end() :].split())
    return ""


def _load(qualified_name: str) -> Any:
    module, _, name = qualified_name.rpartition(":")
    try:
        if module.endswith(".py"):
            file = Path(module).resolve()
            loaded: Any = import_file(
                file, f"ors_server_reward_file_{sha256(os.fsencode(file)).hexdigest()[:16]}"
            )
        else:
            loaded = import_module(module)
        for part in name.split("."):
            loaded = getattr(loaded, part)
    except (ImportError, AttributeError, OSError, ValueError) as error:
        raise UnknownRewardError(f"{qualified_name!r} cannot be loaded: {error}") from error
    return loaded
