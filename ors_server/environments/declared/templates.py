"""Reads values of a row: by a field's name, by a path, or by a Jinja template in its sandbox.

Jinja's sandbox keeps a template from reaching the interpreter, and bounds nothing. Data may be hostile, and a
template is run for every row, so here every operation whose result can be much larger than its operands is
checked before it is carried out: products, powers, padding, formats, replacements, joins, ranges, and the
rendered text as a whole.
"""

import hashlib
import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from contextlib import closing
from functools import cache, lru_cache, partial, wraps
from pathlib import Path
from types import GeneratorType
from typing import Any, Protocol, cast

from typing_extensions import override

from ors_server.environments.declared.row_faults import RowFaultError, show_names, show_value
from ors_server.model.errors import DeclarationError
from ors_server.model.wire import JSONObject

WHOLE_ROW = "row"
"""The name under which a template finds the whole row, for fields whose names are not identifiers."""
MAX_MADE = 1_000_000
"""Characters of a text, or items of a list, that an operation of a template may make by multiplying."""
MAX_BITS = 4_096
"""Bits of an integer that a template computes."""
MAX_TEXT = 16 * 2**20
"""Characters of a rendered template."""
MAX_ITERATIONS = 100_000
"""Numbers of all ranges of one rendering."""
_PADDING = frozenset({"center", "expandtabs", "ljust", "rjust", "zfill"})
_PADDING_FILTERS = ("batch", "center", "indent", "slice", "tojson", "truncate", "wordwrap")
_LONG_NUMBER = re.compile(r"[0-9]{7,}")
_UNDEFINED = re.compile(r"'([^']+)' is undefined")
_TEMPLATE = re.compile(r"\{\{|\{%|\{#")


class ValueSource(Protocol):
    """Finds a value of a row."""

    names: frozenset[str] | None
    """Fields of the row that it reads; `None` if it may read any."""

    def value(self, row: JSONObject) -> Any:
        """Return the value; raises `RowFaultError` if the row lacks it."""
        ...


def parse_source(text: str, key: str, folder: str = ".") -> ValueSource:
    """Read a field's name, a path or a template.

    Args:
        key: The key of the declaration, for messages.
        folder: The folder of the files that a template may read, such as a database.

    Raises:
        DeclarationError: If the template's syntax is wrong.
    """
    return _Template(text, key, folder) if _TEMPLATE.search(text) else _Field(text, key)


