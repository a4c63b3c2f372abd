"""One server's state on the host for its sandboxes: one folder, one lock, and uids.

The folder's name begins with `FOLDER_PREFIX`; the lock shows whether its server runs. The kernel releases a
lock when the process that holds it ends, so nothing depends on pids, which are reused.
"""

import contextlib
import json
import os
import secrets
import stat
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from ors_server.sandboxes.cells import root_skeleton
from ors_server.sandboxes.cells.cgroups import Hierarchies, find_hierarchies
from ors_server.sandboxes.cells.descriptors import opened
from ors_server.sandboxes.cells.hidden_paths import HiddenPaths
from ors_server.sandboxes.cells.uids import UID_RANGES, UidPool, try_lock
from ors_server.sandboxes.sandbox_errors import SandboxUnavailableError

FOLDER_PREFIX = "ors-"
"""Names of a server's folders and cgroups are this prefix and the server's own id."""
LOCK_FILE = "owner"
"""The file that its server keeps locked."""


def base_folder() -> Path:
    """Return the folder of this user's servers; creates it if necessary.

    Raises:
        SandboxUnavailableError: It belongs to another user, or others may write into it.
    """
    if os.geteuid() == 0:
        base, mode = Path("/run/ors-server"), 0o711
    else:
        home = os.environ.get("XDG_RUNTIME_DIR")
        base = Path(home) / "ors-server" if home else Path(f"/tmp/ors-server-{os.geteuid()}")  # noqa: S108 # checked
        mode = 0o700
    return _ensure_private_folder(base, mode)


def memory_folder(base: Path) -> Path | None:
    """Return a folder in memory for static files and those of commands, if `base` is on a disk.

    On a busy disk every new pipe would wait for the file system's journal.

    Returns:
        None if `base` is in memory itself, or no such folder is available.
    """
    shared = Path("/dev/shm")  # noqa: S108 # a folder of our own in it, checked
    if _is_in_memory(base) or not _is_in_memory(shared):
        return None
    name = "ors-server" if os.geteuid() == 0 else f"ors-server-{os.geteuid()}"
    try:
        return _ensure_private_folder(shared / name, 0o711 if os.geteuid() == 0 else 0o700)
    except (OSError, SandboxUnavailableError):
        return None


def _ensure_private_folder(base: Path, mode: int) -> Path:
    with contextlib.suppress(FileExistsError):
        base.mkdir(mode=mode, parents=True)
    status = base.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise SandboxUnavailableError(
            f"{base} must be a folder of uid {os.geteuid()} that no other user may write"
        )
    base.chmod(mode)
    return base


def _is_in_memory(path: Path) -> bool:
    try:
        rows = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
        device = path.stat().st_dev
        return any(row[2] == "tmpfs" and Path(row[1]).stat().st_dev == device for row in rows)
    except (OSError, IndexError):
        return False


@dataclass(frozen=True)
class SessionFolder:
    """One session's folder below the server's."""

    name: str
    path: Path
    uid: int | None
    control: Path
    """The folder of the shell protocol's files."""
    uids: UidPool | None = None
    """The pool to which the uid is returned."""


