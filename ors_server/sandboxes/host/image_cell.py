"""Sandboxes whose root is an image: bubblewrap over an overlay, which the session changes for itself.

Invariants:

- The image's folders are never written: they are the lower layers of overlays alone.
- With root, a session has a range of ids, in a user namespace that the server makes; the image's root is the
  lowest of them. Its processes have the capabilities of a Docker container within that namespace, and none
  on the host. Without root a session has one id, and its only user is root.
- Mount points directly below `/` are made again before each start, as in every whole root (`root_view`).
- Fresh programs see what the image had below the system's folders, and in the folders of its `PATH`, as it
  was: what an agent has put in the place of a program, of a library or of the loader's configuration is
  neither run nor read (`image_programs`, `image_shadows`, `image_view`).
"""

import contextlib
import fcntl
import os
import stat
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread
from typing_extensions import override

from ors_server.sandboxes.base import ImageTree, Limits, SandboxRoot
from ors_server.sandboxes.cells.cell import FreshFolders
from ors_server.sandboxes.cells.descriptors import close_all, opened
from ors_server.sandboxes.cells.fresh_process import ProcessStreams
from ors_server.sandboxes.cells.overlay_copy import OverlayReader, OverlayWriter, changed_files
from ors_server.sandboxes.cells.root_skeleton import CONTROL, FRESH_FILES, FRESH_HOME, SYSTEM
from ors_server.sandboxes.cells.root_skeleton import STATE as STATE_PATH
from ors_server.sandboxes.cells.server_state import ServerState, remove_tree
from ors_server.sandboxes.cells.syscalls import INSIDE_ROOT, openat2
from ors_server.sandboxes.cells.uids import IDS_OF_IMAGES
from ors_server.sandboxes.fresh import ROOT_NAMES, FreshProgram
from ors_server.sandboxes.host.bubblewrap_cell import BubblewrapCell, set_variables
from ors_server.sandboxes.host.image_mounts import (
    MOUNT_IMAGE,
    MOUNT_VIEW,
    ROOT,
    ROOT_OPTIONS,
    STATE,
    TOP,
    TOPS,
    UPPER,
    USER_OPTIONS,
    VIEW,
    WHOLE,
    make_root,
    make_user_namespace,
)
from ors_server.sandboxes.host.image_programs import ImagePrograms, ProgramRule
from ors_server.sandboxes.host.image_shadows import ShadowFinder
from ors_server.sandboxes.host.image_view import ImageView, RestoredFolder, RootFiles, read_in_image
from ors_server.sandboxes.sandbox_errors import SandboxStartError
from ors_server.sandboxes.shell_scripts import EnforcedLimits, SandboxLayout, ulimits

MOUNT_POINTS = ("proc", "dev", *(path.lstrip("/") for path in (CONTROL, STATE_PATH, FRESH_HOME, FRESH_FILES)))
CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID")
"""Those that root has in a container of Docker, without the ones for devices and networks."""
_HOSTS = b"127.0.0.1 localhost sandbox\n::1 localhost\n"
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
class ImageFolders(FreshFolders):
    """The folders of a fresh program that sees the image's own programs."""

    rows: tuple[RestoredFolder, ...] = ()
    own_layer: Path | None = None
    """The layer that was made for its view."""


