"""The findings of the rules over the source."""

import ast
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class SourceFinding:
    """A line in an environment's source that may be a hole."""

    line: int
    """From 1."""
    hack_class: str
    """`H1` to `H23`."""
    rule: str
    """The rule's name, such as `gold_in_answer`."""
    message: str


def finding_at(
    node: ast.expr | ast.stmt | ast.excepthandler, rule: tuple[str, str], message: str
) -> SourceFinding:
    """Return a finding at a node.

    Args:
        rule: The class's id and the rule's name.
    """
    return SourceFinding(node.lineno, *rule, message)