class ServerState:
    """A server's folder, from its start to its end."""

    def __init__(self, base: Path | None = None) -> None:
        """Create the folder; on failure nothing is left.

        Args:
            base: The folder's parent; by default this user's. The host has one register of uids for
                all bases, so no two servers use the same.

        Raises:
            SandboxUnavailableError: The parent belongs to another user, or no uids are left.
        """
        self.base = base or base_folder()
        self.server_id = secrets.token_hex(6)
        self.folder = self.base / f"{FOLDER_PREFIX}{self.server_id}"
        self.snapshots = self.folder / "snapshots"
        self._memory = self.folder
        """Holds what changes with every command, and the static files."""
        self.hidden = HiddenPaths()
        """System paths that sandboxes hide; set before the first one is created."""
        self.hierarchies: Hierarchies = find_hierarchies()
        self._numbers = count(1)
        self.uids: UidPool | None = None
        """The server's uids for sessions; None without root."""
        self._ranges: UidPool | None = None
        """Ranges of uids, from the first session with an image on."""
        # Before the lock file exists, `clean_up` leaves the folder alone; see there.
        self.folder.mkdir(mode=0o711)
        lock = try_lock(self.folder / LOCK_FILE)
        if lock is None:
            raise SandboxUnavailableError(f"{self.folder / LOCK_FILE} is locked by another process")
        self._lock = lock
        try:
            self._populate()
        except BaseException:
            self.close()
            raise

    def _populate(self) -> None:
        if os.geteuid() == 0:
            self.uids = UidPool(base_folder())
        base = memory_folder(self.base)
        if base is not None:
            self._memory = base / self.folder.name
        # Before anything exists that only this record finds again if the server dies here.
        os.write(self._lock, self._record())
        self._memory.mkdir(mode=0o711, exist_ok=True)
        # In memory too: on a disk these hundreds of links and folders took 0.1 s of processor time.
        self.static = self._memory / "static"
        self.static.mkdir(mode=0o755)
        root_skeleton.build_etc(self.static / "etc")
        root_skeleton.build_dead_socket(self.static / "no-terminal")
        (self.static / "empty").mkdir(mode=0o755)
        (self.static / "nothing").touch(mode=0o644)
        root_skeleton.build(self.static / root_skeleton.FOLDER)
        self.snapshots.mkdir(mode=0o700)

    def _record(self) -> bytes:
        parents = sorted({str(parent) for parent in self.hierarchies.parents.values()})
        record = {"cgroup_parents": parents, "pid": os.getpid(), "memory_folder": str(self._memory)}
        return json.dumps(record).encode()

    def open_session(self, *, needs_uid_range: bool = False) -> SessionFolder:
        """Create a session's folder; with root, the session gets its own uid.

        Args:
            needs_uid_range: Whether the uid must be the lowest of a range of `IDS_OF_IMAGES`.

        Raises:
            SandboxUnavailableError: More sessions than uids are alive.
            OSError: The folder could not be created.
        """
        uids = self.uids
        if uids is not None and needs_uid_range:
            uids = self._ranges = self._ranges or UidPool(base_folder(), UID_RANGES)
        uid = uids.take() if uids is not None else None
        name = f"s{next(self._numbers)}"
        control = self._memory / name / "control"
        session = SessionFolder(name, self.folder / name, uid, control, uids)
        try:
            # One folder, unless the control files are kept in memory. Only the session's group may pass.
            for folder in dict.fromkeys((session.path, session.control.parent)):
                folder.mkdir(mode=0o710)
                if uid is not None:
                    os.chown(folder, 0, uid)
        except OSError:
            self.close_session(session)
            raise
        return session

    def close_session(self, session: SessionFolder) -> None:
        """Remove a session's folder and release its uid; its processes must be dead."""
        for folder in dict.fromkeys((session.control.parent, session.path)):
            remove_tree(folder)
        if session.uid is not None and session.uids is not None:
            session.uids.release(session.uid)

    def close(self) -> None:
        """Remove the whole folder and release the locks; a second call does nothing."""
        if self._lock < 0:
            return
        for folder in dict.fromkeys((self._memory, self.folder)):
            remove_tree(folder)
        os.close(self._lock)
        self._lock = -1
        for uids in (self.uids, self._ranges):
            if uids is not None:
                uids.close()


def remove_tree(path: Path) -> None:
    """Remove a folder of any depth without following links, crossing mounts or recursing."""
    try:
        device = path.lstat().st_dev
    except OSError:
        return
    # Another thread may be removing the same session folder.
    with (
        contextlib.suppress(FileNotFoundError),
        opened(path.parent, os.O_RDONLY | os.O_DIRECTORY) as parent,
    ):
        _remove_below(parent, path.name, device)
        with contextlib.suppress(OSError):
            os.rmdir(path.name, dir_fd=parent)


def remove_entry(parent: int, name: str) -> None:
    """Remove a file, a link, or a folder of any depth, by its name in the folder of a descriptor."""
    with contextlib.suppress(FileNotFoundError):
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if not stat.S_ISDIR(status.st_mode):
            os.unlink(name, dir_fd=parent)
            return
        _remove_below(parent, name, status.st_dev)
        os.rmdir(name, dir_fd=parent)


def _remove_below(parent: int, name: str, device: int) -> None:
    """Empty one folder by moving what is deep to its top, so that no path and no stack grows."""
    try:
        top = _open_folder(parent, name)
    except OSError:
        return
    lifted = count()
    try:
        while True:
            folders = _unlink_plain(top, device)
            # `sum`, not `any`: every folder of this level is lifted before the next pass. A pass that removes
            # none would not remove one later either.
            if not sum(_lift(top, folder, device, lifted) for folder in folders):
                return
    finally:
        os.close(top)


def _unlink_plain(folder: int, device: int) -> list[str]:
    """Unlink everything but folders; return the folders on the same mount."""
    folders: list[str] = []
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISDIR(status.st_mode):
                os.unlink(name, dir_fd=folder)
            elif status.st_dev == device:
                folders.append(name)
    return folders


def _lift(top: int, name: str, device: int, lifted: "count[int]") -> bool:
    """Move a folder's own folders up to its level and remove it; returns whether it is gone."""
    with contextlib.suppress(OSError):
        folder = _open_folder(top, name)
        try:
            for below in _unlink_plain(folder, device):
                os.close(_open_folder(folder, below))  # what cannot be written cannot be moved either
                os.rename(below, f".lifted-{os.getpid()}-{next(lifted)}", src_dir_fd=folder, dst_dir_fd=top)
        finally:
            os.close(folder)
    with contextlib.suppress(OSError):
        os.rmdir(name, dir_fd=top)
        return True
    return False


def _open_folder(parent: int, name: str) -> int:
    """Open an existing folder, and give its owner the permissions that emptying it needs."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        folder = os.open(name, flags, dir_fd=parent)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=parent)
        folder = os.open(name, flags, dir_fd=parent)
    if os.fstat(folder).st_mode & stat.S_IRWXU != stat.S_IRWXU:
        os.fchmod(folder, 0o700)
    return folder
