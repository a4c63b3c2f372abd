"""Environments of other packages: sources, which make environments by name.

A source is an entry point of the group `ors_server.sources`: its name is the first part of a reference such
as `reasoning_gym/leg_counting`, its value the `module:OBJECT` of a `Source`. That module imports the package
which it adapts only when an environment is made.
"""

import difflib
import hashlib
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from importlib.metadata import EntryPoint, entry_points

from ors_server.environments.boundary import describe_authors
from ors_server.environments.environment import Environment
from ors_server.installation import install_hint, package_hint
from ors_server.model.errors import EnvironmentDefinitionError, OrsServerError, UnknownEnvironmentError
from ors_server.model.logs import get_logger

log = get_logger("ors_server.sources")

SOURCE_GROUP = "ors_server.sources"
"""Entry points under which installed packages offer sources by name."""
FORCE = "!"
"""Suffix of a reference to an environment that its source lists as broken: make it anyway."""
_MAX_NAME = 64
"""Characters of an environment's name."""
_DIGEST = 8
_MAX_SHOWN_NAMES = 3
"""Names of environments that an error lists."""
_PIP_INSTALL = "pip install "


@dataclass(frozen=True)
class Source:
    """A package whose environments this server can serve."""

    name: str
    """First part of the references; the name of its entry point."""
    requires: tuple[str, ...]
    """What must be installed: distributions, with or without a version, such as `reasoning-gym==0.1.25`. The
    first is the package that is adapted."""
    licence: str
    """SPDX identifier of the package's licence."""
    homepage: str
    list_names: Callable[[], Sequence[str]]
    """Returns the names of all environments, the broken ones too, in order. Imports nothing heavy."""
    make: Callable[[str], type[Environment]]
    """Makes the class of one environment, whose name is `served_name(source, name)`."""
    broken: Mapping[str, str] = field(default_factory=dict[str, str])
    """Environments that are made only on request, with the reason: part of a sentence."""
    is_open: bool = False
    """Whether `make` takes other names too, such as addresses; it raises for those that it does not know."""
    extra: str = ""
    """Extra of ors-mcp-server that installs what is required; the name with hyphens by default."""
    install: str = ""
    """Command that installs what is required; that of the extra by default."""
    find_version: Callable[[str], str | None] | None = None
    """Returns the version of an installed distribution, `None` without it; looks in this Python by default.
    For packages in a separate virtual environment."""

    @property
    def install_command(self) -> str:
        """The command that installs what this source requires, with the pip of this Python."""
        if self.install.startswith(_PIP_INSTALL):
            return package_hint(*shlex.split(self.install.removeprefix(_PIP_INSTALL)))
        return self.install or install_hint(self.extra_name)

    @property
    def extra_name(self) -> str:
        """The extra of this package that has what is required, unless `install` is another command."""
        return self.extra or self.name.replace("_", "-")

    def missing(self) -> list[str]:
        """Return what is not installed as required: for each, the expected and the actual version."""
        find = self.find_version or find_version
        wrong: list[str] = []
        for text in self.requires:
            distribution, _, pinned = text.partition("==")
            version = find(distribution)
            if version is None:
                wrong.append(f"expected {text}, and it is not installed")
            elif pinned and version != pinned:
                wrong.append(f"expected {text}, got version {version}")
        return wrong

    def check_installed(self) -> None:
        """Raise `EnvironmentDefinitionError` unless everything that is required is installed."""
        wrong = self.missing()
        if wrong:
            raise EnvironmentDefinitionError(f"{self.name}: {'; '.join(wrong)}; run {self.install_command}")

    def check_name(self, name: str) -> None:
        """Raise `UnknownEnvironmentError` if the source has no environment of that name."""
        if not self.is_open and name not in self.list_names():
            raise UnknownEnvironmentError(f"{self.name}/{name}: {self._unknown(name)}")

    def load(self, name: str, *, is_forced: bool = False) -> type[Environment]:
        """Return the class of an environment.

        Args:
            is_forced: Whether to make it although it is listed as broken.

        Raises:
            UnknownEnvironmentError: If the source has no environment of that name.
            EnvironmentDefinitionError: If it is broken, something that it needs is not installed, or making
                it fails.
        """
        self.check_name(name)
        reference = f"{self.name}/{name}"
        if name in self.broken and not is_forced:
            raise EnvironmentDefinitionError(
                f"{reference} is listed as broken: {self.broken[name]}; {reference}{FORCE} serves it all the "
                "same"
            )
        # After the name: a misspelt name should not first make its author install a package.
        self.check_installed()
        try:
            return self.make(name)
        except OrsServerError:
            raise
        except Exception as error:
            raise EnvironmentDefinitionError(
                f"{reference}: making it failed: {describe_authors(error)}"
            ) from error

    def _unknown(self, name: str) -> str:
        names = self.list_names()
        near = nearest(name, names)
        hint = (
            f"the nearest are {', '.join(near)}"
            if near
            else f"the first are {', '.join(names[:_MAX_SHOWN_NAMES])}"
        )
        shown = f"got {name!r}" if name else "got none"
        return f"expected one of {len(names)} names, {shown}; {hint}; ors-server list --available lists all"


