"""How this package is installed: the commands that add to it, and other distributions that are in its way.

The distribution, the import package and the command have different names, because another project has the
distribution `ors-server`, with an import package `ors_server` and a command `ors-server` of the same names.
"""

import json
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

DISTRIBUTION = "ors-mcp-server"
"""The distribution's name, by which it is installed and its metadata are found."""
CLIENT_DISTRIBUTION = "ors-mcp-client"
"""The distribution that has the client and the bridges only: a part of this package, from the same files."""
PACKAGE = "ors_server"
COMMAND = "ors-server"
OTHER_PROJECT = "ors-server"
"""Another project's distribution with the same import package and command; this package's earlier name."""
SERVED_OPENREWARD = "0.1.167"
"""The version of `openreward` whose environments are served."""
EMPTY_OPENREWARD = "openreward 0.0.1"


def install_hint(extra: str = "") -> str:
    """Return the command that installs this package, with an extra, in the way in which it is installed now.

    From a checkout it is `pip install -e '.[EXTRA]'`, from an index `pip install 'ors-mcp-server[EXTRA]'`;
    from a repository or an archive its address is repeated.
    """
    return f"{_pip('install')} {_own_requirement(f'[{extra}]' if extra else '')}"


def reinstall_hint() -> str:
    """Return the command that puts back files of this package that another one replaced."""
    return f"{_pip('install')} --force-reinstall --no-deps {_own_requirement('')}"


def package_hint(*words: str) -> str:
    """Return the command that installs other packages next to this one.

    Args:
        words: Requirements and options of pip.
    """
    return f"{_pip('install')} {shlex.join(words)}"


def explain_absence(name: str, error: ModuleNotFoundError) -> ImportError:
    """Return the error for a name whose module is missing where only the client is installed."""
    if (error.name or "").partition(".")[0] != PACKAGE:
        return error
    return ImportError(
        f"{name} is in {DISTRIBUTION}, and only {CLIENT_DISTRIBUTION} is installed: "
        f"{uninstall_hint(CLIENT_DISTRIBUTION)} && {package_hint(DISTRIBUTION)}",
        name=error.name,
    )


def uninstall_hint(distribution: str) -> str:
    """Return the command that removes another distribution."""
    pip = _pip("uninstall")
    return f"{pip} {distribution}" if pip.startswith("uv ") else f"{pip} -y {distribution}"


def find_activation() -> str:
    """Return what makes a shell find this installation's command; empty if this process's shell finds it."""
    folder = Path(sys.executable).parent
    program = shutil.which(COMMAND)
    if program is not None and Path(program).parent == folder:
        return ""
    activate = folder / "activate"
    if not activate.is_file():
        return f"export PATH={shlex.quote(str(folder))}:$PATH"
    try:
        shown = activate.relative_to(Path.cwd())
    except (OSError, ValueError):  # the current folder is gone or another one
        shown = activate
    return f"source {shlex.quote(str(shown))}"


def openreward_hint() -> str:
    """Explain how `openreward` is installed, which has conflicting requirements."""
    both = f"{package_hint(f'openreward=={SERVED_OPENREWARD}')} && {install_hint()}"
    return (
        f"pip takes {EMPTY_OPENREWARD}, an empty package, where the requirements of openreward and of "
        f"{DISTRIBUTION} conflict. Its client needs its own environment (python -m venv clients && "
        f"clients/bin/pip install openreward); to serve its classes here, run {both}"
    )


def _pip(verb: str) -> str:
    """Return a command of pip for this Python; `pip` itself only where the shell finds this Python's."""
    folder = Path(sys.executable).parent
    program = shutil.which("pip")
    if program is not None and Path(program).parent == folder:
        return f"pip {verb}"
    python = shlex.quote(sys.executable or "python3")
    if find_spec("pip") is None and shutil.which("uv") is not None:
        return f"uv pip {verb} --python {python}"
    return f"{python} -m pip {verb}"


