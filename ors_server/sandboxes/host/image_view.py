"""Plans what fresh programs see of a session's root over an image: the image's own programs, as they were.

Invariants:

- Every mount point of a view lies in folders that the server has made: its own layer, the highest of the
  view's lower ones, has the folders above it and the image's links to it. What the agent has put in their
  place is neither followed nor removed.
- A program that only reads sees a view of the whole root, of which no process of the agent's can rename
  a part.
- A program that may change the session's files is to change those, and a view would keep what it writes for
  itself. So it has views of the restored folders of `/` alone. When none of the agent's processes runs,
  nested folders are mounted on the session's own instead, if they are where the image has them. While
  processes run, they could rename the folders above such a mount point; it is used then, too, in the folders
  of `/` with the working directory and the homes, because what is written there must stay.
- All of it takes time with the number of the agent's files, so it runs in a thread, on descriptors that no
  other task closes.
"""

import contextlib
import os
import posixpath
import stat
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ors_server.sandboxes.cells.descriptors import opened
from ors_server.sandboxes.cells.root_skeleton import LOADER_FILES, PYTHON_STARTERS, SYSTEM
from ors_server.sandboxes.cells.server_state import remove_entry
from ors_server.sandboxes.cells.syscalls import INSIDE_ROOT, Resolve, openat2
from ors_server.sandboxes.host.image_mounts import DIRECT, INSIDE, TOP, WHOLE, lower_layers
from ors_server.sandboxes.host.image_programs import ImagePrograms, Layers, holds, step
from ors_server.sandboxes.host.image_shadows import ShadowFinder

_MAX_BYTES = 8 << 20
_MODULE_SETTINGS = ("ssl/openssl.cnf", "pki/tls/openssl.cnf")
"""Files of `/etc` that name modules, which every program with OpenSSL loads; the second is Fedora's."""
_STARTER = f"{PYTHON_STARTERS[0]}.py"


@dataclass(frozen=True)
class RestoredFolder:
    """A folder as fresh programs see it."""

    kind: str
    """`TOP`, `INSIDE` or `DIRECT`, as `MOUNT_VIEW` has them."""
    path: str
    lower: str
    """The lower layers of an overlay, above the session's own folder."""


