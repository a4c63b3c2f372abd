"""Which folders of an image hold programs besides the system's: reads the image, and nothing of a session.

The folders of the image's `PATH` decide which program a grader runs by a plain name, and they may lie
anywhere: in a virtual environment in `/opt`, in conda's folder, in a home. The rule weighs two agents:

- An agent that swaps `/opt/venv/bin/python`, or a module below `/opt/venv/lib`, must not be paid for it. So
  an installation is restored whole: the folder above a `bin`, if that is a virtual environment, a Python,
  conda's or a version manager's. Of other packages (`/opt/kafka`) the programs and their libraries are
  restored, and what tasks have changed stays: settings and data.
- What an agent did in the working directory or a home must be graded as it is. So nothing that is or holds
  one of them is restored; and below the working directory only such an installation, which no agent writes by
  hand. Of a top folder (`/app/bin`) the programs alone are restored, for images without a working directory.
"""

import os
import posixpath
import re
import stat
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import filterfalse
from pathlib import Path

from ors_server.sandboxes.cells.root_skeleton import MOUNT_POINTS, PROGRAM_FOLDERS, SYSTEM

MAX_LINKS = 40
"""Links that are followed on the way to a folder; as the kernel's own limit (path_resolution(7))."""
MAX_PREFIXES = 64
"""Folders that are restored for one image; each is a mount."""
_MAX_PROGRAMS = 10_000
"""Entries of a folder of programs that are looked at."""
MARKERS = frozenset({"pyvenv.cfg", "conda-meta", "shims"})
"""Entries of the top folder of a virtual environment, of conda's, and of version managers such as pyenv."""
_PROGRAM_NAMES = ("bin", "sbin", "shims")
_LIBRARIES = ("lib", "lib64", "libexec")
"""Folders next to a `bin` that its programs run or load."""
_STORES = ("nix/store", "gnu/store")
"""Folders in which every program is a package's, and links to others: they are restored whole."""
_SETTINGS = ("etc/alternatives", "etc/crypto-policies", "etc/perl")
"""Folders of settings that decide which programs, libraries and modules run: Debian's and Fedora's links from
`/usr` lead through the first two, and Perl imports from the third."""
_PYTHON_LIBRARY = re.compile(r"python3(?:\.\d+)?")
_IN_OPTIONS = frozenset(',:\\"\n')
"""Characters with a meaning in the options of an overlay, or for the shell that mounts it: a folder with one
in its path is left alone."""
Layers = list[tuple[int, Path]]
"""The folders of an image's layers that are one folder together, the highest first, with their numbers."""


@dataclass(frozen=True)
class ImagePath:
    """Where a path of an image leads."""

    path: str
    """Relative to the root, without a link in it; a part that does not exist is as it was stated."""
    layers: Layers
    """The folder's; empty if it is not a folder."""
    links: dict[str, str]
    """The links on the way, with their targets."""


@dataclass
class ImagePrograms:
    """Folders of an image with programs; all paths are relative to the root and have no link in them."""

    prefixes: dict[str, Layers] = field(default_factory=dict[str, Layers])
    """Folders outside the system's that graders see as the image has them; none is below another one."""
    folders: dict[str, Layers] = field(default_factory=dict[str, Layers])
    """All folders of programs, the system's among them."""
    links: dict[str, str] = field(default_factory=dict[str, str])
    """Links of the image on the way to the prefixes, with their targets."""


def step(layers: Layers, name: str) -> tuple[Layers, str | None]:
    """Return what an entry of an image's folder is, as an overlay would show it.

    Returns:
        The folders of its layers, if it is a folder; the target, if it is a link.
    """
    folders: Layers = []
    for number, folder in layers:
        entry = folder / name
        try:
            mode = entry.lstat().st_mode
        except OSError:
            continue
        if stat.S_ISLNK(mode) and not folders:
            return [], os.readlink(entry)  # noqa: PTH115  (exactly as it is)
        if not stat.S_ISDIR(mode):
            break  # a file, or the device that hides what lower layers have
        folders.append((number, entry))
    return folders, None


def walk(layers: Sequence[Path], path: str) -> ImagePath | None:
    """Follow a path through an image and its links; `None` if there are too many."""
    root = list(enumerate(layers))
    parts = deque(path.split("/"))
    way: list[tuple[str, Layers]] = []
    links: dict[str, str] = {}
    followed = 0
    while parts:
        part = parts.popleft()
        if part in {"", "."}:
            continue
        if part == "..":
            way = way[:-1]
            continue
        folders, target = step(way[-1][1] if way else root, part)
        if target is None:
            way.append((part, folders))
            continue
        followed += 1
        if followed > MAX_LINKS:
            return None
        links["/".join([*(name for name, _ in way), part])] = target
        way = [] if target.startswith("/") else way
        parts.extendleft(reversed(target.split("/")))
    return ImagePath("/".join(name for name, _ in way), way[-1][1] if way else root, links)


