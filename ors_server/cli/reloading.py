"""`serve --reload`: reloads environments when their files change."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import anyio
import anyio.to_thread

from ors_server.cli.command_output import complain
from ors_server.cli.data_options import DataOptions, resolve_references
from ors_server.environments.declared.references import declaration_of
from ors_server.environments.declared.rows.index_process import indices_made_elsewhere
from ors_server.environments.definition import EnvironmentDefinition
from ors_server.environments.loading import definitions_of
from ors_server.files.importing import forgotten_modules
from ors_server.model.errors import OrsServerError

if TYPE_CHECKING:
    from ors_server.app import App

POLL_SECONDS = 0.5
WATCHED = (".py", ".toml")
"""Endings of the files in an environment's folder that count; a declared one's data count too."""
_SKIPPED = frozenset({"__pycache__", "node_modules"})

Stamp: TypeAlias = dict[Path, tuple[int, int]]
"""File to its time of change and size."""


class Reloader:
    """Looks at the files of the served environments, and replaces those of an application that runs."""

    def __init__(self, app: "App", references: Sequence[str], options: DataOptions) -> None:
        self._app, self._references, self._options = app, list(references), options
        self._seen = self.stamp()

    async def watch(self) -> None:
        """Reload the environments after each change, until this is cancelled."""
        while True:
            await anyio.sleep(POLL_SECONDS)
            await self.look()

    async def look(self) -> bool:
        """Look once; return whether the environments were replaced."""
        now = await anyio.to_thread.run_sync(self.stamp)
        if now == self._seen:
            return False
        self._seen = now
        try:
            definitions = await anyio.to_thread.run_sync(self._load)
            self._app.replace_environments(definitions)
        except OrsServerError as error:
            for line in getattr(error, "reports", ()):
                complain(line)
            complain(f"not reloaded, and the old environments stay: {error}")
            return False
        versions = ", ".join(f"{definition.name} {definition.version}" for definition in definitions)
        complain(f"reloaded: {versions}")
        return True

    def _load(self) -> list[EnvironmentDefinition]:
        folders = [folder for reference in self._references for folder in _folders_of(reference)]
        with forgotten_modules(folders), indices_made_elsewhere():
            references = resolve_references(self._references, self._options)
            return [definition for reference in references for definition in definitions_of(reference)]

    def stamp(self) -> Stamp:
        """Return the state of every file that is looked at."""
        stamp: Stamp = {}
        for path in self._files():
            try:
                state = path.stat()
            except OSError:  # it went while the folder was read
                continue
            stamp[path] = (state.st_mtime_ns, state.st_size)
        return stamp

    def _files(self) -> Iterator[Path]:
        for definition in self._app.definitions:
            yield from getattr(definition.source, "watched_files", ())
        for reference in self._references:
            path = _path_of(reference)
            if path.is_file():
                yield path
            for folder in _folders_of(reference):
                yield from _walk(folder)


def _path_of(reference: str) -> Path:
    path, colon, name = reference.rpartition(":")
    return Path(path if colon and name.isidentifier() else reference)


def _folders_of(reference: str) -> list[Path]:
    """Return the folder of an environment's own files; none for a data file or an installed package."""
    path = _path_of(reference)
    declaration = declaration_of(str(path))
    if declaration is not None:
        return [declaration.resolve().parent]
    if path.is_dir():
        return [path.resolve()]
    return [path.resolve().parent] if path.suffix == ".py" and path.is_file() else []


def _walk(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name in _SKIPPED:
            continue
        if path.is_dir():
            yield from _walk(path)
        elif path.suffix in WATCHED:
            yield path
