"""A grader of mathematical answers: own extraction, own parser, own comparison; text is never run as code."""

from ors_server.rewards.math.grade import check_gold, explain, grade_math
from ors_server.rewards.math.options import MathOptions, MathVerdict

__all__ = ["MathOptions", "MathVerdict", "check_gold", "explain", "grade_math"]
