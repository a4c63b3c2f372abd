"""Finds what a session has added to an image that would run, or be loaded, in the place of the image's own.

A file that a session has changed is covered by the image's, but programs, interpreters and the loader look in
several places, and take the first match. What an agent adds in an earlier one decides what a grader's program
does, and no file of the image has changed. Each rule names the search that it answers; everything else that a
session adds stays, as packages do that it has installed.
"""

import contextlib
import functools
import os
import posixpath
import re
import stat
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ors_server.sandboxes.cells.descriptors import opened
from ors_server.sandboxes.cells.overlay_copy import FOLDER_FLAGS, MAX_DEPTH, open_below, readable
from ors_server.sandboxes.cells.root_skeleton import SYSTEM, is_python_starter
from ors_server.sandboxes.cells.syscalls import INSIDE_ROOT, openat2
from ors_server.sandboxes.host.image_programs import ImagePrograms, Layers, holds, names_in, step, walk

_MAX_BYTES = 64 * 1024
"""Of a `.pth` file or of entry points; a longer one cannot be judged and is hidden."""
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_SITE_FOLDERS = ("site-packages", "dist-packages")
"""Folders whose `.pth` files Python reads before every program (Python: `site`)."""
_STANDARD_LIBRARY = re.compile(r"python3\.\d+")
_PYTHON_FOLDER = re.compile(r"python3(?:\.\d+)?")
_BELOW_PYTHON = re.compile(r"(?:^|/)python3(?:\.\d+)?(?:/|$)")
_LIBRARY_ARCHIVE = re.compile(r"python3\d+\.zip")
"""The first entry of Python's path: an archive in the place of the standard library."""
_MODULE_SUFFIXES = (".py", ".so", ".pyc")
_BYTECODE = "__pycache__"
_METADATA = (".dist-info", ".egg-info")
"""Ends of the names of folders that describe a package; Python compares them in lower case."""
_ENTRY_POINTS = "entry_points.txt"
_PLUGINS = b"pytest11"
"""The group of entry points that pytest imports before any test."""
_LIBRARY_FOLDERS = frozenset({"lib", "lib64", "local"})
_TRIPLET = re.compile(r"[\w.]+-linux-\w+")
_LIBRARY = re.compile(r".+\.so(?:\.[\d.]+)?")
_PROCESSOR_FOLDERS = frozenset({"tls", "haswell", "xeon_phi", "avx512_1", "x86_64"})
"""Folders in a library folder that the loader searches first, until glibc 2.36."""
_OPENSSL_SETTINGS = "openssl.cnf"
"""OpenSSL loads the modules that are named in it into every program."""
PERL_FOLDER = "etc/perl"
"""The first folder of Debian's Perl for modules, and meant for settings."""