class ImageCell(BubblewrapCell):
    """One session's namespaces over an image."""

    fresh_dir = FRESH_FILES

    def __init__(self, state: ServerState, limits: Limits, root: SandboxRoot, image: ImageTree) -> None:
        self.image = image
        self._user = find_user(image.layers, root.user)
        self._user_namespace = self._open_namespace = -1
        self._layer_locks: list[int] = []
        """Descriptors of the image's layers, locked against removal from the cache."""
        self._root_uid: int | None = None
        """The host's id of the image's root; `None` without root on the host."""
        self._programs: ImagePrograms | None = None
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
        if self._root_uid is None:
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
            self._layer_locks.append(os.open(layer, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            fcntl.flock(self._layer_locks[-1], fcntl.LOCK_SH)
        self._root_uid = self._folder.uid
        if self._root_uid is not None:
            self.uid = self._root_uid + self._user.uid
            self._user_namespace = make_user_namespace(self._root_uid)
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
        if self._root_uid is not None and not self._namespaces:
            self._mount(self._root_uid)
        return super().spawn_first(slave)

    def _mount(self, root_uid: int) -> None:
        mode = "0711" if self._user.uid else "0700"
        options = f"{self._tmpfs_options()},mode={mode},uid={root_uid},gid={root_uid}"
        root = make_root(self._data, self.image.layers, options, root_uid, self._user_namespace)
        self._namespaces = [root.mounts]
        self._files = root.files
        self._work = os.open(ROOT, _FOLDER | os.O_NOFOLLOW, dir_fd=root.files)
        self._complete()

    def _tmpfs_options(self) -> str:
        limits = self.limits
        return f"size={limits.disk_bytes},nr_inodes={limits.inodes}"

    @override
    def attach_files(self, folder: str) -> None:
        super().attach_files(folder)
        self._complete()

    def _complete(self) -> None:
        """Make what every session needs and an image may lack."""
        root_uid, root = self._root_uid, self._work
        if root_uid is not None:
            os.chown(STATE, root_uid + self._user.uid, root_uid + self._user.gid, dir_fd=self._files)
        for path, mode in (
            ("tmp", 0o1777),
            ("etc", 0o755),
            (self._user.home, 0o755),
            (self.layout.work, 0o755),
        ):
            self._make_folder(path.strip("/"), mode)
        if root_uid is not None and self._user.uid:
            # Cached files all belong to root; give the user at least their home folder.
            home = os.fsencode(self._user.home.lstrip("/") or ".")
            with contextlib.suppress(OSError):
                folder = openat2(root, home, os.O_RDONLY | os.O_DIRECTORY, resolve=INSIDE_ROOT)
                os.fchown(folder, root_uid + self._user.uid, root_uid + self._user.gid)
                os.close(folder)
        with contextlib.suppress(OSError):
            flags = os.O_RDWR | os.O_CREAT | os.O_NONBLOCK
            hosts = openat2(root, b"etc/hosts", flags, mode=0o644, resolve=INSIDE_ROOT)
            try:
                if stat.S_ISREG(os.fstat(hosts).st_mode) and not os.fstat(hosts).st_size:
                    os.write(hosts, _HOSTS)
                    uid = -1 if root_uid is None else root_uid
                    os.fchown(hosts, uid, uid)
            finally:
                os.close(hosts)

    def _make_folder(self, path: str, mode: int) -> None:
        """Make a folder and those above it, where they are missing; links are followed within the root."""
        parts = [part for part in path.split("/") if part]
        for number, part in enumerate(parts):
            above = "/".join(parts[:number]) or "."
            folder = openat2(
                self._work, os.fsencode(above), os.O_RDONLY | os.O_DIRECTORY, resolve=INSIDE_ROOT
            )
            try:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
                    os.chmod(part, mode if number == len(parts) - 1 else 0o755, dir_fd=folder)
                    RootFiles(self._work, self._root_uid).give_to_root(folder, part)
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
            writer = OverlayWriter(out, self._root_uid)
            for name in (UPPER, STATE):
                with opened(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._files) as folder:
                    writer.write_all(folder)
        return True

    @override
    def load_files(self, descriptor: int) -> bool:
        self.was_used = True
        with os.fdopen(os.dup(descriptor), "rb") as source:
            reader = OverlayReader(source, self._root_uid)
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
        programs, layers = self._find_programs(), self.image.layers
        names = (*SYSTEM, *programs.prefixes)
        with opened(UPPER, flags, dir_fd=self._files) as upper:
            for layer in layers:
                with opened(str(layer), flags) as lower:
                    paths |= set(changed_files(upper, lower, names, self.limits.entries))
            shadows = ShadowFinder(layers, programs, upper, self._work).find()
        paths |= {f"/{path}" for path in (*shadows.paths, *shadows.links)}
        return sorted(paths)[: self.limits.entries]

    def _find_programs(self) -> ImagePrograms:
        """Return the image's folders of programs, which do not change."""
        if self._programs is None:
            rule = ProgramRule(self.image.layers, self.layout.work, self._user.home)
            self._programs = rule.find(self.layout.environment["PATH"])
        return self._programs

    @override
    def close_folders(self) -> None:
        super().close_folders()
        close_all(self._user_namespace, self._open_namespace, *self._layer_locks)
        self._user_namespace = self._open_namespace = -1
        self._layer_locks = []

    # Fresh programs

    @override
    async def make_folders(self, request: FreshProgram, number: int) -> FreshFolders:
        folders = await super().make_folders(request, number)
        # Before the first command no process of the agent can have changed anything, and what a program
        # writes into the system's folders is part of how the session is made.
        if self._image_root().keeps_system or not self.was_used:
            return folders
        # In memory, if the server has such a folder: an agent may have added thousands of what is hidden.
        own_layer = self.control.parent / f"view-{number}"
        is_alone = self._first_process is None and not self._fresh
        homes = (self._user.home, "/root", "/home", "/tmp")  # noqa: S108  (the sandbox's own)
        # What is written to `/etc` stays, as the settings do that are put back there.
        tops = {path.split("/")[1] for path in (self.layout.work, *homes, "/etc")}
        # By descriptors that no other task closes, since the session may end meanwhile.
        root = os.dup(self._work)
        upper = os.open(UPPER, _FOLDER | os.O_NOFOLLOW, dir_fd=self._files)
        files = RootFiles(root, self._root_uid)
        view = ImageView(self.image.layers, files, upper, self._data, own_layer, MOUNT_POINTS)

        def plan() -> None:
            view.plan(self._find_programs(), tops if request.is_writable else None, is_alone=is_alone)

        try:
            await anyio.to_thread.run_sync(plan)
        except BaseException:
            self.remove_folders(ImageFolders(folders.files, own_layer=own_layer))
            raise
        finally:
            close_all(root, upper)
        return ImageFolders(folders.files, rows=tuple(view.rows), own_layer=own_layer)

    @override
    def remove_folders(self, folders: FreshFolders) -> None:
        super().remove_folders(folders)
        if isinstance(folders, ImageFolders) and folders.own_layer is not None:
            # In a thread, because it takes time with the number of what is hidden.
            threading.Thread(target=remove_tree, args=(folders.own_layer,), name="ors-view-end").start()

    @override
    def spawn_fresh(
        self, request: FreshProgram, folders: FreshFolders, ends: ProcessStreams
    ) -> "subprocess.Popen[bytes]":
        limits, data = self.limits, self._data
        bind = "--bind" if request.is_writable else "--ro-bind"
        self._restore_mount_points()
        empty = str(self._state.static / "empty")
        restored = folders.rows if isinstance(folders, ImageFolders) else ()
        view: list[str] = []
        is_whole = any(row.kind == WHOLE for row in restored)
        for row in restored:
            if row.kind == TOP and not is_whole:
                view += [bind, str(data / VIEW / TOPS / row.path), f"/{row.path}"]
        view += ["--ro-bind", empty, CONTROL, "--ro-bind", empty, STATE_PATH, "--chdir", "/"]
        view += ["--perms", "1777", "--size", str(limits.disk_bytes), "--tmpfs", FRESH_HOME]
        if folders.files is not None:
            view += ["--ro-bind", str(folders.files), self.fresh_dir]
        enforced = self.enforced()
        # The number of processes is counted per user namespace, and can be limited only in there.
        inside = [] if enforced.pids else ["/bin/sh", "-c", _LIMIT_PROCESSES.format(pids=limits.pids), "sh"]
        outside = ulimits(limits, EnforcedLimits(memory=enforced.memory, pids=True))
        user = find_user(self.image.layers, request.user)
        isolation = [
            *self._enter_restored(outside, restored, user),
            *self._isolation(bind, user=user, root=f"{VIEW}/{TOPS}" if is_whole else ROOT),
            *view,
        ]
        isolation += ["--new-session", *set_variables(request.variables(FRESH_HOME))]
        return self._spawn_program(request, folders, ends, isolation, inside)

    # How everything is started. Each method adds its part of one command; with root on the host, the shell of
    # the image's root is started by
    #
    #   sh -c 'LIMITS; join the cgroups; exec "$@"' sh                                     _enter
    #   nsenter --mount=/proc/PID/fd/N --user=/proc/PID/fd/N --setuid=0 --setgid=0 --      _join
    #   sh -c 'refuse user namespaces; exec "$@"' sh                                       _join
    #   bwrap --cap-drop ALL --cap-add CAP_CHOWN ... --bind DATA/root / --proc /proc ...   _isolation
    #   --bind DATA/state STATE ... --as-pid-1 -- SHELL                                    _session_view
    #
    # Without root, `_make_namespaces` replaces the first three lines at the first start. For a fresh program
    # over restored folders, `_enter_restored` adds `unshare --mount -- sh -c MOUNT_VIEW sh DATA ... --`.

    def _enter_restored(
        self, limits: str, restored: tuple[RestoredFolder, ...], user: ImageUser
    ) -> list[str]:
        """Return the command that enters the session's namespaces, and mounts the image's folders again."""
        if not restored:
            return self._enter(limits, user)
        root_uid = self._root_uid
        size = f"size={self.limits.disk_bytes},nr_inodes={self.limits.inodes},mode=0755"
        rows = [part for row in restored for part in (row.kind, row.path, row.lower)]
        uid_text = "" if root_uid is None else str(root_uid)
        options = ROOT_OPTIONS if root_uid is not None else USER_OPTIONS
        mounts = ["unshare", "--mount", "--propagation", "private", "--", "sh", "-c", MOUNT_VIEW, "sh"]
        mounts += [str(self._data), size, options, uid_text, *rows, "--"]
        if root_uid is None:
            return [*self._enter(limits), *mounts]
        enter = [
            "sh",
            "-c",
            limits + self.enter_script,
            "sh",
            "nsenter",
            f"--mount={self._descriptor_path(self._namespaces[-1])}",
            "--",
        ]
        return [*enter, *mounts, "nsenter", *self._join(user)]

    @staticmethod
    def _descriptor_path(descriptor: int) -> str:
        return f"/proc/{os.getpid()}/fd/{descriptor}"  # a path, so that no program inside inherits it

    def _join(self, user: ImageUser) -> list[str]:
        """Return nsenter's options for a user namespace of the session's ids, and what follows it."""
        namespace = self._user_namespace
        if user.uid and not self._user.uid and self._root_uid is not None:
            # The session's own is sealed, and this user's sandbox is one more user namespace.
            if self._open_namespace < 0:
                self._open_namespace = make_user_namespace(self._root_uid)
            self._admit_users()
            namespace = self._open_namespace
        join = [
            f"--user={self._descriptor_path(namespace)}",
            f"--setuid={user.uid}",
            f"--setgid={user.gid}",
            "--",
        ]
        return join if user.uid or self._user.uid else [*join, "sh", "-c", _SEAL_NAMESPACE, "sh"]

    @override
    def _enter(self, limits: str, user: ImageUser | None = None) -> list[str]:
        if self._root_uid is None:
            return super()._enter(limits)
        enter = ["sh", "-c", limits + self.enter_script, "sh", "nsenter"]
        return [
            *enter,
            f"--mount={self._descriptor_path(self._namespaces[-1])}",
            *self._join(user or self._user),
        ]

    @override
    def _make_namespaces(self) -> list[str]:
        make = ["unshare", "--mount", "--propagation", "private", "--user", "--map-root-user"]
        script = ["--", "sh", "-c", MOUNT_IMAGE, "sh", str(self._data)]
        options = f"{self._tmpfs_options()},mode=0700"
        return [*make, *script, options, *map(str, self.image.layers), "--"]

    @override
    def _isolation(
        self,
        bind: str = "--bind",
        *,
        is_beside: bool = False,
        user: ImageUser | None = None,
        root: str = ROOT,
    ) -> list[str]:
        """Return bubblewrap's command, and the options that show the image.

        Args:
            is_beside: Without effect: this process copies an image's files itself (`save_files`,
                `load_files`), so that no program is started next to a session.
            root: The folder below the session's data that becomes `/`.
        """
        user = user or self._user
        static = self._state.static
        dead = str(static / "no-terminal")
        if self._root_uid is None:
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
            *(bind, str(self._data / root), "/"),
            *("--proc", "/proc", "--dev", "/dev"),
            *("--size", str(self.limits.shared_memory_bytes), "--tmpfs", "/dev/shm"),  # noqa: S108 # inside
            *("--ro-bind", dead, "/dev/tty", "--ro-bind", dead, "/dev/console", "--remount-ro", "/dev"),
        ]

    @override
    def _session_view(self) -> list[str]:
        view = super()._session_view()
        if self._root_uid is None:
            # The server reaches the root only when the shell is there, which begins in the work dir.
            folders = ["--perms", "1777", "--dir", "/tmp", "--dir", self._user.home]  # noqa: S108  (the session's own)
            return [*folders, "--dir", self.layout.work, *view]
        return view

    @override
    def _restore_mount_points(self) -> None:
        if self._work >= 0:
            for name in MOUNT_POINTS:
                RootFiles(self._work, self._root_uid).put_folder(name)


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
