"""Finds what a session has added to an image that would run, or be loaded, in the place of the image's own.

A file that a session has changed is covered by the image's, but programs, interpreters and the loader look in
several places, and take the first match. What an agent adds in an earlier one decides what a grader's program
does, and no file of the image has changed. Each rule names the search that it answers; everything else that a
session adds stays, as packages do that it has installed.
"""

import contextlib
import os
import posixpath
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ors_server.sandboxes.cells.descriptors import opened
from ors_server.sandboxes.cells.overlay_copy import FOLDER_FLAGS, MAX_DEPTH, open_below, readable
from ors_server.sandboxes.cells.root_skeleton import SYSTEM, is_python_starter
from ors_server.sandboxes.cells.syscalls import Resolve, openat2
from ors_server.sandboxes.host.image_programs import ImagePrograms, Layers, holds, step, walk

_MAX_PTH_BYTES = 64 * 1024
"""Of a `.pth` file; a longer one cannot be judged and is hidden. Python's packages write a line or two."""
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_SITE_FOLDERS = ("site-packages", "dist-packages")
"""Folders whose `.pth` files Python reads before every program (Python: `site`)."""
_STANDARD_LIBRARY = re.compile(r"python3\.\d+")
_PYTHON_FOLDER = re.compile(r"python3(?:\.\d+)?")
_LIBRARY_ARCHIVE = re.compile(r"python3\d+\.zip")
"""The first entry of Python's path: an archive in the place of the standard library."""
_MODULE_SUFFIXES = (".py", ".so", ".pyc")
_BYTECODE = "__pycache__"


@dataclass
class Shadows:
    """Paths relative to the root; none of them is in the image."""

    paths: list[str] = field(default_factory=list[str])
    caches: list[str] = field(default_factory=list[str])
    """Compiled modules: honest programs leave many, which are hidden with the few that were forged."""


