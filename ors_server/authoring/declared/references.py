"""Finds declared environments: a folder with `environment.toml`, such a file, or a data file with options."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ors_server.authoring.declared.declaration_file import FILE, make_declaration, read_declaration
from ors_server.authoring.declared.declared_environment import DeclaredEnvironment, declare
from ors_server.authoring.declared.rows.choose_source import is_data
from ors_server.authoring.declared.rows.hugging_face import PREFIX, parse_address
from ors_server.authoring.environment_names import RESERVED_NAMES
from ors_server.errors import EnvironmentDefinitionError

_HINT = (
    "expected options that say which fields are what: --prompt question --answer answer --reward "
    "math_equal_reward, or --recipe NAME; or write an environment.toml and name its folder"
)


def find_declared(reference: str) -> type[DeclaredEnvironment] | None:
    """Return the class of the declared environment that a reference names; `None` if it names none.

    Raises:
        EnvironmentDefinitionError: If the declaration or its data breaks a rule, or data comes without one.
    """
    file = declaration_of(reference)
    if file is not None:
        return declare_file(file)
    if is_data(reference):
        if not reference.startswith(PREFIX) and not Path(reference).exists():
            raise EnvironmentDefinitionError(f"{reference}: there is no such file; correct the path")
        raise EnvironmentDefinitionError(f"{reference}: {_HINT}")
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
    """Return the class of an `environment.toml`; options win over its keys."""
    declaration = read_declaration(file)
    if options:
        declaration = declaration.model_copy(update=dict(options))
    folder = file.resolve().parent
    return declare(declaration, folder, name=environment_name(folder.name), place=str(file))


def declare_data(data: str, options: Mapping[str, Any]) -> type[DeclaredEnvironment]:
    """Return the class of an environment over a data file, declared by options.

    Args:
        options: Keys of a declaration.
    """
    if not data.startswith(PREFIX) and not Path(data).exists():
        raise EnvironmentDefinitionError(f"{data}: there is no such file; correct the path")
    if not {"prompt", "recipe"} & set(options):
        raise EnvironmentDefinitionError(f"{data}: {_HINT}")
    if data.startswith(PREFIX):
        folder, called, given = Path.cwd(), parse_address(data).name.rpartition("/")[2], data
    else:
        path = Path(data).resolve()
        folder, called, given = path.parent, path.name.partition(".")[0], path.name
    declaration = make_declaration({**options, "data": given}, lambda key: f"--{key.replace('_', '-')}")
    return declare(declaration, folder, name=environment_name(called), place=data)


def environment_name(text: str) -> str:
    """Return a name for an environment that is made of a file's name."""
    name = re.sub(r"[^a-z0-9_-]", "_", text.lower())[:60]
    if not name or not name[0].isalpha() or name in RESERVED_NAMES:
        name = f"data_{name}"
    return name