def as_text(value: object, key: str) -> str:
    """Return a text, a number or a truth value as text; raise `RowFaultError` for anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    raise RowFaultError(key, "text or a number", show_value(value))


class _Field:
    def __init__(self, path: str, key: str) -> None:
        self._path, self._key = path, key
        self.names: frozenset[str] | None = frozenset({path, path.partition(".")[0]})

    def value(self, row: JSONObject) -> Any:
        if self._path in row:
            return row[self._path]
        value: Any = row
        for part in self._path.split("."):
            value = _step(value, part, self._path, row)
        return value

    @override
    def __repr__(self) -> str:
        return f"{self._key}={self._path!r}"


def _step(value: Any, part: str, path: str, row: JSONObject) -> Any:
    if isinstance(value, Mapping) and part in value:
        return cast("Mapping[str, Any]", value)[part]
    if isinstance(value, list) and part.isdigit() and int(part) < len(cast("Sequence[Any]", value)):
        return cast("Sequence[Any]", value)[int(part)]
    raise RowFaultError(path, "a value", f"no such field; the row has {show_names(path, row)}", absent=True)


class _Template:
    def __init__(self, text: str, key: str, folder: str) -> None:
        from jinja2 import TemplateError, meta, nodes  # noqa: PLC0415  (only declared environments need it)

        self._key = key
        environment = _environment(folder)
        try:
            tree = environment.parse(text)
            self._expression = _single_expression(tree, text, nodes)
            self._template = environment.from_string(text)
            self._compiled: Callable[..., Any] | None = None
            # Compiled as an expression, it keeps the type of its value; a rendered template is always text.
            if self._expression is not None:
                self._compiled = environment.compile_expression(self._expression, undefined_to_none=False)
        except TemplateError as error:
            line = getattr(error, "lineno", None) or 1
            raise DeclarationError(
                f"{key}: line {line} of the template: expected a Jinja template, and {error}"
            ) from error
        # Known in advance, a task needs to keep only the fields that something reads.
        names = meta.find_undeclared_variables(tree) - set(environment.globals)
        constant = _row_keys(tree, nodes) if WHOLE_ROW in names else set[str]()
        self.names: frozenset[str] | None = (
            None if constant is None else frozenset((names - {WHOLE_ROW}) | constant)
        )

    def value(self, row: JSONObject) -> Any:
        from jinja2 import TemplateError, Undefined, UndefinedError  # noqa: PLC0415  (as above)

        names = {"range": _Ranges().range, **row, WHOLE_ROW: row}
        try:
            value = self._render(names) if self._compiled is None else self._compiled(names)
            if isinstance(value, Undefined):
                value = str(value)  # which raises, and names the field
        except UndefinedError as error:
            absent = _UNDEFINED.match(str(error))
            if absent is None:
                raise RowFaultError(self._key, "a row that the template can read", str(error)) from error
            actual = f"no such field; the row has {show_names(absent[1], row)}"
            raise RowFaultError(absent[1], "a value", actual, absent=True) from error
        except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
            text = f"{type(error).__name__}: {error}"
            raise RowFaultError(self._key, "a row that the template can read", text) from error
        return list(cast("Iterable[Any]", value)) if isinstance(value, GeneratorType) else value

    def _render(self, names: JSONObject) -> str:
        pieces: list[str] = []
        length = 0
        # Piece by piece, so that a loop is stopped at the limit and not after it.
        for piece in self._template.generate(names):
            pieces.append(piece)
            length += len(piece)
            if length > MAX_TEXT:
                raise ValueError(f"the template makes more than {MAX_TEXT:,} characters of this row")
        return "".join(pieces)


def _single_expression(tree: Any, text: str, nodes: Any) -> str | None:
    """Return the expression of a template that is one expression and nothing else."""
    if len(tree.body) != 1 or not isinstance(tree.body[0], nodes.Output):
        return None
    parts = [
        node
        for node in tree.body[0].nodes
        if not (isinstance(node, nodes.TemplateData) and not node.data.strip())
    ]
    stripped = text.strip()
    if len(parts) != 1 or isinstance(parts[0], nodes.TemplateData) or not stripped.startswith("{{"):
        return None
    return stripped.removeprefix("{{").removesuffix("}}").strip("-+ \n\t")


def _row_keys(tree: Any, nodes: Any) -> set[str] | None:
    """Return the constant keys with which a template reads `row`; `None` if it reads it otherwise."""
    keys: set[str] = set()
    uses = sum(node.name == WHOLE_ROW for node in tree.find_all(nodes.Name))
    for node in tree.find_all((nodes.Getitem, nodes.Getattr)):
        if isinstance(node.node, nodes.Name) and node.node.name == WHOLE_ROW:
            key = node.attr if isinstance(node, nodes.Getattr) else getattr(node.arg, "value", None)
            if isinstance(key, str):
                keys.add(key)
                uses -= 1
    return None if uses else keys


class _Ranges:
    """The `range` of one rendering, whose loops take a bounded number of turns together."""

    def __init__(self) -> None:
        self._left = MAX_ITERATIONS

    def range(self, *limits: int) -> range:
        numbers = range(*limits)
        # `len` of a range of any size is cheap; its numbers are never made.
        self._left -= min(len(numbers), MAX_ITERATIONS + 1)
        if self._left < 0:
            raise ValueError(f"the template's ranges have more than {MAX_ITERATIONS:,} numbers for this row")
        return numbers


@cache
def _bounded_environment_class() -> Any:
    from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: PLC0415  (as above)

    class BoundedEnvironment(ImmutableSandboxedEnvironment):
        """A sandbox in which a number of a row cannot multiply what a template makes."""

        intercepted_binops = frozenset({"*", "**", "%"})

        @override
        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            _refuse_if_large(operator, left, right)
            return super().call_binop(context, operator, left, right)

        @override
        def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
            method = getattr(obj, "__wrapped__", obj)  # the sandbox wraps `str.format`
            text = getattr(method, "__self__", None)
            if isinstance(text, str):
                _refuse_if_call_makes_much(method.__name__, text, args, kwargs)
            return super().call(context, obj, *args, **kwargs)

    return BoundedEnvironment


def _refuse_if_call_makes_much(
    method: str, text: str, args: tuple[Any, ...], named: Mapping[str, Any]
) -> None:
    if method in _PADDING:
        _refuse_large_numbers(*args, **named)
    elif method in {"format", "format_map"}:
        _refuse_wide_format(text, (*args, *named.values()), has_computed_width="}}" in text)
    elif method == "replace":
        _refuse_large_replacement(text, *args)
    elif method == "join" and args:
        _refuse_large_join(args[0], text)


def _refuse_wide_format(text: str, values: Iterable[Any], *, has_computed_width: bool) -> None:
    """Refuse a format with a wide field: `%9999999d`, or `{:>{}}` and `%*d`, whose width is a value."""
    if has_computed_width:
        _refuse_large_numbers(*values)
    _refuse_large_numbers(*map(int, _LONG_NUMBER.findall(text)))


def _refuse_large_join(items: Any, separator: str = "", attribute: object = None) -> None:
    del attribute
    if isinstance(items, Sized) and len(items) * len(separator) > MAX_TEXT:
        raise ValueError(f"the template makes more than {MAX_TEXT:,} characters of this row")


def _refuse_if_large(operator: str, left: Any, right: Any) -> None:
    if operator == "%":
        if isinstance(left, str):
            values = cast("Iterable[Any]", right) if isinstance(right, tuple) else (right,)
            _refuse_wide_format(left, values, has_computed_width="*" in left)
        return
    size = max(_size_of_product(left, right), _size_of_product(right, left)) if operator == "*" else 0
    if isinstance(left, int) and isinstance(right, int):
        # An upper bound that is computed without the number itself.
        bits = left.bit_length() * right if operator == "**" else left.bit_length() + right.bit_length()
        if bits > MAX_BITS:
            raise ValueError(f"the template computes an integer of more than {MAX_BITS} bits of this row")
    if size > MAX_MADE:
        raise ValueError(f"the template makes more than {MAX_MADE:,} characters or items of this row")


def _size_of_product(sequence: Any, count: Any) -> int:
    if isinstance(sequence, str | list | tuple) and isinstance(count, int):
        return len(cast("Sequence[Any]", sequence)) * count
    return 0


def _refuse_large_numbers(*values: Any, **named: Any) -> None:
    for value in (*values, *named.values()):
        if isinstance(value, int | float) and value > MAX_MADE:
            raise ValueError(f"the template pads to more than {MAX_MADE:,} characters or items")


def _refuse_large_replacement(text: str, old: Any = "", new: Any = "", *_count: Any) -> None:
    if isinstance(old, str) and isinstance(new, str) and len(new) > len(old):
        occurrences = text.count(old)
        if len(text) + occurrences * len(new) > MAX_TEXT:
            raise ValueError(f"the template makes more than {MAX_TEXT:,} characters of this row")


def _check_format(text: str, *args: Any, **named: Any) -> None:
    _refuse_wide_format(text, (*args, *named.values()), has_computed_width="*" in text)


def _check_join(_context: Any, items: Any, d: str = "", attribute: Any = None) -> None:
    _refuse_large_join(items, d, attribute)


def _check_replace(_context: Any, text: str, *args: Any, **_named: Any) -> None:
    _refuse_large_replacement(text, *args)


_CHECKED_FILTERS: Mapping[str, Callable[..., None]] = {
    "format": _check_format,
    "join": _check_join,
    "replace": _check_replace,
}
"""Checks before a call of one of Jinja's filters, with the same arguments."""


