"""A project that pip installs: the environment as a package, with the entry point that serves it by name."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ors_server._version import __version__
from ors_server.environments.loading import ENTRY_POINT_GROUP
from ors_server.installation import DISTRIBUTION
from ors_server.packaging.environment_source import EnvironmentSource
from ors_server.packaging.text_forms import toml_table

_RELEASE = re.compile(r"\d+(?:\.\d+)*(?:(?:a|b|rc)\d+)?(?:\.post\d+)?(?:\.dev\d+)?")
"""A version as pip takes it (PEP 440, without epochs and local parts)."""
_EXTRAS = {".parquet": "parquet", "hf:": "huggingface"}
"""Extras of the server by what a declaration names."""
_TAKEN = ("name", "requires-python", "license", "authors", "keywords", "classifiers", "urls")
"""Keys of the author's own `[project]` that stay."""


def requirements_of(source: EnvironmentSource) -> list[str]:
    """Return what the environment needs: the server, with its extras, and what its author's project lists."""
    extras: set[str] = set()
    if source.kind == "declared":
        names = [*source.files, source.files["environment.toml"].read_text("utf-8")]
        extras = {extra for mark, extra in _EXTRAS.items() if any(mark in name for name in names)}
    server = DISTRIBUTION + (f"[{','.join(sorted(extras))}]" if extras else "")
    own: Any = source.project.get("dependencies", [])
    requirements = [text for text in own if not re.match(rf"{re.escape(DISTRIBUTION)}\b", str(text))]
    return [f"{server}>={__version__}", *map(str, requirements)]


def version_of(source: EnvironmentSource) -> str:
    """Return a version that pip takes: the author's, else the environment's, else 0.1.0."""
    stated = (str(source.project.get("version", "")), source.definition.version)
    return next((text for text in stated if _RELEASE.fullmatch(text)), "0.1.0")


def project_table(source: EnvironmentSource) -> Mapping[str, object]:
    """Return the table `[project]`."""
    own = {key: source.project[key] for key in _TAKEN if key in source.project}
    return {
        "name": own.pop("name", source.module.replace("_", "-")),
        "version": version_of(source),
        "description": source.description,
        "readme": "README.md",
        "requires-python": own.pop("requires-python", ">=3.11"),
        "dependencies": requirements_of(source),
        **own,
    }


def write_package(source: EnvironmentSource, folder: Path) -> None:
    """Write the environment as a package that can be imported, whose name is `source.module`."""
    package = folder / source.module
    # A folder without code is named after its folder, if it states no name.
    source.write(package if source.kind == "class" else package / source.name)
    if source.kind != "class":
        text = (
            f'"""The environment `{source.name}`."""\n\nfrom pathlib import Path\n\n'
            f"from ors_server import environment_at\n\n"
            f'{_class_name(source)} = environment_at(Path(__file__).parent / "{source.name}")\n'
        )
        (package / "__init__.py").write_text(text, encoding="utf-8")
    elif source.is_single:
        text = (
            f'"""The environment `{source.name}`."""\n\n'
            f'from .environment import {source.class_name}\n\n__all__ = ["{source.class_name}"]\n'
        )
        (package / "__init__.py").write_text(text, encoding="utf-8")


def _class_name(source: EnvironmentSource) -> str:
    if source.kind == "class":
        return source.class_name
    return "".join(part.title() for part in re.split(r"[-_]", source.name))


def write_pip(source: EnvironmentSource, folder: Path) -> Sequence[str]:
    """Write the project; return the commands that use it."""
    write_package(source, folder / "src")
    point = {source.name: f"{source.module}:{_class_name(source)}"}
    tables = (
        toml_table("build-system", {"requires": ["hatchling>=1.27"], "build-backend": "hatchling.build"}),
        toml_table("project", project_table(source)),
        toml_table(f'project.entry-points."{ENTRY_POINT_GROUP}"', point),
        toml_table("tool.hatch.build.targets.wheel", {"packages": [f"src/{source.module}"]}),
    )
    (folder / "pyproject.toml").write_text("\n".join(tables), encoding="utf-8")
    page = (
        f"# {source.name}\n\n{source.description}\n\n```bash\npip install .\n"
        f"ors-server serve {source.name}\n```\n"
    )
    (folder / "README.md").write_text(page, encoding="utf-8")
    return [f"pip install {folder}", f"ors-server serve {source.name}"]
