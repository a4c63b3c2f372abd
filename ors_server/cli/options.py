"""Commands whose options are the fields of a dataclass, so that a command has one parameter."""

import inspect
import typing
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar

_Options = TypeVar("_Options")


def from_fields(command: Callable[[_Options], None]) -> Callable[..., None]:
    """Make a command for typer of a function that takes one dataclass.

    Args:
        command: The function; its one parameter is annotated with a dataclass whose fields are annotated as
            typer wants parameters.

    Returns:
        A function with one keyword parameter per field.
    """
    (options,) = (hint for name, hint in typing.get_type_hints(command).items() if name != "return")
    hints = typing.get_type_hints(options, include_extras=True)

    def run(**values: Any) -> None:
        command(options(**values))

    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_default(field),
            annotation=hints[field.name],
        )
        for field in fields(options)
    ]
    run.__doc__ = command.__doc__
    run.__annotations__ = hints
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _default(field: Field[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    return inspect.Parameter.empty if field.default_factory is MISSING else field.default_factory()
