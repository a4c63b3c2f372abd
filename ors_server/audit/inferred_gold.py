"""Finds the right answers where a class has no gold actions: a field of the task, given to a tool.

Most published tasks carry their answer, as `answer` or `ground_truth`. A field is considered the answer only
if it earns much on nearly all tasks, and the same field of another task earns clearly less.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ors_server.audit.answer_slot import AnswerSlot, Path, leaves, value_at
from ors_server.audit.audit_context import AuditContext, AuditedTask
from ors_server.audit.judgement import ASSUMED_MAX_RETURN, TOLERANCE, mean
from ors_server.audit.plays import Call, PlayResult
from ors_server.model.wire import ToolSpec
from ors_server.testing.environment_subject import spread

ANSWER_NAMES = frozenset(
    {
        "answer",
        "answers",
        "gold",
        "solution",
        "target",
        "expected",
        "label",
        "ground_truth",
        "truth",
        "reference",
    }
)
"""Names of task fields that usually hold the answer."""
WRAPPINGS = (
    ("", ""),
    ("<answer>", "</answer>"),
    ("\\boxed{", "}"),
    ('{"answer": "', '"}'),
    ('{"reasoning": "", "answer": "', '"}'),
    ("#### ", ""),
)
"""What is before and after answers, the simplest first."""
MAX_FIELDS = 5
MAX_TOOLS = 3
TRIED_TASKS = 6
MIN_PAID_SHARE = 0.8
"""Share of the tasks on which a field must earn at least half of what it earns at best."""
MIN_GAIN = 0.25
"""Minimum advantage over another task's field, as a share of the declared maximum, where its name says so."""
MIN_UNNAMED_GAIN = 0.9
"""The same where only the rewards say that a field is the answer."""


@dataclass(frozen=True, slots=True)
class AnswerField:
    """A field of the tasks, and where it is given as the answer."""

    path: Path
    slot: AnswerSlot

    def calls(self, task: AuditedTask) -> tuple[Call, ...] | None:
        """Return the call that gives a task's field as the answer; `None` if the argument cannot hold it."""
        try:
            value = value_at(task.spec, self.path)
        except (KeyError, IndexError, TypeError):
            return None
        answer = self.slot.as_value(self.slot.wrapped(str(value)))
        return None if answer is None else ((self.slot.tool, {str(self.slot.path[0]): answer}),)

    def __str__(self) -> str:
        """Return the field as a reader of the report knows it."""
        return ".".join(map(str, self.path))


async def infer_gold(context: AuditContext, answering: Sequence[ToolSpec]) -> AnswerField | None:
    """Find the field that holds the answer, by playing it.

    Args:
        answering: The tools that may take answers, the likeliest first.
    """
    tasks = [context.tasks[at] for at in spread(len(context.tasks), 2 if context.is_costly else TRIED_TASKS)]
    best: AnswerField | None = None
    gained = 0.0
    for field in _fields(context, answering):
        gain = await _gain(context, field, tasks)
        if gain > gained + TOLERANCE:
            best, gained = field, gain
        # A sure field ends the search: each field costs a dozen plays.
        if gained >= MIN_UNNAMED_GAIN:
            break
    return best


def with_gold(tasks: Sequence[AuditedTask], field: AnswerField) -> list[AuditedTask]:
    """Return tasks with the call that gives their field as the answer."""
    return [replace(task, gold=field.calls(task)) for task in tasks]


def _fields(context: AuditContext, answering: Sequence[ToolSpec]) -> Iterator[AnswerField]:
    """Give the fields that might be the answer, those whose names say so first."""
    # Only what all tasks have and what differs between them can be the answer.
    rows = [dict(leaves(task.spec)) for task in context.tasks]
    common = [path for path in rows[0] if path and all(path in row for row in rows)]
    varying = [path for path in common if len({str(row[path]) for row in rows}) > 1]
    ranked = sorted(varying, key=lambda path: not _is_named(path))
    paths = [path for path in ranked if path != ("id",)][:MAX_FIELDS]
    for tool in answering[:MAX_TOOLS]:
        schema: Mapping[str, Any] = tool.input_schema or {}
        required: Sequence[str] = schema.get("required", ())
        part: Mapping[str, Any] = schema.get("properties", {}).get(required[0], {}) if required else {}
        kind = part.get("type")
        if len(required) != 1 or kind not in {"string", "integer", "number"}:
            continue
        choices: tuple[Any, ...] = tuple(part.get("enum", ()))
        is_free = kind == "string" and not choices
        for path in paths:
            # Each play may start a sandbox, so only fields with a telling name are tried.
            if context.is_costly and not _is_named(path):
                continue
            for before, after in WRAPPINGS if is_free else WRAPPINGS[:1]:
                slot = AnswerSlot(tool.name, (required[0],), before, after, kind == "string", choices)
                yield AnswerField(path, slot)


def _is_named(path: Path) -> bool:
    """Return whether a field's name says that it is the answer."""
    return any(str(key).casefold() in ANSWER_NAMES for key in path)


async def _gain(context: AuditContext, field: AnswerField, tasks: Sequence[AuditedTask]) -> float:
    """Return how much more a field earns than another task's; 0 if that does not prove it the answer."""
    pairs: list[tuple[AuditedTask, tuple[Call, ...], tuple[Call, ...]]] = []
    for task in tasks:
        own = field.calls(task)
        candidates = (
            field.calls(context.tasks[(task.index + step) % len(context.tasks)]) for step in (1, 2, 3, 5, 7)
        )
        # Another task's field may be the same answer by accident; the nearest task with a different one is
        # taken.
        other = next((calls for calls in candidates if calls is not None and calls != own), None)
        if own is not None and other is not None:
            pairs.append((task, own, other))
    if not pairs:
        return 0.0
    # The wrong answers come first: a flawed environment might remember the right ones.
    wrong = await context.player.play([task.play(calls, seed=context.seed) for task, _, calls in pairs])
    right = await context.player.play([task.play(calls, seed=context.seed) for task, calls, _ in pairs])
    best = max(played.total for played in right)
    if mean([float(_is_paid(played, best)) for played in right]) < MIN_PAID_SHARE:
        return 0.0
    declared = context.facts.return_range or context.facts.reward_range
    full = declared[1] if declared is not None and declared[1] > 0 else max(best, ASSUMED_MAX_RETURN)
    gain = (mean([played.total for played in right]) - mean([played.total for played in wrong])) / full
    return gain if gain >= (MIN_GAIN if _is_named(field.path) else MIN_UNNAMED_GAIN) else 0.0


def _is_paid(played: PlayResult, best: float) -> bool:
    return played.is_answered and played.total >= best / 2
