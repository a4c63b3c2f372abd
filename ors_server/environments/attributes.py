"""Checks the attributes and methods of a class when it is loaded, so that no mistake waits for an episode."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from types import FunctionType
from typing import Any, TypeGuard, cast

from ors_server.environments.environment import Environment
from ors_server.environments.marked_members import read_mark
from ors_server.environments.source_places import name_with_location
from ors_server.environments.tool import MARK, ToolMarks, Toolset
from ors_server.environments.toolsets.milestones import Milestone
from ors_server.model.errors import EnvironmentDefinitionError
from ors_server.model.policy import EpisodePolicy
from ors_server.model.visibility import Visibility
from ors_server.sandboxes.base import Limits
from ors_server.sandboxes.egress import states_network

_SIMILAR_SHARE = 0.82
"""Share of common letters from which a name counts as a misspelt known one."""


def check_attributes(cls: type[Environment]) -> None:
    """Raise `EnvironmentDefinitionError` for an attribute or method of a wrong type, form or spelling."""
    where = name_with_location(cls.__name__, cls)
    for name, (accepts, expected) in _ATTRIBUTES.items():
        value: object = inspect.getattr_static(cls, name)
        if not accepts(value):
            raise EnvironmentDefinitionError(f"{where}: {name} must be {expected}, got {_show(value)}")
    for name, parameters in _CLASS_METHODS.items():
        _check_method(cls, name, parameters, is_of_class=True)
    for name, parameters in _METHODS.items():
        _check_method(cls, name, parameters, is_of_class=False)
    _check_spelling(cls, where)


def _is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _is_mapping(value: object) -> TypeGuard[Mapping[object, object]]:
    return isinstance(value, Mapping)


def _is_toolset(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, type) and issubclass(value, Toolset))


def _is_range(value: object) -> bool:
    if value is None:
        return True
    numbers = [item for item in value if isinstance(item, int | float)] if _is_sequence(value) else []
    return len(numbers) == 2 and _is_sequence(value) and len(value) == 2 and numbers[0] <= numbers[1]  # noqa: PLR2004  (low, high)


_ATTRIBUTES: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "name": (lambda value: isinstance(value, str), "text"),
    "version": (lambda value: isinstance(value, str), 'text, such as version = "1"'),
    "policy": (
        lambda value: isinstance(value, EpisodePolicy),
        "an EpisodePolicy, such as policy = EpisodePolicy(step_limit=10)",
    ),
    "visibility": (
        lambda value: value is None or (isinstance(value, str) and value in set(Visibility)),
        f"one of {', '.join(repr(item.value) for item in Visibility)}, or None",
    ),
    "toolsets": (
        lambda value: _is_sequence(value) and all(map(_is_toolset, value)),
        'a list of names and Toolset classes, such as toolsets = ["bash"]',
    ),
    "session_toolsets": (
        lambda value: (
            _is_mapping(value)
            and all(isinstance(key, str) and _is_toolset(item) for key, item in value.items())
        ),
        "a dict of names and Toolset classes by name",
    ),
    "sandbox_limits": (
        lambda value: value is None or isinstance(value, Limits),
        "SandboxLimits, such as sandbox_limits = SandboxLimits(), or None",
    ),
    "sandbox_image": (
        lambda value: value is None or (isinstance(value, str) and bool(value)),
        "the name of an image in the cache, or None",
    ),
    "sandbox_network": (states_network, "'none', 'loopback', or a list of hosts such as ['pypi.org']"),
    "milestones": (
        lambda value: _is_sequence(value) and all(isinstance(item, Milestone) for item in value),
        "a list of Milestone objects, such as milestones = [Milestone('built', 0.5, FileExists('a.out'))]",
    ),
    "recoverable": (lambda value: isinstance(value, bool), "True or False"),
    "return_range": (_is_range, "(low, high), two numbers in order, or None"),
}
"""Attribute to a check of its value, and what is expected."""

_CLASS_METHODS = {
    "list_splits": (),
    "list_tasks": ("split",),
    "num_tasks": ("split",),
    "get_task": ("split", "index"),
    "get_task_range": ("split", "start", "stop"),
    "gold_actions": ("task_spec",),
    "blank_actions": ("task_spec",),
}
_METHODS = {
    "__init__": ("task_spec", "secrets"),
    "request_sandbox": ("limits",),
    "setup": (),
    "teardown": (),
    "get_prompt": (),
    "get_messages": (),
    "save_state": (),
    "load_state": ("state",),
    "grade_submission": ("submission",),
    "list_task_tools": (),
    "score_group": ("candidates",),
}


def _check_method(cls: type, name: str, parameters: tuple[str, ...], *, is_of_class: bool) -> None:
    raw: Any = inspect.getattr_static(cls, name, None)
    if raw is None or raw is inspect.getattr_static(Environment, name, None):
        return
    where = name_with_location(f"{cls.__name__}.{name}", raw)
    is_function = isinstance(cast("object", raw), FunctionType)
    if not (callable(raw) or isinstance(raw, classmethod)):
        location = name_with_location(f"{cls.__name__}.{name}", cls)
        raise EnvironmentDefinitionError(f"{location} must be a method, got {_show(raw)}")
    if is_of_class and is_function:
        needed = ", ".join(("cls", *parameters))
        msg = f"{where} needs @classmethod above it: def {name}({needed}) is called without an instance"
        raise EnvironmentDefinitionError(msg)
    arguments = parameters if isinstance(raw, classmethod | staticmethod) else ("self", *parameters)
    function: Any = getattr(cls, name)
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        own = "" if isinstance(raw, staticmethod) else "cls" if is_of_class else "self"
        form = ", ".join(filter(None, (own, *parameters)))
        raise EnvironmentDefinitionError(f"{where} must take ({form}): {error}") from error
    except ValueError:  # a callable without a signature
        return


def _check_spelling(cls: type, where: str) -> None:
    known_names = {*_ATTRIBUTES, *_CLASS_METHODS, *_METHODS, "reward", "volatile", "answer_fields"}
    known_names -= {"__init__", "name"}
    for base in cls.__mro__:
        # Names of the package's own base classes cannot be misspelt by an author.
        if base.__module__.startswith("ors_server.") or base is object:
            continue
        for name, value in vars(base).items():
            if name in known_names or name.startswith("_") or read_mark(value, MARK, ToolMarks) is not None:
                continue
            meant = next((other for other in sorted(known_names) if _is_near(name, other)), None)
            if meant is not None and not _defines(cls, meant):
                msg = f"{where}: {name!r} looks like {meant!r} misspelt; correct it, or choose another name"
                raise EnvironmentDefinitionError(msg)


def _defines(cls: type, name: str) -> bool:
    absent = object()
    attribute: object = inspect.getattr_static(cls, name, absent)
    return attribute is not absent and attribute is not inspect.getattr_static(Environment, name, absent)


def _is_near(name: str, known_name: str) -> bool:
    """Whether a name is a known one in other letters or misspelt; its plural is another word."""
    if name in {f"{known_name}s", re.sub("y$", "ies", known_name)}:
        return False
    is_same = name.replace("_", "").lower() == known_name.replace("_", "")
    return is_same or SequenceMatcher(None, name, known_name).ratio() >= _SIMILAR_SHARE


def _show(value: object) -> str:
    if inspect.isclass(value):
        return f"the class {value.__name__}"
    return f"{value!r:.60} ({type(value).__name__})"