@dataclass
class Shadows:
    """Paths relative to the root; none of them is in the image."""

    paths: list[str] = field(default_factory=list[str])
    links: list[str] = field(default_factory=list[str])
    """Links on the way to a folder of `PATH`, or of modules, that the image does not have."""
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
    _own_modules: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """Of folders, the modules of the image in them."""
    _own_packages: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """Of standard libraries, the packages that are imported after them."""
    _with_code: dict[tuple[int, int], bool] = field(default_factory=dict[tuple[int, int], bool])
    """Of folders on Python's path, by device and inode, whether Python's start runs code of theirs."""

    def find(self) -> Shadows:
        """Return what fresh programs must not see."""
        shadows = Shadows()
        self._find_programs(shadows)
        perl_link = self._find_added_link(PERL_FOLDER)
        shadows.links += [] if perl_link is None else [perl_link]
        for path in (*SYSTEM, *self.programs.prefixes):
            with contextlib.suppress(OSError), open_below(self.upper, path) as folder:
                original = walk(self.layers, path)
                is_same = original is not None and original.path == path
                layers = original.layers if original is not None and is_same else []
                self._look(shadows, folder, path, layers, 0)
        shadows.links = sorted(set(shadows.links))
        return shadows

    def _find_programs(self, shadows: Shadows) -> None:
        """Find programs in a folder of `PATH` with the name of one that the image has in another."""
        images = {path: names_in(layers) for path, layers in self.programs.folders.items()}
        everywhere = set[str]().union(*images.values())
        for path, names in images.items():
            if not any(holds(prefix, path) for prefix in (*SYSTEM, *self.programs.prefixes)):
                continue  # the session's work
            link = self._find_added_link(path)
            if link is not None:
                with contextlib.suppress(OSError), self._open_inside(path) as folder:
                    if _list(folder) & everywhere:
                        shadows.links.append(link)
                continue
            with contextlib.suppress(OSError), open_below(self.upper, path) as folder:
                for name in (_list(folder) & everywhere) - names:
                    if not stat.S_ISCHR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                        shadows.paths.append(f"{path}/{name}")

    def _find_added_link(self, path: str) -> str | None:
        """Return the first link of the session's on the way to a folder, where the image has nothing."""
        layers = list(enumerate(self.layers))
        parts = path.split("/")
        for end, name in enumerate(parts, 1):
            layers, target = step(layers, name)
            way = "/".join(parts[:end])
            if target is not None:
                return None
            with contextlib.suppress(OSError), self._open_inside(posixpath.dirname(way) or ".") as folder:
                mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
                if stat.S_ISLNK(mode) and not layers:
                    return way
        return None

    @contextlib.contextmanager
    def _open_inside(self, path: str) -> Generator[int]:
        """Open a folder of the session's; links are followed within its root."""
        folder = openat2(self.root, os.fsencode(path), FOLDER_FLAGS & ~os.O_NOFOLLOW, resolve=INSIDE_ROOT)
        try:
            yield folder
        finally:
            os.close(folder)

    def _look(self, shadows: Shadows, folder: int, path: str, layers: Layers, depth: int) -> None:
        if depth > MAX_DEPTH:
            return
        originals = names_in(layers)
        for name in sorted(_list(folder)):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISCHR(status.st_mode):
                continue
            below, is_folder = f"{path}/{name}", stat.S_ISDIR(status.st_mode)
            if name not in originals:
                in_cache = posixpath.basename(path) == _BYTECODE and name.endswith(".pyc")
                # In a folder that the image does not have, they are of modules that it does not have.
                if layers and (in_cache or name == _BYTECODE):
                    shadows.caches.append(below)
                    continue
                is_linked = self._is_linked_library(path, name, status.st_mode)
                may_hold = is_folder or stat.S_ISLNK(status.st_mode)
                if is_linked or self._is_shadow(folder, path, name, originals, may_hold=may_hold):
                    shadows.paths.append(below)
                    continue
            if is_folder:
                inner = step(layers, name)[0] if name in originals else []
                with contextlib.suppress(OSError), readable(folder, name, FOLDER_FLAGS) as descriptor:
                    self._look(shadows, descriptor, below, inner, depth + 1)

    def _is_linked_library(self, path: str, name: str, mode: int) -> bool:
        """Return whether a link may be the way to a folder of modules, where this does not look."""
        if not stat.S_ISLNK(mode):
            return False
        if name.lower().endswith(_METADATA) or name in _SITE_FOLDERS:
            return True
        if name in _LIBRARY_FOLDERS:
            return path in self._installations
        return bool(_PYTHON_FOLDER.fullmatch(name)) and posixpath.basename(path) in _LIBRARY_FOLDERS

    def _is_shadow(self, folder: int, path: str, name: str, originals: set[str], *, may_hold: bool) -> bool:
        """Return whether an added entry hides the image's own.

        Args:
            may_hold: Whether it is a folder, or a link, which may lead to one.
        """
        if is_python_starter(name) or name.endswith("._pth") or holds(PERL_FOLDER, path):
            return True
        if name == "pyvenv.cfg":
            # Next to an interpreter or above it, it names another standard library (PEP 405). A virtual
            # environment that the session has made has its own.
            return any(path in {program, posixpath.dirname(program)} for program in self.programs.folders)
        # The loader looks there before the folder itself (ld.so(8)).
        is_early = name in {"glibc-hwcaps", _OPENSSL_SETTINGS} or bool(_LIBRARY_ARCHIVE.fullmatch(name))
        if is_early or self._is_library_shadow(path, name, originals):
            return True
        if name.endswith(".pth") and posixpath.basename(path) in _SITE_FOLDERS:
            return self._runs_code(folder, path, name)
        if name == _ENTRY_POINTS and posixpath.basename(path).lower().endswith(_METADATA):
            return _has_plugins(folder, name)
        is_module = name.endswith(_MODULE_SUFFIXES) or (may_hold and "." not in name)
        return is_module and self._is_module_shadow(path, name.partition(".")[0], originals)

    def _is_library_shadow(self, path: str, name: str, originals: set[str]) -> bool:
        """Return whether an added library is loaded in the place of one of the image's."""
        if not _LIBRARY.fullmatch(name):
            return False
        is_way = (
            posixpath.basename(path) in _LIBRARY_FOLDERS and posixpath.dirname(path) in self._installations
        )
        # What is in the folder of a package that the session has installed is that package's own.
        is_searched = bool(originals) or is_way or posixpath.basename(path) in _PROCESSOR_FOLDERS
        return is_searched and name in self._libraries

    @functools.cached_property
    def _installations(self) -> set[str]:
        """Folders with programs and their libraries."""
        return {"usr", "usr/local", *self.programs.prefixes}

    @functools.cached_property
    def _libraries(self) -> set[str]:
        """The image's libraries: a program's own path for them comes before the system's (ld.so(8))."""
        names: set[str] = set()
        for prefix in (*SYSTEM, "usr/local", *self.programs.prefixes):
            for path in (prefix, *(f"{prefix}/{name}" for name in ("lib", "lib64"))):
                folder = walk(self.layers, path)
                for name in () if folder is None else names_in(folder.layers):
                    if _LIBRARY.fullmatch(name):
                        names.add(name)
                    elif _TRIPLET.fullmatch(name):
                        names |= names_in(step(folder.layers, name)[0]) if folder is not None else set()
        return names

    def _is_module_shadow(self, path: str, module: str, originals: set[str]) -> bool:
        """Return whether an added module is imported in the place of one of the image's."""
        if not _BELOW_PYTHON.search(path):
            return False
        own = self._own_modules.get(path)
        if own is None:
            own = {name.partition(".")[0] for name in originals if name.endswith(_MODULE_SUFFIXES)}
            self._own_modules[path] = own
        # A package, and a module in machine code, is imported before a plain module of the same folder.
        if module in own:
            return True
        library = path.removesuffix("/lib-dynload")
        version = posixpath.basename(library)
        if not _STANDARD_LIBRARY.fullmatch(version):
            return False
        packages = self._own_packages.get(library)
        if packages is None:
            # The standard library is imported before all packages; two of the folders are Debian's.
            paths = [f"{library}/{site}" for site in _SITE_FOLDERS]
            paths += ["usr/lib/python3/dist-packages", f"usr/local/lib/{version}/dist-packages"]
            folders = [folder for path in paths if (folder := walk(self.layers, path)) is not None]
            packages = {name.partition(".")[0] for folder in folders for name in names_in(folder.layers)}
            self._own_packages[library] = packages
        return module in packages

    def _runs_code(self, folder: int, path: str, name: str) -> bool:
        """Return whether Python's start runs code because of an added `.pth` file.

        Lines that only name a folder stay: packages that are installed to be edited have such lines.
        """
        content = _read(folder, name)
        if content is None:
            return True
        # Versions of Python differ in the encoding, and in what ends a line.
        texts = [content.decode(encoding, "surrogateescape") for encoding in ("utf-8-sig", "latin-1")]
        lines = {line.rstrip() for text in texts for line in text.splitlines()}
        if any(line.startswith(("import ", "import\t")) for line in lines):
            return True
        paths = {posixpath.join(f"/{path}", line) for line in lines if line and not line.startswith("#")}
        return any(self._has_code(entry) for entry in paths)

    def _has_code(self, path: str) -> bool:
        """Return whether a folder that is added to Python's path has what Python or pytest imports first."""
        try:
            with self._open_inside(path) as folder:
                status = os.fstat(folder)
                key = (status.st_dev, status.st_ino)
                # Many lines, of many files, may name one folder of many names.
                if key not in self._with_code:
                    self._with_code[key] = self._has_starter(folder, path)
                return self._with_code[key]
        except OSError as error:
            # A file may be an archive of modules.
            return not isinstance(error, FileNotFoundError)

    def _has_starter(self, folder: int, path: str) -> bool:
        for name in _list(folder):
            if is_python_starter(name):
                return True
            if name.lower() == "egg-info" or name.lower().endswith(_METADATA):
                with (
                    contextlib.suppress(FileNotFoundError, NotADirectoryError),
                    self._open_inside(f"{path}/{name}") as inner,
                ):
                    os.stat(_ENTRY_POINTS, dir_fd=inner, follow_symlinks=False)
                    if _has_plugins(inner, _ENTRY_POINTS):
                        return True
        return False


def _has_plugins(folder: int, name: str) -> bool:
    """Return whether a package's entry points have plugins of pytest, or cannot be judged."""
    content = _read(folder, name)
    return content is None or _PLUGINS in content


def _read(folder: int, name: str) -> bytes | None:
    """Return a small file's content; `None` if it cannot be judged, such as a link or a long file."""
    try:
        with readable(folder, name, _FILE_FLAGS) as file:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                return None
            content = os.pread(file, _MAX_BYTES + 1, 0)
    except OSError:
        return None
    return content if len(content) <= _MAX_BYTES else None


def _list(folder: int) -> set[str]:
    """Return the names in an open folder; the descriptor may be used again."""
    with opened(".", FOLDER_FLAGS, dir_fd=folder) as descriptor:
        return set(os.listdir(descriptor))  # noqa: PTH208  (names only)
