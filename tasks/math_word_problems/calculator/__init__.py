"""A calculator on exact numbers that no input can hang, crash or turn into running code.

Text becomes tokens (`tokens`), tokens a tree (`parser`, `tree`), the tree a value (`evaluator`, `functions`),
the value text (`rendering`). Every limit is checked before the work that it limits.
"""

from ors_server_tasks.math_word_problems.calculator.evaluator import evaluate
from ors_server_tasks.math_word_problems.calculator.limits import CalculatorError
from ors_server_tasks.math_word_problems.calculator.parser import parse
from ors_server_tasks.math_word_problems.calculator.rendering import render

__all__ = ["CalculatorError", "calculate"]


def calculate(expression: str) -> str:
    """Computes an expression, such as "12 * (3 + 1/4)", and writes its value.

    Args:
        expression: Any text.

    Returns:
        "39" or "2.5" for what a decimal number can say, "10/3 (~3.33333333333333)" for what it cannot,
        "~1.41421356237310" for what was computed from a rounded number.

    Raises:
        CalculatorError: The text is not an expression, or has no value, or is too long, deep or large. The
            message says what and where.
    """
    return render(evaluate(parse(expression)))
