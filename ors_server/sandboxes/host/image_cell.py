"""Sandboxes whose root is an image: bubblewrap over an overlay, which the session changes for itself.

Invariants:

- The image's folders are never written: they are the lower layers of overlays alone.
- With root, a session has a range of ids, in a user namespace that the server makes; the image's root is the
  lowest of them. Its processes have the capabilities of a Docker container within that namespace, and none
  on the host. Without root a session has one id, and its only user is root.
- Mount points directly below `/` are made again before each start, as in every whole root (`root_view`).
- Fresh programs see what the image had below the system's folders as it was: what an agent has put in the
  place of a program, of a library or of the loader's configuration is neither run nor read.
"""

import contextlib
import fcntl
import os
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import override

from ors_server.sandboxes.base import ImageTree, Limits, SandboxRoot
from ors_server.sandboxes.cells.cell import FreshFolders
from ors_server.sandboxes.cells.descriptors import close_all, opened
from ors_server.sandboxes.cells.fresh_process import ProcessStreams
from ors_server.sandboxes.cells.overlay_copy import (
    OverlayReader,
    OverlayWriter,
    changed_files,
    find_added,
)
from ors_server.sandboxes.cells.root_skeleton import (
    CONTROL,
    FRESH_FILES,
    FRESH_HOME,
    LOADER_FILES,
    PROGRAM_FOLDERS,
    PYTHON_STARTERS,
    SYSTEM,
)
from ors_server.sandboxes.cells.root_skeleton import STATE as STATE_PATH
from ors_server.sandboxes.cells.server_state import ServerState, remove_entry
from ors_server.sandboxes.cells.syscalls import Resolve, openat2
from ors_server.sandboxes.cells.uids import IDS_OF_IMAGES
from ors_server.sandboxes.fresh import ROOT_NAMES, FreshProgram
from ors_server.sandboxes.host.bubblewrap_cell import BubblewrapCell, set_variables
from ors_server.sandboxes.host.image_mounts import (
    MOUNT_IMAGE,
    MOUNT_VIEW,
    ROOT,
    ROOT_OPTIONS,
    STATE,
    UPPER,
    USER_OPTIONS,
    VIEW,
    lower_layers,
    make_root,
    make_user_namespace,
)
from ors_server.sandboxes.sandbox_errors import SandboxStartError
from ors_server.sandboxes.shell_scripts import EnforcedLimits, SandboxLayout, ulimits

MOUNT_POINTS = ("proc", "dev", *(path.lstrip("/") for path in (CONTROL, STATE_PATH, FRESH_HOME, FRESH_FILES)))
CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID")
"""Those that root has in a container of Docker, without the ones for devices and networks."""
_HOSTS = b"127.0.0.1 localhost sandbox\n::1 localhost\n"
_INSIDE = Resolve.IN_ROOT | Resolve.NO_MAGICLINKS
_MAX_BYTES = 8 << 20
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
# User namespaces below the session's are refused by the kernel, not only by the filter.
_SEAL_NAMESPACE = 'echo 0 >/proc/sys/user/max_user_namespaces || exit 75; exec "$@"'
_LIMIT_PROCESSES = 'ulimit -p {pids}; exec "$@"'


@dataclass(frozen=True)
class ImageUser:
    """A user inside of a sandbox."""

    uid: int = 0
    gid: int = 0
    name: str = "root"
    home: str = "/root"


@dataclass(frozen=True)
class RestoredFolder:
    """A folder of the system as fresh programs see it."""

    name: str
    lower: str
    """The image's folders, as the lower layers of an overlay."""
    hidden: tuple[str, ...]
    """Paths in it that the session has added, and fresh programs do not see."""


