"""The families of word problems, in the order in which the tasks go through them."""

from __future__ import annotations

from ors_server_tasks.math_word_problems.families import (
    algebra,
    arithmetic,
    averages,
    durations,
    fractions_of_things,
    geometry,
    percentages,
    prices,
    rates,
    ratios,
    remainders,
    sequences,
    spending,
)

FAMILIES = (
    arithmetic.FAMILY,
    fractions_of_things.FAMILY,
    percentages.FAMILY,
    prices.FAMILY,
    ratios.FAMILY,
    rates.FAMILY,
    averages.FAMILY,
    spending.FAMILY,
    durations.FAMILY,
    geometry.FAMILY,
    algebra.FAMILY,
    sequences.FAMILY,
    remainders.FAMILY,
)
"""All families; the order is part of the tasks' identity."""
