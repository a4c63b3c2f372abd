"""Makes tasks of rows, as a declaration says."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast

from ors_server.environments.declared.declaration import ColumnType, Declaration
from ors_server.environments.declared.declared_user import DeclaredUser
from ors_server.environments.declared.images import read_image
from ors_server.environments.declared.row_faults import RowFaultError, show_names, show_value
from ors_server.environments.declared.templates import ValueSource, as_text, parse_source
from ors_server.model.wire import JSONObject

ANSWER = "answer"
ID = "id"
_INTEGER = re.compile(r"[-+]?[0-9]{1,400}")
MAX_GOLDS = 8
"""Answers of one task that the oracle may submit."""
LETTERS = 26
_ASKING_ROLES = frozenset({"system", "developer", "user"})
_WORDS = {"true": True, "false": False}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: Mapping[ColumnType, Callable[[object], bool]] = {
    "text": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "list": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


class TaskMaker:
    """Makes the task of a row, and what an episode needs of a task."""

    def __init__(self, declaration: Declaration, folder: str) -> None:
        """Read every template; `folder` has the files that they may read.

        Raises:
            EnvironmentDefinitionError: If the syntax of one is wrong.
        """
        parse = partial(parse_source, folder=folder)
        self._columns = declaration.columns
        self._fields = {
            name: parse(value, f"fields.{name}") if isinstance(value, str) else value
            for name, value in declaration.fields.items()
        }
        self._answer = None if declaration.answer is None else parse(declaration.answer, ANSWER)
        self._prompt = parse(declaration.prompt or "", "prompt")
        self._images = [parse(text, "images") for text in declaration.images]
        self._gold = None if declaration.gold is None else parse(declaration.gold, "gold")
        self._files = _sources(declaration.files, "files", parse)
        self._gold_files = _sources(declaration.gold_files, "gold_files", parse)
        self.user = None if declaration.user is None else DeclaredUser(declaration.user, parse)
        """The simulated user; `None` without one."""
        self._kept_names = self._find_kept_names(declaration)

    def _find_kept_names(self, declaration: Declaration) -> frozenset[str] | None:
        """Return the fields of a row that its task has; `None` for all."""
        if declaration.metadata is None:
            return None
        read = [self._prompt, *self._images, *self._files.values(), *self._gold_files.values()]
        read += [] if self.user is None else self.user.sources
        names = {*declaration.metadata}
        for source in [*read, *([] if self._gold is None else [self._gold])]:
            if source.names is None:
                return None
            names |= source.names
        return frozenset(names)

    def make(self, row: JSONObject, split: str, number: int) -> JSONObject:
        """Return the task of a row; raise `RowFaultError` if the row is not a valid task."""
        row = self._typed(row)
        fields = {name: _value_of(source, row) for name, source in self._fields.items()}
        if self._answer is not None:
            fields[ANSWER] = self._answer.value({**row, **fields})
            if fields[ANSWER] is None or fields[ANSWER] == "":
                raise RowFaultError(ANSWER, "an answer", show_value(fields[ANSWER]))
        row_fields = (
            row if self._kept_names is None else {name: row[name] for name in row if name in self._kept_names}
        )
        # The row's own `id` replaces the made one.
        return {ID: f"{split}/{number}", **row_fields, **fields}

    def _typed(self, row: JSONObject) -> JSONObject:
        if not self._columns:
            return row
        typed_row = dict(row)
        for name, kind in self._columns.items():
            if name not in row:
                actual = f"no such field; the row has {show_names(name, row)}"
                raise RowFaultError(name, kind, actual, absent=True)
            typed_row[name] = _convert(name, kind, row[name])
        return typed_row

    def check(self, task: JSONObject, folder: str) -> None:
        """Raise `RowFaultError` if something that an episode needs cannot be made of a task."""
        self.prompt(task)
        for image in self.images(task):
            read_image(image, folder, "images")
        self.files(task)
        self.golds(task)
        self.gold_files(task)
        if self.user is not None:
            self.user.script(task)

    def prompt(self, task: JSONObject) -> str:
        """Return the prompt's text."""
        value: Any = self._prompt.value(task)
        turns = _items(value)
        if len(turns) == 1 and _is_chat(turns[0]):
            value = turns[0]  # the only one of a list of turns, as BFCL has it
        text = _chat_text(value) if _is_chat(value) else as_text(value, "prompt")
        if not text.strip():
            raise RowFaultError("prompt", "a prompt that is not empty", show_value(text))
        return text

    def images(self, task: JSONObject) -> list[Any]:
        """Return the fields' values that are images of the prompt."""
        values = [source.value(task) for source in self._images]
        return [item for value in values for item in _items(value)]

    def files(self, task: JSONObject) -> dict[str, str]:
        """Return the files of the work dir at the start: path to content."""
        return {path: as_text(source.value(task), f"files.{path}") for path, source in self._files.items()}

    def gold_files(self, task: JSONObject) -> dict[str, str]:
        """Return the files that the oracle writes."""
        named = self._gold_files.items()
        return {path: as_text(source.value(task), f"gold_files.{path}") for path, source in named}

    def golds(self, task: JSONObject) -> list[str]:
        """Return what the oracle may submit, the likeliest first; empty if the task has no answer.

        Without `gold`: the answers as they are written, then the letter of a choice for its number from 0,
        and yes or no for a truth value.
        """
        if self._gold is not None:
            return [as_text(self._gold.value(task), "gold")]
        answers: list[Any] = _items(task.get(ANSWER))[:MAX_GOLDS]
        plain = [answer for answer in answers if isinstance(answer, str | int | float)]
        written = [as_text(answer, ANSWER) for answer in plain]
        other_forms: list[str] = []  # for which rewards pay, too
        for answer in plain:
            if isinstance(answer, bool):
                other_forms.append("yes" if answer else "no")
            elif isinstance(answer, int) and 0 <= answer < LETTERS:
                other_forms.append(chr(ord("A") + answer))
        return [*written, *other_forms]


