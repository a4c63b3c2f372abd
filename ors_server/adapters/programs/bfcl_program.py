"""Plays BFCL's multi-turn tasks, one after another, in a separate process.

It is imported by its path, in the Python that has bfcl-eval. It imports only the standard library and
bfcl-eval. Calls are made by name with arguments; nothing evaluates a text. BFCL's own checkers judge each
turn: `state_checker` and `response_checker` of `multi_turn_checker.py`.
"""

# pyright: basic, reportMissingImports=false
# The package is in another virtual environment.

from __future__ import annotations

import ast
import copy
import decimal
import importlib
import inspect
import json
import math
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import bfcl_eval
import mpmath
from bfcl_eval.constants.executable_backend_config import (
    CLASS_FILE_PATH_MAPPING,
    MULTI_TURN_FUNC_DOC_FILE_MAPPING,
    STATELESS_CLASSES,
)
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import response_checker, state_checker

CALL_SECONDS = 5.0
"""Seconds that one call may take; then the agent reads an error."""
MAX_BITS = 1 << 16
"""Bits of the greatest power that is computed."""
_DATA = Path(str(bfcl_eval.__file__)).parent / "data"
_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": None}
_FAILED = "Error during execution: "
"""How BFCL's executor words what a call raised."""

Call = list[Any]
"""A call as JSON: its name and its arguments."""


class BfclSession:
    """One task at a time: the instances that the agent changes, and those of the reference solution."""

    def __init__(self, category: str) -> None:
        """Read the tasks of a category, such as `multi_turn_base`."""
        file = f"BFCL_v4_{category}.json"
        solutions = {row["id"]: row["ground_truth"] for row in _rows(_DATA / "possible_answer" / file)}
        self._tasks = _rows(_DATA / file)
        self._solutions = [solutions[task["id"]] for task in self._tasks]
        self._is_long = "long_context" in category
        self._agent: dict[str, Any] = {}
        self._reference: dict[str, Any] = {}
        self._index = 0
        self._turn = 0
        self._results: list[str] = []
        self._calls_in_turn = 0
        self._is_right = True

    def reset(self) -> None:
        """Do nothing between two sessions: `begin` creates everything from scratch."""

    def list_tasks(self) -> list[dict[str, Any]]:
        """Return each task: id, turns of the user, reference solution as calls per turn, classes of tools."""
        return [
            {
                "id": task["id"],
                "turns": ["\n".join(message["content"] for message in turn) for turn in task["question"]],
                "solution": [[self._read(task, call) for call in turn] for turn in solution],
                "classes": task["involved_classes"],
            }
            for task, solution in zip(self._tasks, self._solutions, strict=True)
        ]

    def list_tools(self) -> dict[str, list[dict[str, Any]]]:
        """Return the tools of each class that a task has: name, description, JSON Schema."""
        names = sorted({name for task in self._tasks for name in task["involved_classes"]})
        return {name: _tools_of(name) for name in names}

    def begin(self, index: int, calls: list[Call] | None = None) -> None:
        """Start a task from its beginning and repeat earlier calls; `reply` ends a turn."""
        mpmath.mp.dps = 15  # MathAPI changes these two for the whole process
        decimal.setcontext(decimal.Context())
        task = self._tasks[index]
        self._index, self._turn, self._results, self._calls_in_turn = index, 0, [], 0
        self._is_right = True
        self._agent = self._instances(task)
        self._reference = self._instances(task)
        for name, arguments in calls or []:
            if name == "reply":
                self.end_turn()
            else:
                self.call(name, arguments)

    def call(self, name: str, arguments: dict[str, Any]) -> str:
        """Make a call of the agent and return its result, worded as BFCL words it."""
        result = _call(self._agent, name, (), arguments)
        self._results.append(result)
        self._calls_in_turn += 1
        return result

    def end_turn(self) -> dict[str, Any]:
        """Judge the turn; return the next one's number, and after the last one the verdict."""
        solution = self._solutions[self._index][self._turn]
        expected = [_run(self._reference, call) for call in solution]
        if solution:
            # A turn without a solution asks for something that the tools cannot do: calls are then allowed,
            # and nothing is compared.
            self._is_right = self._is_right and self._calls_in_turn > 0 and self._judge(expected)
        self._turn += 1
        self._calls_in_turn = 0
        is_over = self._turn == len(self._solutions[self._index])
        return {"turn": self._turn, "is_over": is_over, "is_right": self._is_right if is_over else None}

    def _judge(self, expected: list[str]) -> bool:
        states = state_checker(self._agent, self._reference)
        return bool(states["valid"] and response_checker(self._results, expected, self._turn)["valid"])

    def _instances(self, task: dict[str, Any]) -> dict[str, Any]:
        instances: dict[str, Any] = {}
        for name in task["involved_classes"]:
            instances[name] = getattr(importlib.import_module(CLASS_FILE_PATH_MAPPING[name]), name)()
            if name not in STATELESS_CLASSES:
                config = copy.deepcopy(task["initial_config"].get(name, {}))
                instances[name]._load_scenario(config, long_context=self._is_long)  # noqa: SLF001  (BFCL's own way)
        return instances

    @staticmethod
    def _read(task: dict[str, Any], text: str) -> Call:
        """Return a call of a solution as its name and its arguments by name."""
        name, args, kwargs = _parse(text)
        if args:
            classes = (
                getattr(importlib.import_module(CLASS_FILE_PATH_MAPPING[class_name]), class_name)
                for class_name in task["involved_classes"]
            )
            method = next(getattr(cls, name) for cls in classes if hasattr(cls, name))
            kwargs = {
                **dict(zip(list(inspect.signature(method).parameters)[1:], args, strict=False)),
                **kwargs,
            }
        return [name, kwargs]


