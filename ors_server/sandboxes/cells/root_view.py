"""A whole root in a bubblewrap sandbox: how it is made, and what of the host it shows.

Invariants:

- Everything that is mounted over the root is mounted at a folder directly below `/`. The session's processes
  cannot rename or remove a mount point, and the parent of each one is the root itself. For that reason alone
  the folders of fresh programs are covered in the session.
- Before each start the server makes these folders again, by descriptor: programs that run in another view of
  the same root (a verifier's) may have removed them.
"""

import contextlib
import os
import stat
from pathlib import Path

from ors_server.sandboxes.base import SandboxRoot
from ors_server.sandboxes.cells.root_skeleton import (
    CONTROL,
    MOUNT_POINTS,
    STATE,
    SYSTEM_FOLDERS,
)
from ors_server.sandboxes.sandbox_errors import SandboxStartError
from ors_server.sandboxes.shell_scripts import SandboxLayout

# Entrances of cgroups are its environment, and so is the terminal: the leader of a session that opens one has
# it for its own (credentials(7)), which saves starting setsid(1).
BEGIN = """\
for entrance in $ORS_ENTRANCES; do echo 0 >"$entrance" || exit 71; done
if [ -n "$ORS_TERMINAL" ]; then : <"$ORS_TERMINAL" || exit 74; fi
"""
"""The first lines of every script that starts a sandbox's process."""
# $1: mount point, $2: options, $3: owner or "", then the command. Skeleton and work dir are its environment.
MOUNT_AND_ENTER = f"""{BEGIN}\
mount -t tmpfs -o "$2" ors "$1" || exit 72
install -d -m 0700 "$1/state" && cp -R -p "$ORS_SKELETON" "$1/root" || exit 73
mkdir -p "$1/root$ORS_WORK" || exit 73
if [ -n "$3" ]; then chown -hR "$3:$3" "$1/root" "$1/state" || exit 73
else echo 16 2>/dev/null >/proc/sys/user/max_inotify_instances || :; fi
shift 3
exec "$@"
"""
"""Makes the root on a new file system, and starts the command."""


def layout_of(root: SandboxRoot) -> SandboxLayout:
    """Return the paths in a whole root."""
    return SandboxLayout(
        work=root.work_dir,
        home="/root",
        temporary="/tmp",  # noqa: S108 # the sandbox's own
        control=CONTROL,
        state=STATE,
        user="root",
        variables=root.variables,
    )


def refuse_work_dir(path: str) -> None:
    """Raise `SandboxStartError` for a work dir in a folder that shows the host's files."""
    top = path.split("/")[1]
    if top in MOUNT_POINTS:
        raise SandboxStartError(
            f"the work dir {path} is in /{top}, which shows this host's files read-only; name another one"
        )


def system() -> list[str]:
    """Return the options that show the host's programs as folders, which nothing inside can replace."""
    argv = ["--ro-bind", "/usr", "/usr"]
    for name in SYSTEM_FOLDERS:
        folder = Path("/") / name
        if folder.is_dir():
            argv += ["--ro-bind", str(folder.resolve()), str(folder)]
    return argv


def restore_mount_points(root: int) -> None:
    """Make the folders that are mounted over, where something else is in their place.

    Args:
        root: Descriptor of the root; none of the session's processes runs.
    """
    for name in MOUNT_POINTS:
        try:
            is_folder = stat.S_ISDIR(os.stat(name, dir_fd=root, follow_symlinks=False).st_mode)
        except FileNotFoundError:
            is_folder = False
        if not is_folder:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=root)
            os.mkdir(name, 0o755, dir_fd=root)
