"""Finds declared environments: a folder with `environment.toml`, such a file, or a data file with options."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ors_server.environments.declared.declaration_file import FILE, make_declaration, read_declaration
from ors_server.environments.declared.declared_environment import DeclaredEnvironment, declare
from ors_server.environments.declared.rows.choose_source import (
    ENDINGS,
    check_readable,
    is_data,
    is_data_folder,
)
from ors_server.environments.declared.rows.hugging_face import PREFIX, parse_address
from ors_server.environments.declared.rows.shards import find_splits
from ors_server.environments.environment_names import RESERVED_NAMES
from ors_server.model.errors import DeclarationError, UnknownEnvironmentError

_HINT = (
    "expected options that say which fields are what: --prompt question --answer answer --reward "
    "math_equal_reward, or --recipe NAME; or write an environment.toml and name its folder"
)


def find_declared(reference: str) -> type[DeclaredEnvironment] | None:
    """Return the class of the declared environment that a reference names; `None` if it names none.

    Raises:
        EnvironmentDefinitionError: If the declaration or its data breaks a rule; `DeclarationError` for data
            without a declaration.
        UnknownEnvironmentError: If it names a declaration or a data file that does not exist.
    """
    file = declaration_of(reference)
    if file is not None:
        return declare_file(file)
    if is_data(reference) or is_data_folder(reference):
        _check_kind(reference)
        raise DeclarationError(f"{reference}: {_HINT}")
    return None


def declaration_of(reference: str) -> Path | None:
    """Return the declaration that a reference names: a TOML file, or that of a folder without a package."""
    path = Path(reference)
    if path.suffix == ".toml":
        return path
    if (path / FILE).is_file() and not (path / "__init__.py").is_file():
        return path / FILE
    return None


def declare_file(file: Path, options: Mapping[str, Any] | None = None) -> type[DeclaredEnvironment]:
    """Return the class of an `environment.toml`; options win over its keys.

    Raises:
        EnvironmentDefinitionError: If the declaration or its data breaks a rule.
        UnknownEnvironmentError: If there is no such file.
    """
    _require_place(str(file), file)
    declaration = read_declaration(file)
    if options:
        declaration = declaration.model_copy(update=dict(options))
    folder = file.resolve().parent
    return declare(declaration, folder, name=environment_name(folder.name), location=str(file))


def declare_data(data: str, options: Mapping[str, Any]) -> type[DeclaredEnvironment]:
    """Return the class of an environment over a data file or a folder of data, declared by options.

    Args:
        options: Keys of a declaration.
    """
    _check_kind(data)
    if not {"prompt", "recipe"} & set(options):
        raise DeclarationError(f"{data}: {_HINT}")
    path = Path(data).resolve()
    folder, called = path.parent, path.name.partition(".")[0]
    values: dict[str, Any] = {"data": path.name}
    if data.startswith(PREFIX):
        folder, called, values = Path.cwd(), parse_address(data).name.rpartition("/")[2], {"data": data}
    elif path.is_dir():
        folder, called, values = path, path.name, {"splits": find_splits(path, ENDINGS)}
    declaration = make_declaration({**options, **values}, lambda key: f"--{key.replace('_', '-')}")
    return declare(declaration, folder, name=environment_name(called), location=data)


def _check_kind(data: str) -> None:
    path = Path(data)
    if data.startswith(PREFIX) or path.is_dir():
        return
    if "*" not in path.name:
        _require_place(data, path)
    check_readable(path)


def _require_place(reference: str, path: Path) -> None:
    if not path.exists():
        raise UnknownEnvironmentError(f"{reference}: there is no such file; correct the path")


def environment_name(text: str) -> str:
    """Return a name for an environment that is made of a file's name."""
    name = re.sub(r"[^a-z0-9_-]", "_", text.lower())[:60]
    if not name or not name[0].isalpha() or name in RESERVED_NAMES:
        name = f"data_{name}"
    return name
