"""The parts of mpmath, which has no types, that are used here."""

from importlib import import_module
from typing import Any

_mpmath: Any = import_module("mpmath")
mp: Any = _mpmath.mp
"""Numbers of any precision."""
fp: Any = _mpmath.fp
"""Ordinary floats, with the same functions."""
mpf: Any = _mpmath.mpf
mpc: Any = _mpmath.mpc
