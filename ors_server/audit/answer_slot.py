"""Finds where the answer is in the gold actions: the text or number that differs from task to task."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from ors_server.audit.plays import Call
from ors_server.model.wire import JSONObject

Path: TypeAlias = tuple[str | int, ...]
"""Keys that lead to a value inside a call's arguments."""
_Gold: TypeAlias = Sequence[Call]
_DECIMAL_END = re.compile(r"\d\.$")
_DECIMAL_START = re.compile(r"\.\d")


@dataclass(frozen=True, slots=True)
class AnswerSlot:
    """The place of the answer: an argument of one call, with what is around the answer in every task."""

    tool: str
    path: Path
    before: str
    """What every task's gold text begins with, such as `<answer>`."""
    after: str
    is_text: bool
    """Whether the argument is a text; otherwise it is a number."""
    choices: tuple[Any, ...] = ()
    """The values that the tool's schema allows, if it names them."""
    is_file: bool = False
    """Whether the answer is the content of a file, which a later call hands in."""

    @property
    def has_format(self) -> bool:
        """Whether something is around the answer."""
        return bool(self.before or self.after)

    def find(self, gold: _Gold) -> int | None:
        """Return the position of the call with the answer; `None` if no call has it."""
        # Gold actions may call the tool several times, such as to save a draft: the last call counts.
        for at, (tool, arguments) in reversed(list(enumerate(gold))):
            if tool == self.tool:
                with suppress(KeyError, IndexError, TypeError):
                    value_at(arguments, self.path)
                    return at
        return None

    def core(self, gold: _Gold) -> str | None:
        """Return a task's answer, without what is around it."""
        at = self.find(gold)
        if at is None:
            return None
        text = str(value_at(gold[at][1], self.path))
        if text.startswith(self.before) and text.endswith(self.after):
            return text[len(self.before) : len(text) - len(self.after)]
        return text

    def replaced(self, gold: _Gold, text: str) -> tuple[Call, ...] | None:
        """Return the actions with another text as the whole argument; `None` if it cannot hold the text."""
        at = self.find(gold)
        value = self.as_value(text)
        if at is None or value is None:
            return None
        tool, arguments = gold[at]
        changed = (tool, with_value(arguments, self.path, value))
        return (*gold[:at], changed, *gold[at + 1 :])

    def wrapped(self, core: str) -> str:
        """Return an answer with what is around it in every task."""
        return f"{self.before}{core}{self.after}"

    def as_value(self, text: str) -> Any:
        """Return a text as a value of the argument; `None` if it is not one."""
        if self.choices:
            return next((choice for choice in self.choices if str(choice) == text), None)
        if self.is_text:
            return text
        try:
            return int(text)
        except ValueError:
            try:
                value = float(text)
            except (ValueError, OverflowError):
                return None
        # A choice is compared as text, because an agent's answer is a text: 3 and "3" are the same choice.
        return value if value - value == 0.0 else None  # JSON has no NaN and no infinity


