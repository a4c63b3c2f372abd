"""Places in an author's code, as `file.py:12`: of a function or class, or of an error."""

import inspect
import sysconfig
import traceback
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Any, cast

_OURS = str(Path(__file__).parents[1])
_STANDARD = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
_INSTALLED = ("site-packages", "dist-packages")
_BETWEEN = frozenset({"anyio", "pydantic"})
"""Packages whose frames may be between the server's and the author's."""


def location_of(member: Any) -> str:
    """Return where a function or class is defined; empty if that is not known."""
    member = getattr(member, "__func__", member)
    try:
        if inspect.isclass(member):
            return f"{_shorten(inspect.getfile(member))}:{_line_of_class(cast('Any', member))}"
        code = inspect.unwrap(member).__code__
    except (AttributeError, OSError, TypeError, ValueError):
        return ""
    return f"{_shorten(code.co_filename)}:{code.co_firstlineno}"


@lru_cache(maxsize=256)
def _line_of_class(cls: Any) -> int:
    """Return the line where a class begins; finding it parses the whole file."""
    return inspect.findsource(cls)[1] + 1


def name_with_location(name: str, member: Any) -> str:
    """Return a name with its place, for instance `Quiz.guess (quiz.py:12)`."""
    location = location_of(member)
    return f"{name} ({location})" if location else name


def location_of_error(error: BaseException) -> str:
    """Return the innermost line of the author's code in an error's traceback; empty without one."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_shorten(error.filename)}:{error.lineno}"
    frames = list(traceback.walk_tb(error.__traceback__))
    root = next((_root(frame) for frame, _ in frames if _is_authors(frame)), None)
    if root is None:
        return ""
    inside = [(frame, line) for frame, line in frames if _is_inside(frame.f_code.co_filename, root)]
    frame, line = inside[-1]
    return f"{_shorten(frame.f_code.co_filename)}:{line}"


def _is_authors(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    if file.startswith("<") or _is_inside(file, _OURS):
        return False
    if any(part in Path(file).parts for part in _INSTALLED):
        return str(frame.f_globals.get("__name__", "")).partition(".")[0] not in _BETWEEN
    return not any(_is_inside(file, folder) for folder in _STANDARD)


def _root(frame: FrameType) -> str:
    """Return the folder of the author's file, or of its outermost package."""
    folder = Path(frame.f_code.co_filename).parent
    depth = str(frame.f_globals.get("__package__") or "").count(".")
    return str(folder.parents[depth - 1] if 0 < depth <= len(folder.parents) else folder)


def _is_inside(file: str, folder: str) -> bool:
    rest = file.removeprefix(folder)
    return rest != file and rest[:1] in {"/", "\\"} and not any(part in rest for part in _INSTALLED)


def _shorten(file: str) -> str:
    path = Path(file)
    for part in _INSTALLED:
        if part in path.parts:
            return str(Path(*path.parts[path.parts.index(part) + 1 :]))
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)
