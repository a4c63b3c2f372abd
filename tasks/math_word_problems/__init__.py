"""Word problems generated from a seed, with a calculator and exact grading."""

from ors_server_tasks.math_word_problems.environment import MathWordProblems

__all__ = ["MathWordProblems"]