@dataclass(frozen=True)
class ShadowFinder:
    """Finds what hides the image's own in one session."""

    layers: Sequence[Path]
    programs: ImagePrograms
    upper: int
    """Descriptor of the folder with the session's changes."""
    root: int
    """Descriptor of the session's root."""

    def find(self) -> Shadows:
        """Return what fresh programs must not see."""
        shadows = Shadows()
        self._find_programs(shadows)
        for path in (*SYSTEM, *self.programs.prefixes):
            with contextlib.suppress(OSError), open_below(self.upper, path) as folder:
                original = walk(self.layers, path)
                is_same = original is not None and original.path == path
                layers = original.layers if original is not None and is_same else []
                self._look(shadows, folder, path, layers, 0)
        return shadows

    def _find_programs(self, shadows: Shadows) -> None:
        """Find programs in a folder of `PATH` with the name of one that the image has in another."""
        images = {path: _names(layers) for path, layers in self.programs.folders.items()}
        everywhere = set[str]().union(*images.values())
        for path, names in images.items():
            if not any(holds(prefix, path) for prefix in (*SYSTEM, *self.programs.prefixes)):
                continue  # the session's work
            with contextlib.suppress(OSError), open_below(self.upper, path) as folder:
                for name in (_list(folder) & everywhere) - names:
                    if not stat.S_ISCHR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                        shadows.paths.append(f"{path}/{name}")

    def _look(self, shadows: Shadows, folder: int, path: str, layers: Layers, depth: int) -> None:
        if depth > MAX_DEPTH:
            return
        originals = _names(layers)
        for name in sorted(_list(folder)):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISCHR(status.st_mode):
                continue
            below, is_folder = f"{path}/{name}", stat.S_ISDIR(status.st_mode)
            if name not in originals:
                in_cache = posixpath.basename(path) == _BYTECODE and name.endswith(".pyc")
                if in_cache or name == _BYTECODE:
                    shadows.caches.append(below)
                    continue
                if self._is_shadow(folder, path, name, originals, is_folder=is_folder):
                    shadows.paths.append(below)
                    continue
            if is_folder:
                inner = step(layers, name)[0] if name in originals else []
                with contextlib.suppress(OSError), readable(folder, name, FOLDER_FLAGS) as descriptor:
                    self._look(shadows, descriptor, below, inner, depth + 1)

    def _is_shadow(self, folder: int, path: str, name: str, originals: set[str], *, is_folder: bool) -> bool:
        if is_python_starter(name) or name.endswith("._pth"):
            return True
        if name == "pyvenv.cfg":
            # Next to an interpreter or above it, it names another standard library (PEP 405). A virtual
            # environment that the session has made has its own.
            return any(path in {program, posixpath.dirname(program)} for program in self.programs.folders)
        # The loader looks there before the folder itself (ld.so(8)).
        if name == "glibc-hwcaps" or _LIBRARY_ARCHIVE.fullmatch(name):
            return True
        if name.endswith(".pth") and posixpath.basename(path) in _SITE_FOLDERS:
            return self._runs_code(folder, path, name)
        is_module = "." not in name if is_folder else name.endswith(_MODULE_SUFFIXES)
        return is_module and self._is_module_shadow(path, name.partition(".")[0], originals)

    def _is_module_shadow(self, path: str, module: str, originals: set[str]) -> bool:
        """Return whether an added module is imported in the place of one of the image's."""
        if not any(_PYTHON_FOLDER.fullmatch(part) for part in path.split("/")):
            return False
        # A package, and a module in machine code, is imported before a plain module of the same folder.
        if any(own.partition(".")[0] == module for own in originals if own.endswith(_MODULE_SUFFIXES)):
            return True
        library = path.removesuffix("/lib-dynload")
        version = posixpath.basename(library)
        if not _STANDARD_LIBRARY.fullmatch(version):
            return False
        # The standard library is imported before all packages; two of the folders are Debian's.
        paths = [f"{library}/{site}" for site in _SITE_FOLDERS]
        paths += ["usr/lib/python3/dist-packages", f"usr/local/lib/{version}/dist-packages"]
        folders = [folder for path in paths if (folder := walk(self.layers, path)) is not None]
        return any(own.partition(".")[0] == module for folder in folders for own in _names(folder.layers))

    def _runs_code(self, folder: int, path: str, name: str) -> bool:
        """Return whether Python's start runs code because of an added `.pth` file.

        Lines that only name a folder stay: packages that are installed to be edited have such lines.
        """
        try:
            with readable(folder, name, _FILE_FLAGS) as file:
                if not stat.S_ISREG(os.fstat(file).st_mode):
                    return True
                content = os.pread(file, _MAX_PTH_BYTES + 1, 0)
        except OSError:
            return True  # such as a link
        if len(content) > _MAX_PTH_BYTES:
            return True
        # Versions of Python differ in the encoding, and in what ends a line.
        texts = [content.decode(encoding, "surrogateescape") for encoding in ("utf-8-sig", "latin-1")]
        lines = {line.rstrip() for text in texts for line in text.splitlines()}
        if any(line.startswith(("import ", "import\t")) for line in lines):
            return True
        paths = {posixpath.join(f"/{path}", line) for line in lines if line and not line.startswith("#")}
        return any(self._has_starter(entry) for entry in paths)

    def _has_starter(self, path: str) -> bool:
        """Return whether a folder that is added to Python's path has what Python imports at its start."""
        inside = Resolve.IN_ROOT | Resolve.NO_MAGICLINKS
        try:
            folder = openat2(self.root, os.fsencode(path), FOLDER_FLAGS & ~os.O_NOFOLLOW, resolve=inside)
        except OSError as error:
            # A file may be an archive of modules.
            return not isinstance(error, FileNotFoundError)
        with opened(".", FOLDER_FLAGS, dir_fd=folder) as descriptor:
            os.close(folder)
            return any(is_python_starter(name) for name in _list(descriptor))


def _list(folder: int) -> set[str]:
    """Return the names in an open folder; the descriptor may be used again."""
    with opened(".", FOLDER_FLAGS, dir_fd=folder) as descriptor:
        return set(os.listdir(descriptor))  # noqa: PTH208  (names only)


def _names(layers: Layers) -> set[str]:
    return {name for _, folder in layers for name in os.listdir(folder)}  # noqa: PTH208  (names only)
