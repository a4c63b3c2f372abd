"""Rules over the source of an environment, which is read and never run."""

from collections.abc import Callable, Iterator
from pathlib import Path

from ors_server.audit.static_rules.answer_rules import (
    evaluated_argument,
    exponential_pattern,
    gold_in_answer,
    sentinel,
    unchecked_float,
)
from ors_server.audit.static_rules.data_flow import DataFlow
from ors_server.audit.static_rules.finding import SourceFinding
from ors_server.audit.static_rules.parsed_class import parse_class
from ors_server.audit.static_rules.reward_flow import RewardFlow
from ors_server.audit.static_rules.reward_rules import paid_failure, unguarded_reward, unseeded_luck
from ors_server.audit.static_rules.state_rules import (
    blocking_call,
    gold_in_prompt,
    grader_in_workspace,
    shared_state,
)

RULES: tuple[Callable[[RewardFlow], Iterator[SourceFinding]], ...] = (
    gold_in_answer,
    unguarded_reward,
    grader_in_workspace,
    gold_in_prompt,
    paid_failure,
    unchecked_float,
    blocking_call,
    exponential_pattern,
    evaluated_argument,
    unseeded_luck,
    sentinel,
    shared_state,
)
"""The rules, in the order of their classes."""


def find_suspicious(file: Path, class_name: str) -> list[SourceFinding]:
    """Find lines in the source of an environment's class that may be holes.

    The rules read the class, its bases, and the functions and classes that it uses, as far as they are in the
    same file. A file that cannot be read as Python, or whose expressions are too deep, has no findings.

    Args:
        class_name: Its qualified name.
    """
    try:
        source = parse_class(file, class_name)
        if source is None:
            return []
        rewards = RewardFlow(DataFlow(source))
        findings = {
            (finding.line, finding.hack_class): finding for rule in RULES for finding in rule(rewards)
        }
    # Python's own parser and these rules are recursive; an expression nested a thousand times is no
    # honest code.
    except RecursionError:
        return []
    return sorted(findings.values())
