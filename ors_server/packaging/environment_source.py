"""Reads the folder or the file of one environment, and chooses which of its files are published.

What must not leave the author's machine is left out by its name (hidden files, caches, keys) or refused by
its content (credentials, absolute paths of this machine, links that lead out of the folder).
"""

import ast
import codecs
import os
import posixpath
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from ors_server.environments.declared.declaration_file import FILE as DECLARATION
from ors_server.environments.declared.references import declaration_of
from ors_server.environments.declared.rows.choose_source import ENDINGS
from ors_server.environments.definition import EnvironmentDefinition
from ors_server.environments.loading import define, find_classes
from ors_server.harbor.harbor_environment import HarborTasks
from ors_server.model.errors import EnvironmentDefinitionError, UnknownEnvironmentError

Kind: TypeAlias = Literal["class", "declared", "harbor"]

MAX_BYTES = 512 * 1024 * 1024
"""Bytes of all files of one package."""
MAX_TEXT = 4 * 1024 * 1024
"""Bytes up to which Python code is searched for paths."""
LEFT_OUT = (
    *(".*", "__pycache__", "*.py[co]", "*.egg-info", "node_modules", "venv", "build", "dist"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*"),
    *("*.ppk", "*.kdbx", "*.env", "env.local", "env.*.local", "env.production", "env.development"),
    *("netrc", "_netrc", "kubeconfig*", "*.kubeconfig", "service-account*.json", "service_account*.json"),
    *("htpasswd", "*.htpasswd", "id_xmss*", "*credentials*", "secrets.*", "*api_keys*", "*api-keys*"),
    *("episodes.db*", "*.log", "*.part"),
)
"""Names of files and folders that no package has, at any depth."""
OWN_FILES = frozenset({"pyproject.toml", "README.md", "audit.toml", "environment.schema.json", "conftest.py"})
"""Files at the top that are for the author: a package has its own project and page."""
IGNORE_FILES = frozenset({".harborignore", ".dockerignore"})
"""Hidden files that are part of a task in Harbor's format."""
_CREDENTIAL = re.compile(
    r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----|"
    r"\b(?:sk-(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{20,}|hf_[A-Za-z0-9]{30,}|"
    r"gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}|AKIA[0-9A-Z]{16})\b",
    re.ASCII,
)
_PIECE = 1 << 20
_OVERLAP = 256
"""Characters carried into the next read, so that a credential across a boundary is found."""
_HOME_PATH = re.compile(r"(?:/home/[^/\s]+|/Users/[^/\s]+|/root|~|[A-Za-z]:\\Users\\[^\\\s]+)[/\\]\S")
_SYSTEM = frozenset(
    {
        *("/bin", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/sys"),
        *("/tmp", "/usr", "/var"),  # noqa: S108
    }
)
"""Folders that every machine has; what is below them is not a place of the author's."""


class PackagingError(EnvironmentDefinitionError):
    """An environment cannot be published as it is."""


@dataclass(frozen=True, slots=True)
class EnvironmentSource:
    """One environment, and what is published of it."""

    definition: EnvironmentDefinition
    kind: Kind
    files: Mapping[str, Path]
    """Path in the package, with slashes, to the file."""
    left_out: tuple[str, ...]
    """Names that were left out and might be missed: neither hidden nor caches."""
    project: Mapping[str, Any]
    """The table `[project]` of the author's own pyproject.toml; empty without one."""
    folder: Path | None
    """Where the files are; `None` for one Python file."""

    @property
    def is_single(self) -> bool:
        """Whether it is one Python file."""
        return self.folder is None

    @property
    def name(self) -> str:
        """Name under which the environment is served."""
        return self.definition.name

    @property
    def module(self) -> str:
        """Name of the package that is imported."""
        return f"{self.name.replace('-', '_')}_environment"

    @property
    def class_name(self) -> str:
        """Name of the environment's class."""
        return self.definition.source.__name__

    @property
    def description(self) -> str:
        """What it is, in one line."""
        stated = str(self.project.get("description") or self.definition.description).strip()
        return stated.partition("\n")[0] or f"The environment {self.name}."

    def write(self, folder: Path) -> None:
        """Copy the files into a new folder."""
        for path, source in self.files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
            target.chmod(0o755 if os.access(source, os.X_OK) else 0o644)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(source.stat().st_size for source in self.files.values())


def read_source(reference: str) -> EnvironmentSource:
    """Read the environment in a folder or a Python file.

    Args:
        reference: The path, followed by `:Class` where it has several environments.

    Raises:
        PackagingError: If it has several environments, or has what must not be published.
        UnknownEnvironmentError: If it is not a path, or there is no environment.
        EnvironmentDefinitionError: If it breaks a rule.
    """
    location, colon, name = reference.rpartition(":")
    path = Path(location if colon and name.isidentifier() else reference)
    if path.name == DECLARATION:
        path = path.parent
    if not path.exists():
        raise UnknownEnvironmentError(
            f"{reference}: expected the path of an environment's folder or Python file"
        )
    if path.is_file() and path.suffix != ".py":
        raise PackagingError(
            f"{reference}: expected a folder or a Python file; put data files into a folder with an "
            f"{DECLARATION}, as ors-server new --declared makes it"
        )
    classes = find_classes(str(path) if path.is_dir() and not colon else reference)
    if len(classes) > 1:
        names = ", ".join(cls.__name__ for cls in classes)
        raise PackagingError(
            f"{reference}: a package has one environment; choose one of {names}: {path}:NAME"
        )
    definition = define(classes[0])
    kind: Kind = "class"
    if declaration_of(str(path)) is not None:
        kind = "declared"
    elif issubclass(definition.source, HarborTasks):
        kind = "harbor"
    if path.is_file():
        files, left_out = {"environment.py": path}, tuple[str, ...]()
    else:
        files, left_out = _choose_files(path.resolve(), kind)
    data_paths = _check_declaration(path / DECLARATION) if kind == "declared" else ()
    for name, file in files.items():
        _check_text(name, file, data_paths)
        _check_paths(name, file, path)
    folder = None if path.is_file() else path.resolve()
    source = EnvironmentSource(definition, kind, files, left_out, _read_project(path), folder)
    if source.size > MAX_BYTES:
        raise PackagingError(
            f"{reference}: expected at most {MAX_BYTES:,} bytes in all files, got {source.size:,}; publish "
            "large data elsewhere, and name it in the environment"
        )
    return source


def _choose_files(root: Path, kind: Kind) -> tuple[dict[str, Path], tuple[str, ...]]:
    files: dict[str, Path] = {}
    left_out: list[str] = []
    for path in _walk(
        root, "", left_out, keeps_hidden=IGNORE_FILES if kind == "harbor" else frozenset[str]()
    ):
        relative = path.relative_to(root).as_posix()
        is_test = relative.startswith("tests/") or (
            path.name.startswith("test_") and path.name.endswith(".py")
        )
        if kind != "harbor" and (relative in OWN_FILES or is_test):
            continue
        target = path.resolve()
        if not target.is_relative_to(root):
            raise PackagingError(f"{path}: this link leads out of the folder, to {target}; copy the file")
        if not target.is_file():
            raise PackagingError(f"{path}: expected a file, got a device, a pipe or a broken link; remove it")
        files[relative] = target
    return files, tuple(left_out)


def _walk(folder: Path, prefix: str, left_out: list[str], *, keeps_hidden: frozenset[str]) -> Iterator[Path]:
    for entry in sorted(folder.iterdir(), key=lambda item: item.name):
        name = f"{prefix}{entry.name}"
        if entry.name not in keeps_hidden and any(fnmatchcase(entry.name.lower(), part) for part in LEFT_OUT):
            if not entry.name.startswith(".") and entry.name != "__pycache__":
                left_out.append(name)
        elif entry.is_dir() and not entry.is_symlink():
            yield from _walk(entry, f"{name}/", left_out, keeps_hidden=keeps_hidden)
        elif entry.is_dir():
            raise PackagingError(f"{entry}: this link leads to a folder; copy what is in it")
        else:
            yield entry


def _read_project(path: Path) -> Mapping[str, Any]:
    file = path / "pyproject.toml" if path.is_dir() else path.parent / "pyproject.toml"
    if not path.is_dir() or not file.is_file():
        return {}
    try:
        table: Any = tomllib.loads(file.read_text("utf-8")).get("project", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PackagingError(f"{file}: {error}") from error
    return cast("Mapping[str, Any]", table) if isinstance(table, dict) else {}


def _check_declaration(file: Path) -> tuple[str, ...]:
    """Refuse data, rewards and toolsets that the folder does not have; return files or folders of rows."""
    values: Mapping[str, Any] = tomllib.loads(file.read_text("utf-8"))
    for key in ("data", "splits", "reward", "toolsets"):
        for text in _texts(values.get(key)):
            path = text.partition(":")[0] if not text.startswith("hf:") else ""
            if path.startswith(("/", "~")) or re.match(r"[A-Za-z]:\\", text):
                raise PackagingError(
                    f"{file}: {key} has the absolute path {text!r}, which other machines do not have; move "
                    "the file into the folder, and write its path from there"
                )
            if ".." in Path(path).parts:
                raise PackagingError(
                    f"{file}: {key} leads out of the folder with {text!r}; move the file into the folder"
                )
    splits: Any = values.get("splits")
    stated: list[Any] = [values.get("data"), *(splits.values() if isinstance(splits, dict) else ())]
    texts: list[Any] = [
        cast("dict[str, Any]", data).get("data") if isinstance(data, dict) else data for data in stated
    ]
    return tuple(posixpath.normpath(text) for text in texts if isinstance(text, str))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in cast("Mapping[str, object]", value).values():
            yield from _texts(part)
    elif isinstance(value, list):
        for part in cast("list[object]", value):
            yield from _texts(part)


def _check_text(name: str, file: Path, data_paths: Sequence[str]) -> None:
    """Refuse a text with credentials, of any length and ending.

    Args:
        data_paths: Files, folders and patterns of shards whose data files are not searched.
    """
    if name.lower().endswith(ENDINGS) and any(
        data in {name, "."} or name.startswith(f"{data}/") or fnmatchcase(name, data) for data in data_paths
    ):
        return
    with file.open("rb") as opened:
        start = opened.read(_PIECE)
    has_mark = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if not has_mark and b"\0" in start:
        return  # not a text
    line, before = 1, ""
    with file.open(encoding="utf-16" if has_mark else "utf-8", errors="replace", newline="") as text:
        while piece := text.read(_PIECE):
            searched = before + piece
            # Start at 1: character 0 is only there so that `\b` sees what precedes the match.
            secret = _CREDENTIAL.search(searched, min(len(before), 1))
            if secret is not None:
                line += searched.count("\n", 0, secret.start())
                raise PackagingError(
                    f"{name}:{line}: this looks like a credential; read it from self.secrets or a variable, "
                    "or move the file out of the folder, and replace it where it was issued"
                )
            before = searched[-_OVERLAP:]
            line += searched.count("\n", 0, len(searched) - len(before))


def _check_paths(name: str, file: Path, root: Path) -> None:
    """Refuse absolute paths of this machine in Python code."""
    if file.suffix != ".py" or file.stat().st_size > MAX_TEXT:
        return
    text = file.read_text("utf-8", errors="replace")
    for line, path in _absolute_paths(text, root.resolve()):
        raise PackagingError(
            f"{name}:{line}: the absolute path {path!r} is of this machine, and other machines do not "
            "have it; put the file into the environment's folder, and write Path(__file__).parent / NAME"
        )


def _absolute_paths(text: str, root: Path) -> Iterator[tuple[int, str]]:
    """Find texts of Python code that are paths of this machine: a user's, or those that exist here."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in documentation:
            continue
        value = node.value.strip()
        if "\n" in value or len(value) > 1000:  # noqa: PLR2004  (no path is so long)
            continue
        if _HOME_PATH.match(value) or _exists_here(value, root):
            yield node.lineno, node.value


def _exists_here(value: str, root: Path) -> bool:
    if not value.startswith("/") or value == "/":
        return False
    if f"/{value.split('/')[1]}" in _SYSTEM:
        return value.startswith(f"{root}/") or value == str(root)
    try:
        return os.path.lexists(value)
    except ValueError:  # a zero character
        return False
