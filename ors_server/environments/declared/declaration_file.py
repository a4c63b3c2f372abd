"""Reads a declaration from `environment.toml`, a recipe or options; errors name the file, line and key."""

import difflib
import tomllib
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import ValidationError

from ors_server.environments.declared.declaration import Declaration
from ors_server.model.errors import DeclarationError, SettingsError
from ors_server.model.settings_sources import TomlFile

FILE = "environment.toml"
"""The file in a folder that declares an environment."""
RECIPES = files("ors_server.environments.declared") / "recipes"
_MAX_SHOWN_CHARACTERS = 80
"""Characters of a wrong value that an error repeats."""

Place: TypeAlias = Callable[[str], str]
"""Returns where a top-level key is, for messages."""


def read_declaration(path: Path) -> Declaration:
    """Read a declaration.

    Raises:
        DeclarationError: If it is not TOML, a key is unknown, or a value does not fit.
    """
    try:
        file = TomlFile.read(path)
    except SettingsError as error:
        raise DeclarationError(str(error)) from error
    return make_declaration(file.values, lambda key: file.place(key) if key in file.values else str(path))


def make_declaration(values: Mapping[str, Any], location_of: Place) -> Declaration:
    """Check a declaration's keys and values, and add those of its recipe.

    Args:
        location_of: Returns where a top-level key is, for messages.
    """
    keys = [field.alias or name for name, field in Declaration.model_fields.items()]
    for key in values:
        if key not in keys:
            near = difflib.get_close_matches(key, keys, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(keys)}"
            raise DeclarationError(f"{location_of(key)}: unknown key {key!r}, {hint}")
    recipe = values.get("recipe")
    base = {} if recipe is None else read_recipe(recipe, location_of("recipe"))
    try:
        # Key by key, not merged deeper: a table in the file replaces the recipe's whole table.
        return Declaration.model_validate({**base, **values})
    except ValidationError as error:
        raise DeclarationError(_describe(error, location_of)) from error


def _describe(error: ValidationError, location_of: Place) -> str:
    first = error.errors(include_url=False)[0]
    loc = [str(part) for part in first["loc"]]
    actual = "" if not loc else f", got {first['input']!r}"
    actual = actual if len(actual) <= _MAX_SHOWN_CHARACTERS else f"{actual[:_MAX_SHOWN_CHARACTERS]}..."
    text = first["msg"].removeprefix("Value error, ")
    if not loc:
        return f"{location_of('data')}: {text}"
    return f"{location_of(loc[0])}: {'.'.join(loc)}: {text[0].lower()}{text[1:]}{actual}"


def recipe_names() -> list[str]:
    """Return the names of all recipes, sorted."""
    return sorted(
        item.name.removesuffix(".toml") for item in RECIPES.iterdir() if item.name.endswith(".toml")
    )


def read_recipe(name: object, location: str) -> dict[str, Any]:
    """Return the keys of a recipe; raise `DeclarationError` for an unknown name."""
    names = recipe_names()
    if not isinstance(name, str) or name not in names:
        near = difflib.get_close_matches(str(name), names, n=1)
        hint = f", did you mean {near[0]!r}?" if near else "."
        options = ", ".join(names)
        raise DeclarationError(f"{location}: unknown recipe {name!r}{hint} The recipes are {options}")
    return tomllib.loads((RECIPES / f"{name}.toml").read_text("utf-8"))