def _rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


def _tools_of(class_name: str) -> list[dict[str, Any]]:
    documents = _rows(_DATA / "multi_turn_func_doc" / MULTI_TURN_FUNC_DOC_FILE_MAPPING[class_name])
    return [
        {
            "name": document["name"],
            "description": document["description"],
            "schema": {**_schema(document["parameters"]), "additionalProperties": False},
        }
        for document in documents
    ]


def _schema(parameter: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema that BFCL's description of a parameter means."""
    schema: dict[str, Any] = {}
    kind = _TYPES.get(parameter["type"], parameter["type"]) if "type" in parameter else None
    if kind is not None:
        schema["type"] = kind
    if "description" in parameter:
        schema["description"] = parameter["description"].strip()
    if "properties" in parameter:
        schema["properties"] = {name: _schema(part) for name, part in parameter["properties"].items()}
        schema["required"] = list(parameter.get("required", []))
    if "items" in parameter:
        schema["items"] = _schema(parameter["items"])
    # BFCL writes "None" where a parameter has no default.
    if parameter.get("default", "None") != "None":
        schema["default"] = parameter["default"]
    if "enum" in parameter:
        schema["enum"] = parameter["enum"]
    return schema


def _parse(text: str) -> tuple[str, list[Any], dict[str, Any]]:
    """Read a call of a solution, which is written as Python with literals."""
    node = ast.parse(text.strip(), mode="eval").body
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise TypeError(f"expected a call of a function in the solution, got {text!r}")
    args = [ast.literal_eval(argument) for argument in node.args]
    return (
        node.func.id,
        args,
        {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords},
    )


def _run(instances: dict[str, Any], text: str) -> str:
    name, args, kwargs = _parse(text)
    return _call(instances, name, tuple(args), kwargs)


def _call(instances: dict[str, Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Call a public method of the last instance that has it, as BFCL's executor does."""
    # Names with an underscore, and attributes that are not methods, are not the agent's to call.
    owners = [
        instance
        for instance in instances.values()
        if not name.startswith("_") and inspect.ismethod(getattr(instance, name, None))
    ]
    if not owners:
        return f"{_FAILED}name '{name}' is not defined"
    try:
        if name == "power":
            _check_power(**kwargs)
        with _time_limit():
            result = getattr(owners[-1], name)(*args, **kwargs)
            # Also the wording may take long, such as of a result with millions of digits.
            return _worded(result)
    except Exception as error:  # noqa: BLE001  (what a call raises is its result)
        return f"{_FAILED}{error}"


def _worded(result: Any) -> str:
    if isinstance(result, str):
        return result
    if isinstance(result, dict):
        try:
            return json.dumps(result)
        except (TypeError, ValueError):
            return str(result)
    return str(result)


def _check_power(base: float = 0, exponent: float = 0, **_: Any) -> None:
    """Refuse a power of integers that would stop the process for long: Python cannot interrupt it."""
    if isinstance(base, int) and isinstance(exponent, int) and abs(base) > 1:
        # `log2` of an integer beyond a float's range would raise.
        bits = abs(exponent) * math.log2(abs(base)) if abs(base) < 1 << 1000 else math.inf
        if bits > MAX_BITS:
            raise OverflowError("Result too large")


@contextmanager
def _time_limit() -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TimeoutError(f"the call took more than {CALL_SECONDS:g} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, CALL_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
