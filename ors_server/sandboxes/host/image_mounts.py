"""Mounts an image as a session's root: an overlay over the image's folders, on the session's own tmpfs.

Invariants:

- Everything is mounted in the session's own mount namespace and ends with it; the host's table of mounts
  does not grow.
- With root the server mounts, in a thread of its own: the overlay belongs to the host's root, and shows the
  image's files as those of the session's range of ids (an idmapped lower layer). Without root a shell in a
  user namespace mounts, and everything belongs to the server's user.
- Paths in the options of mounts are ours, or an image's without a comma or colon, which would change their
  meaning: no name of an agent is among them.
"""

import os
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

from ors_server.sandboxes.cells.root_view import BEGIN
from ors_server.sandboxes.cells.syscalls import NO_DEVICES, NO_SUID, mount, mount_with_ids, unshare_mounts
from ors_server.sandboxes.cells.uids import IDS_OF_IMAGES
from ors_server.sandboxes.sandbox_errors import SandboxStartError

UPPER, ROOT, STATE = "upper", "root", "state"
"""Folders of a session's tmpfs: its changes, where the overlay is mounted, and the shell's state."""
_OVERLAY_WORK, VIEW = "overlay", "view"
_LOWER = "lower-"
# Renamed folders are copied, and changes of a mode copy the file: so that the upper folder alone says what
# the session has changed.
_OPTIONS = "metacopy=off,index=off"
ROOT_OPTIONS = f"redirect_dir=off,{_OPTIONS}"
USER_OPTIONS = f"userxattr,{_OPTIONS}"
"""Attributes that a user may write; folders are never redirected with them."""

# $1: mount point, $2: options, then the image's folders, `--` and the command.
MOUNT_IMAGE = f"""{BEGIN}\
data=$1
mount -t tmpfs -o "nosuid,nodev,$2" ors "$data" || exit 72
(umask 022; cd "$data" && mkdir {UPPER} {ROOT} {STATE} {_OVERLAY_WORK} {VIEW}) || exit 73
shift 2
number=0 lower=
while [ "$1" != -- ]; do
  mkdir "$data/{_LOWER}$number" && mount --bind "$1" "$data/{_LOWER}$number" || exit 77
  lower="$lower:$data/{_LOWER}$number" number=$((number + 1))
  shift
done
shift
mount -t overlay -o "{USER_OPTIONS},lowerdir=${{lower#:}},upperdir=$data/{UPPER},\
workdir=$data/{_OVERLAY_WORK},nosuid,nodev" ors "$data/{ROOT}" || exit 77
echo 16 2>/dev/null >/proc/sys/user/max_inotify_instances || :
exec "$@"
"""
"""Makes a session's root without root on the host, and starts the command."""

WHOLE, TOP, INSIDE, DIRECT = "whole", "top", "inside", "direct"
"""How a folder is restored for a fresh program: `/` itself; a folder of `/`; a folder below one of these; or
a folder of the session's root, over which the restored one is mounted in the program's namespace."""
TOPS = "tops"
"""The folder of a view that has the folders of `/`, and is `/` itself in a whole view."""

# $1: mount point, $2: options of the tmpfs, $3: options of overlays, $4: owner or "", then for each folder
# its kind, its path and its lower layers; `--`, and the command. `cd -P` and `pwd -P` tell a link from a
# folder, and `.` is the folder that was checked, even if another has its name now: -c keeps mount(8) from
# looking it up again.
MOUNT_VIEW = f"""\
data=$1 options=$3 owner=$4 number=0
mount -t tmpfs -o "nosuid,nodev,$2" ors "$data/{VIEW}" || exit 76
shift 4
umask 022
mkdir "$data/{VIEW}/{TOPS}" || exit 76
while [ "$1" != -- ]; do
  kind=$1 path=$2 lower=$3 number=$((number + 1))
  shift 3
  upper=$data/{VIEW}/$number.upper work=$data/{VIEW}/$number.work
  target=$data/{VIEW}/{TOPS}${{path:+/$path}} session=$data/{ROOT}${{path:+/$path}}
  mkdir "$upper" "$work" || exit 76
  if [ -n "$owner" ]; then chown "$owner:$owner" "$upper" || exit 76; fi
  case $kind in
    {TOP}) [ -d "$target" ] || mkdir "$target" || exit 76 ;;
    {INSIDE}) cd -P "$target" && [ "$(pwd -P)" = "$target" ] || exit 76 ;;
  esac
  if cd -P "$session" 2>/dev/null && [ "$(pwd -P)" = "$session" ]; then
    lower="$lower:."
    [ "$kind" != {DIRECT} ] || target=.
  elif [ "$kind" = {DIRECT} ]; then
    exit 76
  fi
  options_of_row=lowerdir=$lower,upperdir=$upper,workdir=$work
  mount -c -t overlay -o "$options,$options_of_row,nosuid,nodev" ors "$target" || exit 76
done
shift
cd /
exec "$@"
"""
"""Lays the image's own folders over the session's, for one program, and starts the command."""