def holds(folder: str, path: str) -> bool:
    """Return whether a path is a folder or below it."""
    return path == folder or path.startswith(f"{folder}/")


@dataclass(frozen=True)
class ProgramRule:
    """Decides what is restored for one session."""

    layers: Sequence[Path]
    work: str
    """The working directory."""
    home: str
    """The home of the session's user."""

    def find(self, path_variable: str) -> ImagePrograms:
        """Return the folders of programs for a `PATH`, and what is restored because of them."""
        programs = ImagePrograms()
        for path in filterfalse(self._is_work, _SETTINGS):
            self._add(programs, ImagePath(path, [], {}), path)
        stated = [entry for entry in path_variable.split(":") if entry.startswith("/")]
        for entry in dict.fromkeys([*PROGRAM_FOLDERS, *stated]):
            folder = walk(self.layers, entry)
            if folder is None or not folder.path:
                continue
            programs.folders.setdefault(folder.path, folder.layers)
            for prefix in self._choose_prefixes(folder.path):
                self._add(programs, folder, prefix)
        # A virtual environment's python is a link to the installation that it was made with.
        for layers in list(programs.folders.values()):
            for name in sorted(names_in(layers))[:_MAX_PROGRAMS]:
                _, target = step(layers, name)
                if target is not None:
                    self._follow_program(programs, layers, name)
        for prefix in list(programs.prefixes):
            if any(holds(other, prefix) for other in programs.prefixes if other != prefix):
                del programs.prefixes[prefix]
        restored = (*SYSTEM, *programs.prefixes)
        for link in list(programs.links):
            if any(holds(folder, link) for folder in restored):
                del programs.links[link]
        return programs

    def _follow_program(self, programs: ImagePrograms, layers: Layers, name: str) -> None:
        number, folder = layers[0]
        path = f"{folder.relative_to(self.layers[number])}/{name}"
        program = walk(self.layers, path)
        if program is None or any(holds(top, program.path) for top in (*SYSTEM, *programs.prefixes)):
            return
        for prefix in self._choose_prefixes(posixpath.dirname(program.path)):
            if prefix in _STORES or self._is_installation(prefix):
                self._add(programs, program, prefix)

    def _add(self, programs: ImagePrograms, origin: ImagePath, prefix: str) -> None:
        folder = walk(self.layers, prefix)
        if folder is None or folder.path != prefix or len(programs.prefixes) >= MAX_PREFIXES:
            return
        programs.prefixes[prefix] = folder.layers
        programs.links.update(origin.links)

    def _choose_prefixes(self, folder: str) -> list[str]:
        """Return what is restored for a folder of programs; nothing of what is the session's to change."""
        if folder.split("/", maxsplit=1)[0] in {*SYSTEM, *MOUNT_POINTS, "sys"} or _IN_OPTIONS & set(folder):
            return []
        for store in _STORES:
            if holds(store, folder):
                return [] if self._is_work(store) else [store]
        above = posixpath.dirname(folder)
        work = self.work.strip("/")
        is_below = bool(work) and folder.startswith(f"{work}/")
        if is_below and not any(self._list_at(path) & MARKERS for path in (above, folder)):
            return []
        if above and posixpath.basename(folder) in _PROGRAM_NAMES and not self._is_work(above):
            if self._is_installation(above):
                return [above]
            if "/" in above:
                names = self._list_at(above)
                return [folder, *(f"{above}/{name}" for name in _LIBRARIES if name in names)]
        return [] if self._is_work(folder) else [folder]

    def _is_work(self, prefix: str) -> bool:
        """Return whether a folder is or holds the working directory or a home."""
        work, home = self.work.strip("/"), self.home.strip("/")
        is_home = prefix in {"root", "home"} or posixpath.dirname(prefix) == "home"
        return is_home or any(path and holds(prefix, path) for path in (work, home))

    def _is_installation(self, prefix: str) -> bool:
        """Return whether a folder is a Python or a manager of versions, and all of it decides what runs."""
        is_python = any(_PYTHON_LIBRARY.fullmatch(name) for name in self._list_at(f"{prefix}/lib"))
        return is_python or bool(self._list_at(prefix) & MARKERS)

    def _list_at(self, path: str) -> set[str]:
        folder = walk(self.layers, path)
        return set() if folder is None else names_in(folder.layers)


def names_in(layers: Layers) -> set[str]:
    """Return the names in an image's folder."""
    return {name for _, folder in layers for name in os.listdir(folder)}  # noqa: PTH208  (names only)