def _checked_first(filter_function: Callable[..., Any], check: Callable[..., None]) -> Callable[..., Any]:
    @wraps(filter_function)
    def apply(*args: Any, **kwargs: Any) -> Any:
        check(*args, **kwargs)
        return filter_function(*args, **kwargs)

    return apply


@cache
def _environment(folder: str) -> Any:
    from jinja2 import StrictUndefined  # noqa: PLC0415  (as above)

    # Strict: a misspelt field is an error and not an empty text.
    environment = _bounded_environment_class()(
        undefined=StrictUndefined, keep_trailing_newline=False, trim_blocks=True, lstrip_blocks=True
    )
    filters: dict[str, Any] = {
        "boxed": last_box,
        "from_json": json.loads,
        "json": _as_json,
        "letter": choice_letter,
        "shuffled": shuffle_by,
    }
    environment.filters.update(filters)
    for name in _PADDING_FILTERS:
        environment.filters[name] = _checked_first(environment.filters[name], _refuse_large_numbers)
    for name, check in _CHECKED_FILTERS.items():
        environment.filters[name] = _checked_first(environment.filters[name], check)
    del environment.globals["lipsum"]  # random, and as long as a row wants
    environment.globals["sqlite_schema"] = partial(read_sqlite_schema, folder)
    return environment


@lru_cache(maxsize=256)
def read_sqlite_schema(folder: str, database: str) -> str:
    """Return the statements that make the tables of a SQLite database below a folder."""
    root = Path(folder).resolve()
    path = (root / database).resolve()
    if not path.is_relative_to(root) or not path.is_file():
        raise RowFaultError("database", f"a database below {root}", show_value(database))
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            rows = connection.execute(
                "SELECT sql FROM sqlite_master WHERE type = 'table' AND sql IS NOT NULL"
            )
            return "\n\n".join(f"{sql};" for (sql,) in rows)
    except sqlite3.Error as error:
        raise RowFaultError("database", "a SQLite database", f"{show_value(database)} ({error})") from error


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def last_box(text: str) -> str:
    r"""Return the content of the last `\boxed{...}` of a text, or the whole text without one."""
    start = max(text.rfind("\\boxed{"), text.rfind("\\fbox{"))
    if start < 0:
        return text
    start = text.index("{", start) + 1
    depth = 1
    for at in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[start:at]
    raise ValueError("a \\boxed{ that is not closed")


def choice_letter(number: int) -> str:
    """Return the letter of a choice: A for 0."""
    if not 0 <= int(number) < 26:  # noqa: PLR2004  (letters)
        raise ValueError(f"a choice's number must be from 0 to 25, got {number!r}")
    return chr(ord("A") + int(number))


def shuffle_by(items: Sequence[Any], seed: object) -> list[Any]:
    """Return items in an order that only the seed and the items decide, on every machine."""

    # By hashes, not by `random`, whose sequences may change with Python's version.
    def rank(item: object) -> bytes:
        text = json.dumps([seed, item], ensure_ascii=False, sort_keys=True)
        return hashlib.sha256(text.encode(errors="replace")).digest()

    return sorted(items, key=rank)