def _items(value: Any) -> list[Any]:
    return list(cast("Sequence[Any]", value)) if isinstance(value, list) else [value]


def _is_chat(value: Any) -> bool:
    """Whether a prompt is a list of messages, as trainers have it."""
    messages = _items(value) if isinstance(value, list) else []
    return bool(messages) and all(
        isinstance(part, dict) and {"role", "content"} <= part.keys() for part in messages
    )


def _chat_text(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of messages that no agent wrote."""
    texts: list[str] = []
    for message in messages:
        if message["role"] not in _ASKING_ROLES:
            expected = "messages of the roles system and user, or a template that names one of them"
            raise RowFaultError("prompt", expected, f"a message of the role {show_value(message['role'])}")
        for part in _items(message["content"]):
            text = cast("Mapping[str, Any]", part).get("text") if isinstance(part, dict) else part
            if not isinstance(text, str):
                raise RowFaultError(
                    "prompt", "messages of text; `images` names images", show_value(cast("object", part))
                )
            texts.append(text)
    return "\n\n".join(texts)


def _value_of(source: ValueSource | Any, row: JSONObject) -> Any:
    return source.value(row) if hasattr(source, "names") else source


def _sources(
    texts: Mapping[str, str], key: str, parse: Callable[[str, str], ValueSource]
) -> dict[str, ValueSource]:
    return {path: parse(text, f"{key}.{path}") for path, text in texts.items()}


def _convert(name: str, kind: ColumnType, value: Any) -> Any:
    """Return a value that has a column's type, read from text if it is one."""
    if _TYPES[kind](value):
        return value
    if isinstance(value, str):
        text = value.strip()
        if kind == "boolean" and text.lower() in _WORDS:
            return _WORDS[text.lower()]
        if kind in {"integer", "number"} and _INTEGER.fullmatch(text):
            return int(text)
        if kind == "number":
            with suppress(ValueError):
                number = float(text)
                if abs(number) < float("inf"):
                    return number
    raise RowFaultError(name, kind, show_value(value))