def nearest(name: str, names: Sequence[str]) -> list[str]:
    """Return the names that are most like one, the best first."""
    by_key = {candidate.lower(): candidate for candidate in names}
    return [by_key[key] for key in difflib.get_close_matches(name.lower(), list(by_key), n=_MAX_SHOWN_NAMES)]


def find_version(distribution: str) -> str | None:
    """Return the version of an installed distribution; `None` if it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def served_name(source: str, name: str) -> str:
    """Return the name under which an environment of a source is served.

    Lower case, joined by `_`, with `_` for what an environment's name may not have: `gymnasium` and
    `FrozenLake-v1` give `gymnasium_frozenlake-v1`. A name that would be too long ends in a hash of the whole.
    """
    whole = f"{source}_{name}"
    text = re.sub(r"[^a-z0-9_-]", "_", whole.lower())
    if len(text) <= _MAX_NAME:
        return text
    digest = hashlib.sha256(whole.encode()).hexdigest()[:_DIGEST]
    return f"{text[: _MAX_NAME - _DIGEST - 1]}_{digest}"


def source_names() -> list[str]:
    """Return the names of all sources, sorted. Imports none of them."""
    return sorted(_points())


def load_source(name: str) -> Source:
    """Return a source.

    Raises:
        UnknownEnvironmentError: If no installed package offers it.
        EnvironmentDefinitionError: If its module cannot be imported, or has something else there.
    """
    points = _points()
    if name not in points:
        near = nearest(name, list(points)) or list(points)
        raise UnknownEnvironmentError(
            f"unknown source {name!r}; expected {' or '.join(near) or 'a package that offers one'}; "
            "ors-server list --available lists all"
        )
    point = points[name]
    try:
        source = point.load()
    except (Exception, SystemExit) as error:
        raise EnvironmentDefinitionError(
            f"source {name}: importing {point.value} failed: {describe_authors(error)}"
        ) from error
    if not isinstance(source, Source):
        kind = type(source).__name__
        raise EnvironmentDefinitionError(f"source {name}: expected a Source at {point.value}, got {kind}")
    if source.name != name:
        raise EnvironmentDefinitionError(
            f"source {name}: {point.value} is named {source.name!r}; name its entry point so"
        )
    return source


def split_source(reference: str) -> tuple[str, str] | None:
    """Return the source and the name in a reference such as `gymnasium/Taxi-v4`; `None` for other ones."""
    source, slash, name = reference.partition("/")
    return (source, name) if slash and source in _points() else None


def find_sourced(reference: str) -> type[Environment] | None:
    """Return the class that a reference `SOURCE/NAME` or `SOURCE/NAME!` names; `None` for other references.

    Raises:
        UnknownEnvironmentError: As `Source.load` does.
        EnvironmentDefinitionError: As `Source.load` does.
    """
    parts = split_source(reference)
    if parts is None:
        return None
    source, name = load_source(parts[0]), parts[1]
    return source.load(name.removesuffix(FORCE), is_forced=name.endswith(FORCE))


def _points() -> dict[str, EntryPoint]:
    """Return the entry points by name; of two of one name, the one whose value sorts first."""
    points: dict[str, EntryPoint] = {}
    # Sorted, so that the choice does not depend on the order of installation.
    for point in sorted(entry_points(group=SOURCE_GROUP), key=lambda point: (point.name, point.value)):
        keeper = points.setdefault(point.name, point)
        if keeper.value != point.value:
            log.warning("source_left_out", name=point.name, kept=keeper.value, left_out=point.value)
    return points
