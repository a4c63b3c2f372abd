"""A grader of mathematical answers with its own extraction, parser and comparison; text is never code."""

from ors_server.rewards.math.grade import check_gold, explain, grade_math
from ors_server.rewards.math.math_options import MathOptions, MathVerdict

__all__ = ["MathOptions", "MathVerdict", "check_gold", "explain", "grade_math"]