@dataclass(frozen=True)
class RootFiles:
    """Puts entries into a session's root, of which no path has a link."""

    root: int
    """Descriptor of the root."""
    first_id: int | None
    """The host's id of the sandbox's root; `None` if everything belongs to one user."""
    is_layer: bool = False
    """Whether it is a layer above a session's root rather than a root."""

    def put_link(self, name: str, target: str) -> None:
        """Make a link, in the place of anything else."""
        with contextlib.suppress(OSError):
            if os.readlink(name, dir_fd=self.root) == target:
                return
        with opened(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self.root) as root:
            remove_entry(root, name)
            os.symlink(target, name, dir_fd=root)
            self.give_to_root(root, name)

    def put_folder(self, name: str, parent: int | None = None) -> None:
        """Make a folder unless it exists, in the place of anything else."""
        above = self.root if parent is None else parent
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISDIR(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode):
                return
            os.unlink(name, dir_fd=above)
        os.mkdir(name, 0o755, dir_fd=above)
        self.give_to_root(above, name)

    def give_to_root(self, folder: int, name: str) -> None:
        """Make the sandbox's root the owner of what the server has made."""
        if self.first_id is not None:
            os.chown(name, self.first_id, self.first_id, dir_fd=folder, follow_symlinks=False)

    def put_file(self, folder: int, name: str, content: bytes | None) -> None:
        """Make a file with this content; without, let nothing have its name."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with contextlib.suppress(OSError), opened(name, flags, dir_fd=folder) as file:
            is_plain = stat.S_ISREG(os.fstat(file).st_mode)
            if content is not None and is_plain and os.pread(file, len(content) + 1, 0) == content:
                return
        remove_entry(folder, name)
        if content is not None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with opened(name, flags, dir_fd=folder) as file, open(file, "wb", closefd=False) as out:
                out.write(content)
                os.fchmod(file, 0o644)
            self.give_to_root(folder, name)
        elif self.is_layer:
            os.mknod(name, stat.S_IFCHR, dir_fd=folder)  # hides the session's (overlayfs.rst)

    def has_plainly(self, path: str, target: str | None) -> bool:
        """Return whether a folder, or a link with this target, is at a path without a link above it."""
        flags, resolve = os.O_PATH | os.O_NOFOLLOW, Resolve.NO_SYMLINKS
        try:
            if target is None:
                os.close(openat2(self.root, os.fsencode(path), flags | os.O_DIRECTORY, resolve=resolve))
                return True
            above = os.fsencode(posixpath.dirname(path))
            folder = openat2(self.root, above, flags | os.O_DIRECTORY, resolve=resolve)
        except OSError:
            return False
        try:
            return os.readlink(posixpath.basename(path), dir_fd=folder) == target
        except OSError:
            return False
        finally:
            os.close(folder)


@dataclass
class ImageView:
    """The plan of one fresh program's view."""

    layers: Sequence[Path]
    files: RootFiles
    upper: int
    """Descriptor of the folder with the session's changes."""
    data: Path
    """The mount point of the session's tmpfs."""
    own: Path
    """The layer that is made for this view; it does not exist yet."""
    mount_points: Sequence[str]
    """Folders of `/` that bubblewrap mounts over."""
    rows: list[RestoredFolder] = field(default_factory=list[RestoredFolder])
    _made: set[str] = field(default_factory=set[str])
    """Folders of the layer; an agent's may be many and deep."""

    def plan(self, programs: ImagePrograms, keeps: Collection[str] | None, *, is_alone: bool) -> None:
        """Make the layer, fill `rows`, and put the image's links and settings back.

        Args:
            keeps: Folders of `/` in which the program's writes must stay in any case; `None` if it reads.
            is_alone: Whether none of the agent's processes runs.

        Raises:
            OSError: Something could not be written, such as on a full disk.
        """
        self.own.mkdir(mode=0o755)
        self.own.chmod(0o755)
        self._give("")
        shadows = ShadowFinder(self.layers, programs, self.upper, self.files.root).find()
        hidden = {*shadows.paths, *shadows.caches, *shadows.links}
        with opened(self.own, os.O_RDONLY | os.O_DIRECTORY) as own:
            files = RootFiles(own, self.files.first_id, is_layer=True) if keeps is None else self.files
            if keeps is None:
                self.rows.append(RestoredFolder(WHOLE, "", str(self.own)))
                for name in self.mount_points:
                    files.put_folder(name)
            self._restore_settings(files)
            cut = {link.split("/")[0] for link in shadows.links}
            self._add_tops(
                programs,
                files,
                hidden,
                shadows.links,
                lambda top: keeps is not None and top not in cut and (is_alone or top in keeps),
            )
        self._hide(list(hidden))

    def _add_tops(
        self,
        programs: ImagePrograms,
        files: RootFiles,
        hidden: set[str],
        hidden_links: list[str],
        is_direct: Callable[[str], bool],
    ) -> None:
        root = list(enumerate(self.layers))
        tops: dict[str, list[tuple[str, Layers]]] = {}
        for name in SYSTEM:
            folders, target = step(root, name)
            if target is not None:
                files.put_link(name, target)
            else:
                tops[name] = [(name, folders)]
        for path, folders in programs.prefixes.items():
            tops.setdefault(path.split("/")[0], []).append((path, folders))
        for path, target in programs.links.items():
            if "/" in path:
                tops.setdefault(path.split("/")[0], [])
            else:
                files.put_link(path, target)
        for top, entries in tops.items():
            # What the image lacks needs a view only for what is hidden in it.
            rows = [row for row in entries if row[1] or any(path.startswith(f"{row[0]}/") for path in hidden)]
            is_cut = any(holds(top, link) for link in hidden_links)
            links = {path: to for path, to in programs.links.items() if path.startswith(f"{top}/")}
            if rows or links or is_cut:
                self._add_top(files, rows, links, top, is_direct=is_direct(top), is_cut=is_cut)

    def _add_top(
        self,
        files: RootFiles,
        entries: list[tuple[str, Layers]],
        links: dict[str, str],
        top: str,
        *,
        is_direct: bool,
        is_cut: bool,
    ) -> None:
        """Add a folder of `/` with what is restored in it.

        Args:
            is_cut: Whether a link in it is hidden that is the way to a folder of programs.
        """
        nested = [path for path, _ in entries if path != top]
        plain = [(path, None) for path in nested] + list(links.items())
        is_direct = bool(plain) and is_direct and all(self.files.has_plainly(*entry) for entry in plain)
        if not is_direct:
            files.put_folder(top)
        for path in [*([] if is_direct else [top]), *nested]:
            self._make_folders(path)
        if (plain or is_cut) and not is_direct and not any(path == top for path, _ in entries):
            self.rows.append(RestoredFolder(TOP, top, str(self.own / top)))
            for path, target in links.items():
                self._make_folders(posixpath.dirname(path))
                (self.own / path).symlink_to(target)
                self._give(path)
        for path, folders in entries:
            kind = TOP if path == top else DIRECT if is_direct else INSIDE
            lower = lower_layers(self.data, tuple(number for number, _ in folders), path)
            self.rows.append(
                RestoredFolder(kind, path, ":".join(filter(None, (str(self.own / path), lower))))
            )

    def _hide(self, paths: list[str]) -> None:
        """Make what hides these entries of the session's in an overlay: devices 0:0 (overlayfs.rst)."""
        above = None
        for path in sorted(paths, key=lambda path: path.split("/")):
            if above is not None and holds(above, path):
                continue
            self._make_folders(posixpath.dirname(path))
            os.mknod(f"{self.own}/{path}", stat.S_IFCHR)
            above = path

    def _make_folders(self, path: str) -> None:
        missing: list[str] = []
        while path and path not in self._made:
            missing.append(path)
            path = posixpath.dirname(path)
        for way in reversed(missing):
            folder = f"{self.own}/{way}"
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder)  # noqa: PTH102  (a Path of each deep folder would take most of the time)
                os.chmod(folder, 0o755)  # noqa: PTH101, S103  (the image's folder covers it)
                self._give(way)
            self._made.add(way)

    def _give(self, path: str) -> None:
        if self.files.first_id is not None:
            os.chown(f"{self.own}/{path}", self.files.first_id, self.files.first_id, follow_symlinks=False)

    def _restore_settings(self, files: RootFiles) -> None:
        """Put the loader's settings, OpenSSL's, and what Debian's Python imports first, back into `/etc`."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
        files.put_folder("etc")
        with opened("etc", flags, dir_fd=files.root) as etc:
            for name in LOADER_FILES:
                files.put_file(etc, name, read_in_image(self.layers, f"etc/{name}"))
            starters = {path.name for layer in self.layers for path in layer.glob("etc/python3*")}
            for path in (*(f"{name}/{_STARTER}" for name in sorted(starters)), *_MODULE_SETTINGS):
                self._restore_nested(files, etc, path)

    def _restore_nested(self, files: RootFiles, etc: int, path: str) -> None:
        """Put a file below a folder of `/etc` back, if the image has that folder."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
        *above, name = path.split("/")
        if not any((layer / "etc" / posixpath.dirname(path)).is_dir() for layer in self.layers):
            return
        with contextlib.ExitStack() as stack:
            folder = etc
            for part in above:
                files.put_folder(part, folder)
                folder = stack.enter_context(opened(part, flags, dir_fd=folder))
            files.put_file(folder, name, read_in_image(self.layers, f"etc/{path}"))


def read_in_image(layers: Sequence[Path], path: str, max_bytes: int = _MAX_BYTES) -> bytes | None:
    """Return the first bytes of a plain file of an image; `None` if it has no such file.

    Links are followed within the image's folders.
    """
    for layer in layers:
        folder = os.open(layer, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            file = openat2(folder, os.fsencode(path), os.O_RDONLY | os.O_NONBLOCK, resolve=INSIDE_ROOT)
        except OSError:
            continue
        finally:
            os.close(folder)
        with open(file, "rb") as content:  # noqa: PTH123  (a descriptor)
            return content.read(max_bytes)
    return None
