"""Makes and scores problems of reasoning-gym; runs in worker processes (`ors_server.processes.offload`).

A problem is made again from its seed in the process that scores it. Nine datasets evaluate an answer as
Python code, by `eval` or by SymPy's parser; here, only literals and plain formulas get that far.
"""

import ast
import functools
import json
import random
from importlib import import_module
from typing import Any

import numpy as np

from ors_server.adapters.reasoning_gym_answers import GeneratedProblem, Verdict, refuse

EVALUATING = (
    "algorithmic.binary_matrix",
    "algorithmic.spiral_matrix",
    "algorithmic.string_insertion",
    "games.n_queens",
)
"""Modules that call `eval` on an answer."""
_package: Any = import_module("reasoning_gym")

for _module in EVALUATING:
    # Replaced in the modules' own namespaces, before any dataset is made: `eval` there sees literals
    # only.
    vars(import_module(f"reasoning_gym.{_module}"))["eval"] = ast.literal_eval


def check_options(dataset: str, options: str) -> str:
    """Return what is wrong with the options of a dataset, a JSON object; empty if they fit."""
    names = sorted(_package.factory.DATASETS[dataset][1].__dataclass_fields__)
    unknown = sorted(set(json.loads(options)) - set(names))
    if unknown:
        return f"unknown option {unknown[0]!r}; expected one of {', '.join(names)}"
    try:
        # Making the first problem checks the options that only the generation uses.
        _dataset(dataset, options)[0]
    except Exception as error:  # noqa: BLE001  (datasets check by assert, and by everything else)
        return f"the dataset refuses {options}: {type(error).__name__}: {error}"
    return ""


def list_tasks(dataset: str, options: str) -> list[int]:
    """Return the indices of a dataset that are tasks; options as for `make_problem`.

    An index is not a task if an earlier one has its question, or if its own answer is refused, as too long,
    or as the question again: one in eleven integrals has SymPy's `Integral`, which the dataset would pay.
    """
    index_of_question: dict[str, int] = {}
    for index in range(int(json.loads(options)["size"])):
        entry = _entry(dataset, options, index)
        if not refuse(dataset, str(entry["answer"])):
            index_of_question.setdefault(entry["question"], index)
    return list(index_of_question.values())


def make_problem(dataset: str, options: str, index: int) -> GeneratedProblem:
    """Return a problem of a dataset.

    Args:
        options: Fields of its configuration, a JSON object with `seed` and `size`.
    """
    entry = _entry(dataset, options, index)
    return GeneratedProblem(entry["question"], str(entry["answer"]))


def score_answer(dataset: str, options: str, index: int, problem: GeneratedProblem, answer: str) -> Verdict:
    """Return what the dataset pays for an answer to a problem.

    Raises:
        ValueError: If making the problem again gives another one.
    """
    entry = _entry(dataset, options, index)
    if (entry["question"], str(entry["answer"])) != (problem.question, problem.answer):
        raise ValueError(f"{dataset}: problem {index} differs when it is made again from its seed")
    reason = refuse(dataset, answer)
    if reason:
        return Verdict(0.0, reason)
    try:
        return Verdict(float(_dataset(dataset, options).score_answer(answer, entry)))
    # The worker's limits; they are reported as such and are not a verdict on the answer.
    except (MemoryError, RecursionError):
        raise
    except Exception as error:  # noqa: BLE001  (it reads what the agent wrote)
        return Verdict(0.0, f"the answer could not be read: {type(error).__name__}: {error}"[:500])


@functools.lru_cache(maxsize=8)
def _dataset(dataset: str, options: str) -> Any:
    return _package.create_dataset(dataset, **json.loads(options))


@functools.lru_cache(maxsize=8)
def _entry(dataset: str, options: str, index: int) -> dict[str, Any]:
    """Make an entry; what some datasets draw from global generators depends on the index alone, too."""
    random.seed(f"{dataset}/{options}/{index}")
    np.random.seed(index)  # noqa: NPY002  (the generator that datasets draw from)
    entry: dict[str, Any] = _dataset(dataset, options)[index]
    return entry