@dataclass(frozen=True)
class MadeRoot:
    """A session's root that the server has mounted: descriptors, which the caller closes."""

    mounts: int
    """The mount namespace."""
    files: int
    """The folder of the session's tmpfs in it."""


def lower_layers(data: Path, numbers: tuple[int, ...], name: str = "") -> str:
    """Return an overlay's lower layers: the image's folders of these numbers, or folders in them."""
    return ":".join(str(data / f"{_LOWER}{number}" / name) for number in numbers)


def make_user_namespace(first_id: int) -> int:
    """Return the descriptor of a user namespace with a range of the host's ids, from `first_id` on.

    Its owner is the first of them: what the kernel counts by user, such as watches of files, counts against
    the session and not against the server.

    Raises:
        SandboxStartError: It could not be made.
    """
    drop = ["setpriv", f"--reuid={first_id}", f"--regid={first_id}", "--clear-groups", "unshare", "--user"]
    pipe = subprocess.PIPE
    try:
        # cat(1) only keeps the namespace until it is open here, and its answer shows that it is there.
        with subprocess.Popen(  # noqa: S603  (a list of our own making)
            [*drop, "cat"], stdin=pipe, stdout=pipe, stderr=pipe, cwd="/", env={"PATH": os.defpath}
        ) as process:
            stdin, stdout = process.stdin, process.stdout
            if stdin is None or stdout is None:
                raise SandboxStartError("a process without pipes was started")
            stdin.write(b"\n")
            stdin.flush()
            if stdout.read(1) != b"\n":
                raise SandboxStartError(f"no user namespace can be made: {process.communicate()[1]!r:.300}")
            for kind in ("uid", "gid"):
                Path(f"/proc/{process.pid}/{kind}_map").write_text(f"0 {first_id} {IDS_OF_IMAGES}")
            return os.open(f"/proc/{process.pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise SandboxStartError(f"no user namespace with a range of ids can be made: {error}") from error


def make_root(
    data: Path, layers: tuple[Path, ...], options: str, first_id: int, user_namespace: int
) -> MadeRoot:
    """Mount an image's root in a new mount namespace; for servers with root.

    Args:
        data: The mount point of the session's tmpfs.
        layers: The image's folders, the highest first.
        options: Of the tmpfs.
        first_id: The host's id of the root's owner.

    Raises:
        SandboxStartError: The kernel, or the file system of the image's folders, cannot do it.
    """
    roots: list[MadeRoot] = []
    failures: list[OSError] = []

    def work() -> None:
        try:
            unshare_mounts()
            mount("tmpfs", str(data), options)
            for name in (UPPER, ROOT, STATE, _OVERLAY_WORK, VIEW):
                (data / name).mkdir(mode=0o755)
            for name in (UPPER, STATE):
                os.chown(data / name, first_id, first_id)
            for number, layer in enumerate(layers):
                target = data / f"{_LOWER}{number}"
                target.mkdir()
                mount_with_ids(str(layer), str(target), user_namespace)
            lower = lower_layers(data, tuple(range(len(layers))))
            upper = f"upperdir={data / UPPER},workdir={data / _OVERLAY_WORK}"
            mount(
                "overlay", str(data / ROOT), f"{ROOT_OPTIONS},lowerdir={lower},{upper}", NO_SUID | NO_DEVICES
            )
            files = os.open(data, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            roots.append(MadeRoot(os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC), files))
        except OSError as error:
            failures.append(error)

    # A thread of its own, which ends: it cannot return to the server's mount namespace.
    thread = threading.Thread(target=work, name="ors-image-root")
    thread.start()
    thread.join()
    if failures:
        raise SandboxStartError(f"the image cannot be mounted as a root: {failures[0]}") from failures[0]
    return roots[0]
