"""The operators of Python's data model that a hidden test can apply to an agent's object, by name.

Both sides use it; it needs only the standard library. A side applies only what this table names.
"""

import operator
from collections.abc import Callable
from typing import Any

from ors_server.grading.encoding import kind_of

BINARY = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "lshift", "rshift"),
    *("and", "or", "xor", "divmod"),
)
"""Arithmetic; each has a reflected counterpart."""
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
UNARY = ("neg", "pos", "abs", "invert")
CONVERSIONS: dict[str, type] = {
    "bool": bool,
    "int": int,
    "float": float,
    "complex": complex,
    "index": int,
    "len": int,
    "str": str,
    "repr": str,
    "format": str,
    "contains": bool,
}
"""Operators whose result is always of one plain type."""
OTHERS = ("iter", "next", "reversed", "getitem", "setitem", "delitem", "call", "enter", "exit", "round")


# By the class, as the `with` statement looks them up.
def _enter(value: Any) -> Any:
    return kind_of(value).__enter__(value)


def _exit(value: Any, *about: Any) -> Any:
    return kind_of(value).__exit__(value, *about)


def _call(value: Any, *arguments: Any) -> Any:
    return value(*arguments)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(operator, name) for name in (*COMPARISONS, *UNARY, "contains", "index")},
    **{name: getattr(operator, name) for name in ("getitem", "setitem", "delitem")},
    **{name: getattr(operator, f"__{name}__") for name in BINARY if name != "divmod"},
    **{
        name: kind for name, kind in CONVERSIONS.items() if name in {"bool", "int", "float", "complex", "str"}
    },
    "divmod": divmod,
    "len": len,
    "repr": repr,
    "format": format,
    "iter": iter,
    "next": next,
    "reversed": reversed,
    "round": round,
    "enter": _enter,
    "exit": _exit,
    "call": _call,
}


def operate(name: str, operands: list[Any]) -> Any:
    """Apply an operator; the object comes first, unless it is a binary operator's right side."""
    return _FUNCTIONS[name](*operands)


def operators_of(kind: type) -> list[str]:
    """Return the operators that a class defines, beyond those of every object."""
    operators = [name for name in (*COMPARISONS, *_ASKED) if _defines(kind, f"__{name}__")]
    return operators + [f"r{name}" for name in BINARY if _defines(kind, f"__r{name}__")]


_ASKED = (*BINARY, *UNARY, *CONVERSIONS, *OTHERS)


def _defines(kind: type, name: str) -> bool:
    for base in kind.__mro__:
        if name in base.__dict__:
            # `None` as a method is how a class declares that it does not support an operator, such as
            # `__hash__`.
            return base is not object and base.__dict__[name] is not None
    return False
