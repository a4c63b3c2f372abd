"""Rewards of this library as functions of other packages, and the other way round; one module per package.

`as_...` converts a reward of this library, `from_...` a function of the package. No adapter invents a number:
each module says how its package marks a response that was not judged.
"""