class ImageCell(BubblewrapCell):
    """One session's namespaces over an image."""

    fresh_dir = FRESH_FILES

    def __init__(self, state: ServerState, limits: Limits, root: SandboxRoot, image: ImageTree) -> None:
        self.image = image
        self._user = find_user(image.layers, root.user)
        self._user_namespace = self._open_namespace = -1
        self._held: list[int] = []
        self._first_id: int | None = None
        if state.uids is None:
            self._refuse_ids(self._user, root.user)
        for program in ("bin/sh", "bin/bash"):
            if read_in_image(image.layers, program, 0) is None:
                raise SandboxStartError(
                    f"the image {image.image_id[:12]} has no /{program}, which a session's shell needs"
                )
        self._refuse_links()
        super().__init__(state, limits, root)

    @staticmethod
    def _refuse_ids(user: ImageUser, stated: str) -> None:
        if user.uid:
            raise SandboxStartError(
                f"the image's user is {stated!r}: only a server with root has several users in a sandbox; "
                "state the user 'root', or run the server as root"
            )

    @override
    def check_user(self, user: str) -> None:
        image_user = find_user(self.image.layers, user)
        if self._first_id is None:
            self._refuse_ids(image_user, user)

    def _refuse_links(self) -> None:
        """Refuse an image in which a mount point is a link: what is mounted there would be elsewhere."""
        for layer in self.image.layers:
            for name in MOUNT_POINTS:
                if (layer / name).is_symlink() or (layer / name).is_file():
                    raise SandboxStartError(
                        f"/{name} of the image {self.image.image_id[:12]} is not a folder"
                    )

    @override
    def make_layout(self) -> SandboxLayout:
        root, user = self._image_root(), self._user
        return SandboxLayout(
            work=root.work_dir,
            home=user.home,
            temporary="/tmp",  # noqa: S108 # the sandbox's own
            control=CONTROL,
            state=STATE_PATH,
            user=user.name,
            variables=root.variables,
        )

    def _image_root(self) -> SandboxRoot:
        if self.root is None:
            raise SandboxStartError("a session with an image has a root")
        return self.root

    @override
    def prepare(self) -> None:
        for layer in self.image.layers:
            # Until the end: an image of the cache is removed only when no session uses it.
            self._held.append(os.open(layer, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            fcntl.flock(self._held[-1], fcntl.LOCK_SH)
        self._first_id = self._folder.owner
        if self._first_id is not None:
            self.owner = self._first_id + self._user.uid
            self._user_namespace = make_user_namespace(self._first_id)
            if self._user.uid:
                self._admit_users()
        super().prepare()

    def _admit_users(self) -> None:
        """Let several of the session's ids pass the server's folders: root's, and a user's.

        No other process knows the folder above them, which cannot be listed.
        """
        for folder in (self._folder.path, self.control.parent):
            folder.chmod(0o711)
        if self._files >= 0:
            os.chmod(".", 0o711, dir_fd=self._files)  # noqa: S103  (the session's own ids)

    @override
    def spawn_first(self, slave: int) -> "subprocess.Popen[bytes]":
        if self._first_id is not None and not self._namespaces:
            self._mount(self._first_id)
        return super().spawn_first(slave)

    def _mount(self, first_id: int) -> None:
        mode = "0711" if self._user.uid else "0700"
        options = f"{self._tmpfs_options()},mode={mode},uid={first_id},gid={first_id}"
        root = make_root(self._data, self.image.layers, options, first_id, self._user_namespace)
        self._namespaces = [root.mounts]
        self._files = root.files
        self._work = os.open(ROOT, _FOLDER | os.O_NOFOLLOW, dir_fd=root.files)
        self._complete()

    def _tmpfs_options(self) -> str:
        limits = self.limits
        return f"size={limits.disk_bytes},nr_inodes={limits.inodes}"

    @override
    def hold(self, folder: str) -> None:
        super().hold(folder)
        self._complete()

    def _complete(self) -> None:
        """Make what every session needs and an image may lack."""
        first, root = self._first_id, self._work
        if first is not None:
            os.chown(STATE, first + self._user.uid, first + self._user.gid, dir_fd=self._files)
        for path, mode in (
            ("tmp", 0o1777),
            ("etc", 0o755),
            (self._user.home, 0o755),
            (self.layout.work, 0o755),
        ):
            self._make_folder(path.strip("/"), mode)
        if first is not None and self._user.uid:
            # The cache has every file as root's. A user owns at least his home.
            home = os.fsencode(self._user.home.lstrip("/") or ".")
            with contextlib.suppress(OSError):
                folder = openat2(root, home, os.O_RDONLY | os.O_DIRECTORY, resolve=_INSIDE)
                os.fchown(folder, first + self._user.uid, first + self._user.gid)
                os.close(folder)
        with contextlib.suppress(OSError):
            flags = os.O_RDWR | os.O_CREAT | os.O_NONBLOCK
            hosts = openat2(root, b"etc/hosts", flags, mode=0o644, resolve=_INSIDE)
            try:
                if stat.S_ISREG(os.fstat(hosts).st_mode) and not os.fstat(hosts).st_size:
                    os.write(hosts, _HOSTS)
                    os.fchown(hosts, -1 if first is None else first, -1 if first is None else first)
            finally:
                os.close(hosts)

    def _make_folder(self, path: str, mode: int) -> None:
        """Make a folder and those above it, where they are missing; links are followed within the root."""
        parts = [part for part in path.split("/") if part]
        for number, part in enumerate(parts):
            above = "/".join(parts[:number]) or "."
            folder = openat2(self._work, os.fsencode(above), os.O_RDONLY | os.O_DIRECTORY, resolve=_INSIDE)
            try:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
                    os.chmod(part, mode if number == len(parts) - 1 else 0o755, dir_fd=folder)
                    self._give_to_root(folder, part)
            finally:
                os.close(folder)

    # Copies

    @override
    def renew(self) -> bool:
        close_all(self._files, self._work, *self._namespaces)
        self._files = self._work = -1
        self._namespaces = []
        self.was_used = False
        return True

    @override
    def save_files(self, descriptor: int) -> bool:
        with os.fdopen(os.dup(descriptor), "wb") as out:
            writer = OverlayWriter(out, self._first_id)
            for name in (UPPER, STATE):
                with opened(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._files) as folder:
                    writer.write_all(folder)
        return True

    @override
    def load_files(self, descriptor: int) -> bool:
        self.was_used = True
        with os.fdopen(os.dup(descriptor), "rb") as source:
            reader = OverlayReader(source, self._first_id)
            for name in (ROOT, STATE):
                with opened(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._files) as folder:
                    reader.read(folder)
        return True

    @override
    def restored_files(self) -> list[str]:
        if self._image_root().keeps_system:
            return []
        paths: set[str] = set()
        flags = os.O_RDONLY | os.O_DIRECTORY
        for layer in self.image.layers:
            with opened(UPPER, flags, dir_fd=self._files) as upper, opened(str(layer), flags) as lower:
                paths |= set(changed_files(upper, lower, SYSTEM, self.limits.entries))
        return sorted(paths | {f"/{path}" for path in self._added_shadows()})[: self.limits.entries]

    def _added_shadows(self) -> list[str]:
        """Return files that the session has added and that would be run for the image's own.

        Those are programs in a folder of `PATH` with the name of a program that the image has in another one,
        and the modules that Python runs before every program.
        """
        programs: dict[str, set[str]] = {}
        for layer in self.image.layers:
            for folder in PROGRAM_FOLDERS:
                if not (layer / folder.split("/")[0]).is_symlink():
                    with contextlib.suppress(OSError):
                        programs.setdefault(folder, set()).update(os.listdir(layer / folder))  # noqa: PTH208  (names only)
        everywhere = set[str]().union(*programs.values())
        shadows: list[str] = []
        with opened(UPPER, os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._files) as upper:
            for folder in PROGRAM_FOLDERS:
                with contextlib.suppress(OSError):
                    flags = os.O_RDONLY | os.O_DIRECTORY
                    held = openat2(upper, os.fsencode(folder), flags, resolve=Resolve.NO_SYMLINKS)
                    with opened(".", flags, dir_fd=held) as added:
                        names = (set(os.listdir(added)) & everywhere) - programs.get(folder, set())  # noqa: PTH208  (names only)
                    os.close(held)
                    shadows += [f"{folder}/{name}" for name in names]
            shadows += find_added(upper, SYSTEM, PYTHON_STARTERS)
        layers = self.image.layers
        return sorted(
            {path for path in shadows if not any(os.path.lexists(layer / path) for layer in layers)}
        )

    @override
    def close_folders(self) -> None:
        super().close_folders()
        close_all(self._user_namespace, self._open_namespace, *self._held)
        self._user_namespace = self._open_namespace = -1
        self._held = []

    # Fresh programs

    @override
    def spawn_fresh(
        self, request: FreshProgram, folders: FreshFolders, ends: ProcessStreams
    ) -> "subprocess.Popen[bytes]":
        limits, data = self.limits, self._data
        bind = "--bind" if request.is_writable else "--ro-bind"
        self._restore_mount_points()
        empty = str(self._state.static / "empty")
        # Before the first command no process of the agent can have changed anything, and what a program
        # writes into the system's folders is part of how the session is made.
        is_kept = self._image_root().keeps_system or not self.was_used
        restored = [] if is_kept else self._restored_folders()
        view: list[str] = []
        for folder in restored:
            view += [bind, str(data / VIEW / folder.name), f"/{folder.name}"]
        view += ["--ro-bind", empty, CONTROL, "--ro-bind", empty, STATE_PATH, "--chdir", "/"]
        view += ["--perms", "1777", "--size", str(limits.disk_bytes), "--tmpfs", FRESH_HOME]
        if folders.files is not None:
            view += ["--ro-bind", str(folders.files), self.fresh_dir]
        held = self.enforced()
        # The number of processes is counted per user namespace, and can be limited only in there.
        inside = [] if held.pids else ["/bin/sh", "-c", _LIMIT_PROCESSES.format(pids=limits.pids), "sh"]
        outside = ulimits(limits, EnforcedLimits(memory=held.memory, pids=True))
        user = find_user(self.image.layers, request.user)
        isolation = [*self._enter_restored(outside, restored, user), *self._isolation(bind, user=user), *view]
        isolation += ["--new-session", *set_variables(request.variables(FRESH_HOME))]
        return self._spawn_program(request, folders, ends, isolation, inside)

    def _restored_folders(self) -> list[RestoredFolder]:
        """Return the system's folders of the image with their lower layers; put its links and files back.

        A link of the image's, such as `/bin`, and the loader's configuration are put back into the root.
        """
        restored: list[RestoredFolder] = []
        shadows = self._added_shadows()
        for name in SYSTEM:
            numbers: list[int] = []
            for number, layer in enumerate(self.image.layers):
                entry = layer / name
                if entry.is_symlink():
                    if not numbers:
                        self._put_link(name, str(entry.readlink()))
                    break
                if entry.is_dir():
                    numbers.append(number)
            if numbers:
                self._put_folder(name)
                hidden = tuple(path[len(name) + 1 :] for path in shadows if path.startswith(f"{name}/"))
                restored.append(RestoredFolder(name, lower_layers(self._data, tuple(numbers), name), hidden))
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
        self._put_folder("etc")
        with opened("etc", flags, dir_fd=self._work) as etc:
            for name in LOADER_FILES:
                self._put_file(etc, name, read_in_image(self.image.layers, f"etc/{name}"))
            # Debian's Python imports a module from here before every program.
            pythons = {path.name for layer in self.image.layers for path in layer.glob("etc/python3*")}
            for name in pythons:
                self._put_folder(name, etc)
                with opened(name, flags, dir_fd=etc) as folder:
                    content = read_in_image(self.image.layers, f"etc/{name}/{PYTHON_STARTERS[0]}")
                    self._put_file(folder, PYTHON_STARTERS[0], content)
        return restored

    def _put_link(self, name: str, target: str) -> None:
        with contextlib.suppress(OSError):
            if os.readlink(name, dir_fd=self._work) == target:
                return
        with opened(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._work) as root:
            remove_entry(root, name)
            os.symlink(target, name, dir_fd=root)
            self._give_to_root(root, name)

    def _put_folder(self, name: str, parent: int | None = None) -> None:
        above = self._work if parent is None else parent
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISDIR(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode):
                return
            os.unlink(name, dir_fd=above)
        os.mkdir(name, 0o755, dir_fd=above)
        self._give_to_root(above, name)

    def _give_to_root(self, folder: int, name: str) -> None:
        """Make the sandbox's root the owner of what the server has made."""
        if self._first_id is not None:
            os.chown(name, self._first_id, self._first_id, dir_fd=folder, follow_symlinks=False)

    def _put_file(self, folder: int, name: str, content: bytes | None) -> None:
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
            self._give_to_root(folder, name)

    # How everything is started

    def _enter_restored(self, limits: str, restored: list[RestoredFolder], user: ImageUser) -> list[str]:
        """Return the command that enters the session's namespaces, and mounts the image's folders again."""
        if not restored:
            return self._enter(limits, user)
        first = self._first_id
        size = f"size={self.limits.disk_bytes},nr_inodes={self.limits.inodes},mode=0755"
        rows = [part for row in restored for part in (row.name, row.lower, str(len(row.hidden)), *row.hidden)]
        owner = "" if first is None else str(first)
        options = ROOT_OPTIONS if first is not None else USER_OPTIONS
        mounts = ["unshare", "--mount", "--propagation", "private", "--", "sh", "-c", MOUNT_VIEW, "sh"]
        mounts += [str(self._data), size, options, owner, *rows, "--"]
        if first is None:
            return [*self._enter(limits), *mounts]
        enter = [
            "sh",
            "-c",
            limits + self.enter_script,
            "sh",
            "nsenter",
            f"--mount={self._own(self._namespaces[-1])}",
            "--",
        ]
        return [*enter, *mounts, "nsenter", *self._join(user)]

    @staticmethod
    def _own(descriptor: int) -> str:
        return f"/proc/{os.getpid()}/fd/{descriptor}"  # by a path, so that nothing inside inherits it

    def _join(self, user: ImageUser) -> list[str]:
        """Return nsenter's options for a user namespace of the session's ids, and what follows it."""
        namespace = self._user_namespace
        if user.uid and not self._user.uid and self._first_id is not None:
            # The session's own is sealed, and this user's sandbox is one more user namespace.
            if self._open_namespace < 0:
                self._open_namespace = make_user_namespace(self._first_id)
            self._admit_users()
            namespace = self._open_namespace
        join = [f"--user={self._own(namespace)}", f"--setuid={user.uid}", f"--setgid={user.gid}", "--"]
        return join if user.uid or self._user.uid else [*join, "sh", "-c", _SEAL_NAMESPACE, "sh"]

    @override
    def _enter(self, limits: str, user: ImageUser | None = None) -> list[str]:
        if self._first_id is None:
            return super()._enter(limits)
        enter = ["sh", "-c", limits + self.enter_script, "sh", "nsenter"]
        return [*enter, f"--mount={self._own(self._namespaces[-1])}", *self._join(user or self._user)]

    @override
    def _make_namespaces(self) -> list[str]:
        make = ["unshare", "--mount", "--propagation", "private", "--user", "--map-root-user"]
        script = ["--", "sh", "-c", MOUNT_IMAGE, "sh", str(self._data)]
        options = f"{self._tmpfs_options()},mode=0700"
        return [*make, *script, options, *map(str, self.image.layers), "--"]

    @override
    def _isolation(
        self, bind: str = "--bind", *, is_beside: bool = False, user: ImageUser | None = None
    ) -> list[str]:
        user = user or self._user
        static = self._state.static
        dead = str(static / "no-terminal")
        if self._first_id is None:
            # bubblewrap itself is root of the outer namespace here, and would pass all its rights on.
            identity = ["--cap-drop", "ALL", "--unshare-user", "--disable-userns", "--uid", "0", "--gid", "0"]
        elif user.uid:
            ids = ("--uid", str(user.uid), "--gid", str(user.gid))
            identity = ["--unshare-user", "--disable-userns", *ids]
        else:
            rights = [part for name in CAPABILITIES for part in ("--cap-add", f"CAP_{name}")]
            identity = ["--cap-drop", "ALL", *rights]
        return [
            *("bwrap", *identity, "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net"),
            *("--unshare-cgroup-try", "--die-with-parent", "--clearenv", "--hostname", "sandbox"),
            *(bind, str(self._data / ROOT), "/"),
            *("--proc", "/proc", "--dev", "/dev"),
            *("--size", str(self.limits.shared_memory_bytes), "--tmpfs", "/dev/shm"),  # noqa: S108 # inside
            *("--ro-bind", dead, "/dev/tty", "--ro-bind", dead, "/dev/console", "--remount-ro", "/dev"),
        ]

    @override
    def _session_view(self) -> list[str]:
        view = super()._session_view()
        if self._first_id is None:
            # The server reaches the root only when the shell is there, which begins in the work dir.
            folders = ["--perms", "1777", "--dir", "/tmp", "--dir", self._user.home]  # noqa: S108  (the session's own)
            return [*folders, "--dir", self.layout.work, *view]
        return view

    @override
    def _restore_mount_points(self) -> None:
        if self._work >= 0:
            for name in MOUNT_POINTS:
                self._put_folder(name)


def find_user(layers: tuple[Path, ...], stated: str) -> ImageUser:
    """Return the user that an image's `USER` states: `NAME`, `UID`, `NAME:GROUP` or `UID:GID`.

    Raises:
        SandboxStartError: The image has no such user or group.
    """
    name, _, group = stated.partition(":")
    row = _find_row(layers, "etc/passwd", name or "0")
    if row is not None and len(row) > 5:  # noqa: PLR2004  (passwd(5): the sixth field is the home)
        uid, gid, home = _number(row[2], stated), _number(row[3], stated), row[5] or "/"
        name = row[0]
    elif name in ROOT_NAMES:
        uid, gid, home, name = 0, 0, "/root", "root"
    else:
        uid, gid, home = _number(name, stated), 0, "/"
    if group:
        group_row = _find_row(layers, "etc/group", group)
        gid = _number(group if group_row is None else group_row[2], stated)
    if not home.startswith("/"):
        home = "/"
    return ImageUser(uid, gid, name, home)


def read_in_image(layers: tuple[Path, ...], path: str, max_bytes: int = _MAX_BYTES) -> bytes | None:
    """Return the first bytes of a plain file of an image; `None` if it has no such file.

    Links are followed within the image's folders.
    """
    for layer in layers:
        folder = os.open(layer, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            opened = openat2(folder, os.fsencode(path), os.O_RDONLY | os.O_NONBLOCK, resolve=_INSIDE)
        except OSError:
            continue
        finally:
            os.close(folder)
        with open(opened, "rb") as file:  # noqa: PTH123  (a descriptor)
            return file.read(max_bytes)
    return None


def _find_row(layers: tuple[Path, ...], file: str, key: str) -> list[str] | None:
    text = (read_in_image(layers, file) or b"").decode("utf-8", "replace")
    rows = [line.split(":") for line in text.splitlines()]
    for row in rows:
        if len(row) > 2 and key in {row[0], row[2]}:  # noqa: PLR2004  (name, password, number)
            return row
    return None


def _number(text: str, stated: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) >= IDS_OF_IMAGES:
        raise SandboxStartError(
            f"the image's user is {stated!r}: expected a name in its /etc/passwd or /etc/group, or a number "
            f"below {IDS_OF_IMAGES}"
        )
    return int(text)
