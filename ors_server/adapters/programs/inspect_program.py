"""Lists the samples of an Inspect task and scores answers, in a separate process.

It is imported by its path, in the Python that has inspect-ai. The task's solver does not run: an answer
becomes the output of the model. A task that needs a sandbox, files or a setup cannot be scored this way.
"""

# pyright: basic, reportMissingImports=false
# The package is in another virtual environment.

from __future__ import annotations

import importlib
import importlib.util
import math
import re
import sys
from pathlib import Path
from typing import Any

from inspect_ai import Task
from inspect_ai._util.registry import registry_info, registry_log_name
from inspect_ai.model import ModelName, ModelOutput
from inspect_ai.scorer import Target
from inspect_ai.solver import TaskState

GOLD_SCORERS = {"match", "includes", "exact", "f1", "choice"}
"""Scorers to which the target itself is a right answer."""
_VALUES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_LETTERS = re.compile(r"(?i)\(?([A-Z](?:(?:, ?| )?[A-Z])*)\)?\.?")
"""Letters alone, as `B`, `(b).`, `A, C`, `A C` or `AC`."""


class InspectTask:
    """The samples and the scorers of one task."""

    def __init__(self, reference: str) -> None:
        """Load the task at `FILE.py:function` or `module:function`."""
        loaded = _find(reference)
        self._task: Task = loaded() if callable(loaded) else loaded
        if not isinstance(self._task, Task):
            kind = type(self._task).__name__
            raise TypeError(f"expected a function that returns an inspect_ai Task at {reference}, got {kind}")
        self._samples = list(self._task.dataset)
        self._scorers = list(self._task.scorer or [])
        self._names = [_name(scorer) for scorer in self._scorers]
        self._refuse_unplayable(reference)

    def reset(self) -> None:
        """Do nothing between two sessions: an answer leaves nothing behind."""

    def list_tasks(self) -> list[dict[str, Any]]:
        """Return each sample: id, messages of the prompt, choices, and an answer that is right, if known."""
        return [
            {
                "id": str(index + 1 if sample.id is None else sample.id),
                "messages": _messages(sample.input),
                "choices": list(sample.choices or []),
                "answer": self._gold(sample),
            }
            for index, sample in enumerate(self._samples)
        ]

    async def score(self, index: int, answer: str) -> dict[str, Any]:
        """Return the figures of all scorers by name, and the first one's explanation; `None` for unscored."""
        sample = self._samples[index]
        figures: dict[str, float | None] = {}
        explanation = ""
        for name, scorer in zip(self._names, self._scorers, strict=True):
            score = await scorer(_state(sample, answer), Target(sample.target))
            # Inspect keeps several scorers' values under their names; the first of a name counts.
            figures.setdefault(name, None if score is None else _number(score.value, name))
            explanation = explanation or str((score and score.explanation) or "")
        return {"figures": figures, "explanation": explanation[:2000]}

    def _gold(self, sample: Any) -> str | None:
        targets = [sample.target] if isinstance(sample.target, str) else list(sample.target)
        if self._names[0] not in GOLD_SCORERS or not targets or not targets[0]:
            return None
        return "ANSWER: " + ", ".join(targets) if self._names[0] == "choice" else targets[0]

    def _refuse_unplayable(self, reference: str) -> None:
        needs = [
            *(["a sandbox"] if self._task.sandbox is not None else []),
            *(["a setup"] if self._task.setup is not None else []),
            *(
                ["files or a sandbox of a sample"]
                if any(s.sandbox or s.files or s.setup for s in self._samples)
                else []
            ),
        ]
        if needs:
            raise ValueError(f"expected a task without a sandbox at {reference}; it needs {', '.join(needs)}")
        if not self._samples or not self._scorers:
            missing = "samples" if not self._samples else "a scorer"
            raise ValueError(
                f"expected a task with a data set and a scorer at {reference}; it has no {missing}"
            )


def _find(reference: str) -> Any:
    location, _, name = reference.rpartition(":")
    if not location or not name:
        raise ValueError(f"expected FILE.py:TASK or MODULE:TASK, got {reference!r}")
    module = _load(Path(location)) if location.endswith(".py") else importlib.import_module(location)
    if not hasattr(module, name):
        raise AttributeError(f"expected a task named {name!r} in {location}, which does not define it")
    return getattr(module, name)


def _load(file: Path) -> Any:
    if not file.is_file():
        raise FileNotFoundError(f"expected a Python file at {file}, which does not exist")
    # A task's file may import its neighbours.
    sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"expected a Python file at {file}")
    module = sys.modules[file.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _name(scorer: Any) -> str:
    return str(registry_log_name(registry_info(scorer).name).rpartition("/")[2])


def _messages(prompt: Any) -> list[dict[str, str]]:
    if isinstance(prompt, str):
        return [{"role": "user", "text": prompt}]
    return [
        {"role": message.role if message.role in {"system", "assistant"} else "user", "text": message.text}
        for message in prompt
    ]


def _state(sample: Any, answer: str) -> TaskState:
    name = ModelName("ors/agent")
    # Models write letters in several ways; the scorer expects "ANSWER: B".
    letters = _LETTERS.fullmatch(answer.strip()) if sample.choices else None
    text = f"ANSWER: {letters[1]}" if letters else answer
    state = TaskState(
        model=name,
        sample_id=sample.id or 0,
        epoch=1,
        input=sample.input,
        messages=[],
        target=Target(sample.target),
        choices=sample.choices,
        output=ModelOutput.from_content(str(name), text),
        metadata=dict(sample.metadata or {}),
    )
    if sample.choices:
        _mark_choices(state)
    return state


def _mark_choices(state: TaskState) -> None:
    """Mark the chosen letters as the solver `multiple_choice` does."""
    from inspect_ai.solver._multiple_choice import parse_answers  # noqa: PLC0415  (only for choices)

    many = (
        len(
            [
                letter
                for target in state.target
                for letter in re.split(r"[,\s]+|(?<=[A-Za-z])(?=[A-Za-z])", target)
            ]
        )
        > 1
    )
    chosen = parse_answers(state, many)
    for index in range(len(state.choices)):
        state.choices.mark_choice(index, chr(ord("A") + index) in chosen)


def _number(value: Any, scorer: str) -> float | None:
    """Return a score's value as a float; `None` for an unscored sample, which Inspect marks with NaN."""
    if isinstance(value, bool | int | float):
        return None if math.isnan(value) else float(value)
    if isinstance(value, str):
        figure = _VALUES.get(value, _VALUES.get(value.lower()))
        if figure is not None:
            return figure
        try:
            return float(value)
        except ValueError:
            pass
    raise TypeError(
        f"expected a number, a word such as C or I, or a truth value from {scorer}, got {value!r:.80}"
    )