def _own_requirement(extra: str) -> str:
    origin = _read_origin()
    address = str(origin.get("url", ""))
    place = _local_path(address)
    vcs: dict[str, Any] = origin.get("vcs_info", {})
    if address and (place is None or (vcs and place.is_dir())):
        # Behind `@`, older versions of pip refuse an address of a file without a host.
        repository = address.replace("file:///", "file://localhost/", 1)
        at = f"{vcs['vcs']}+{repository}@{vcs.get('commit_id', 'HEAD')}" if vcs else address
        return shlex.quote(f"{DISTRIBUTION}{extra} @ {at}")
    if place is not None and place.is_file():
        return shlex.quote(f"{DISTRIBUTION}{extra} @ {address}")
    if place is not None and (place / "pyproject.toml").is_file():
        editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
        return f"{editable}{shlex.quote(f'{_shortened(place)}{extra}')}"
    return shlex.quote(f"{DISTRIBUTION}{extra}") if extra else DISTRIBUTION


def _read_origin() -> dict[str, Any]:
    """Return the package's origin, in the form of `direct_url.json` (PEP 610); empty for an index."""
    checkout = Path(__file__).parents[1]
    try:
        text = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        # A checkout that is not installed, or is under the earlier name.
        is_checkout = (checkout / "pyproject.toml").is_file()
        return {"url": checkout.as_uri(), "dir_info": {"editable": True}} if is_checkout else {}
    return {} if text is None else dict(json.loads(text))


def _local_path(address: str) -> Path | None:
    parts = urlsplit(address)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def _shortened(folder: Path) -> str:
    try:
        return "." if folder.samefile(Path.cwd()) else str(folder)
    except OSError:  # the current folder is gone
        return str(folder)


@dataclass(frozen=True, slots=True)
class Intruder:
    """Something else that has this package's import package or command."""

    name: str
    """The distribution's name; empty for a folder on the module search path."""
    text: str
    """What it is and where, for a person."""
    is_harmless: bool = False
    """Whether it is this package under its earlier name."""

    @property
    def remedy(self) -> str:
        """What to do about it."""
        if not self.name:
            return "rename that folder, or run Python elsewhere"
        return f"{uninstall_hint(self.name)} && {reinstall_hint()}"


def find_intruders() -> list[Intruder]:
    """Return the other distributions and folders that have this package's import package or command."""
    return [*_find_distributions(), *_find_folders()]


def _find_distributions() -> Iterator[Intruder]:
    own = Path(__file__).parents[1]
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"] or ""
        if name == DISTRIBUTION or not _has_our_names(distribution, name):
            continue
        if name == CLIENT_DISTRIBUTION:
            yield _client_beside(distribution.version)
            continue
        origin: dict[str, Any] = json.loads(distribution.read_text("direct_url.json") or "{}")
        is_ours = _local_path(str(origin.get("url", ""))) == own
        what = "this checkout under its earlier name" if is_ours else "another project"
        text = f"the distribution {name} {distribution.version} is {what}, with our import package or command"
        yield Intruder(name, text, is_harmless=is_ours)


def _client_beside(version: str) -> Intruder:
    """Return the client's distribution if it is installed: at the same version, both have the same files."""
    try:
        own = metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:  # a checkout that is not installed
        own = ""
    text = f"the distribution {CLIENT_DISTRIBUTION} {version} has a part of this package's files"
    if own == version:
        return Intruder(CLIENT_DISTRIBUTION, f"{text}: uninstalling it would remove them", is_harmless=True)
    return Intruder(CLIENT_DISTRIBUTION, f"{text}, of another version than {DISTRIBUTION} {own}".rstrip())


def _has_our_names(distribution: metadata.Distribution, name: str) -> bool:
    if name.lower().replace("_", "-") == OTHER_PROJECT:
        return True
    files = distribution.read_text("RECORD") or ""
    if f"\n{PACKAGE}/" in f"\n{files}":
        return True
    scripts = distribution.read_text("entry_points.txt") or ""
    return any(line.split("=")[0].strip() == COMMAND for line in scripts.splitlines())


def _find_folders() -> Iterator[Intruder]:
    own = Path(__file__).parent.resolve()
    folders = dict.fromkeys(Path(entry or ".") / PACKAGE for entry in sys.path)
    for folder in folders:
        is_package = (folder / "__init__.py").is_file()
        if is_package and folder.resolve() != own:
            yield Intruder("", f"{folder} is another package of the name {PACKAGE}; Python runs {own}")