def find_slot(
    golds: Sequence[_Gold], schemas: Mapping[str, JSONObject | None], ignored: frozenset[str]
) -> AnswerSlot | None:
    """Find the slot of tasks' gold actions, in their last call whose arguments vary between tasks.

    Where none varies, it is the last text of a call that is made once.

    Args:
        golds: Each task's.
        schemas: JSON schemas of the tools' arguments, by tool.
        ignored: Tools whose arguments are not answers, such as `bash`.
    """
    # Positions count from the last call, as tasks need different numbers of steps before they answer.
    values: dict[tuple[str, Path], list[Any]] = {}
    order: dict[tuple[str, Path], int] = {}
    for gold in golds:
        seen: dict[tuple[str, Path], Any] = {}
        for at, (tool, arguments) in enumerate(gold):
            for path, value in () if tool in ignored else leaves(arguments):
                seen[tool, path] = value
                order[tool, path] = max(order.get((tool, path), -len(gold)), at - len(gold))
        for slot_key, value in seen.items():
            values.setdefault(slot_key, []).append(value)
    # Half of the tasks are enough: some tasks may be solved by another tool, or without an answer.
    min_count = len(golds) / 2
    common = {slot_key: column for slot_key, column in values.items() if len(column) >= min_count}
    varying = [
        slot_key for slot_key, column in common.items() if len({json.dumps(value) for value in column}) > 1
    ]
    # A text that no task varies is an answer only where it is given once, such as "yes" to every question.
    once = [
        slot_key
        for slot_key, column in common.items()
        if isinstance(column[0], str)
        and all(sum(tool == slot_key[0] for tool, _ in gold) == 1 for gold in golds)
    ]
    candidates = varying or once
    if not candidates:
        return None
    # An answer is usually in the last call, a text rather than a number, and longer than other arguments.
    tool, path = max(
        candidates,
        key=lambda slot_key: (
            order[slot_key],
            isinstance(values[slot_key][0], str),
            _length(values[slot_key]),
        ),
    )
    answers = values[tool, path]
    is_text = all(isinstance(value, str) for value in answers)
    before, after = _surroundings([str(value) for value in answers]) if is_text else ("", "")
    return AnswerSlot(tool, path, before, after, is_text, _choices(schemas.get(tool), path))


def slot_of_schema(tool: str, schema: JSONObject | None) -> AnswerSlot | None:
    """Return the slot of a tool's first required text, where there are no gold actions."""
    properties: Mapping[str, Any] = (schema or {}).get("properties", {})
    for name in (schema or {}).get("required", ()):
        choices = _choices(schema, (name,))
        if choices or properties.get(name, {}).get("type") == "string":
            return AnswerSlot(tool, (name,), "", "", is_text=True, choices=choices)
    return None


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Give every text and number inside a JSON value, with its path."""
    if isinstance(value, Mapping):
        for key, part in cast("Mapping[str, Any]", value).items():
            yield from leaves(part, (*path, key))
    elif isinstance(value, list | tuple):
        for number, part in enumerate(cast("Sequence[Any]", value)):
            yield from leaves(part, (*path, number))
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield path, value


def value_at(value: Any, path: Path) -> Any:
    """Return the value at a path."""
    for key in path:
        value = value[key]
    return value


def with_value(value: Any, path: Path, new: Any) -> Any:
    """Return a copy of a JSON value with another one at a path."""
    if not path:
        return new
    key, rest = path[0], path[1:]
    if isinstance(value, Mapping):
        table = cast("Mapping[str, Any]", value)
        return {**table, str(key): with_value(table[str(key)], rest, new)}
    changed = list(value)
    changed[int(key)] = with_value(changed[int(key)], rest, new)
    return changed


def _length(values: Sequence[Any]) -> int:
    return sum(len(str(value)) for value in values)


def _choices(schema: JSONObject | None, path: Path) -> tuple[Any, ...]:
    node: Mapping[str, Any] = schema or {}
    for key in path:
        node = node.get("properties", {}).get(key, {})
        if "$ref" in node:
            node = (schema or {}).get("$defs", {}).get(str(node["$ref"]).rpartition("/")[2], {})
    return tuple(node.get("enum", ()))


def _surroundings(texts: Sequence[str]) -> tuple[str, str]:
    """Return what all texts begin and end with, cut at the last character that no answer can contain."""
    if len(set(texts)) == 1:
        return "", ""
    # The ends are cut so that no digit or letter of the answers is taken for format: "12" and "13" share
    # a "1" that is not format.
    before = _common_start(texts)
    after = _common_start([text[len(before) :][::-1] for text in texts])[::-1]
    while before and (before[-1].isalnum() or before[-1] in "-+" or _DECIMAL_END.search(before)):
        before = before[:-1]
    while after and (after[0].isalnum() or _DECIMAL_START.match(after)):
        after = after[1:]
    return before, after


def _common_start(texts: Sequence[str]) -> str:
    """Return the longest text with which all begin."""
    low, high = min(texts), max(texts)  # all other texts are between them in order
    for at, sign in enumerate(low):
        if not high.startswith(sign, at):
            return low[:at]
    return low
