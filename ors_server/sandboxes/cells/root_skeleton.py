"""Made once for a server: the folders of a whole root, which sessions copy, and the `/etc` they share."""

import contextlib
import os
import platform
import shutil
import stat
from pathlib import Path

FOLDER = "root"
"""Its name among the server's static files."""
SYSTEM_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""Folders of `/` with the host's programs, besides `/usr`."""
SYSTEM = ("usr", *SYSTEM_FOLDERS)
PROGRAM_FOLDERS = ("usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin")
PYTHON_STARTERS = ("sitecustomize", "usercustomize")
"""Modules that Python imports before every program, wherever it finds them (Python: `site`)."""
LOADER_FILES = ("ld.so.preload", "ld.so.cache", "nsswitch.conf", f"ld-musl-{platform.machine()}.path")
"""Files of `/etc` that decide which libraries every program loads."""
CONTROL, STATE = "/.ors-control", "/.ors-state"
"""Where the shell's protocol is mounted."""
FRESH_HOME, FRESH_FILES = "/.ors-home", "/.ors-files"
"""Where a fresh program's own folder and its files are mounted."""
MOUNT_POINTS = (
    *("usr", *SYSTEM_FOLDERS, "etc", "proc", "dev"),
    *(path.lstrip("/") for path in (CONTROL, STATE, FRESH_HOME, FRESH_FILES)),
)
"""Folders of `/` that are mounted over, all at the top: a parent of one could be renamed by the agent."""
FOLDERS = ("root", "home", "opt", "srv", "mnt", "media", "run", "var", "var/log", "var/lib", "var/cache")
"""Folders that are empty at the start, besides `tmp` and `var/tmp`."""


_ETC_FILES = {
    "passwd": (
        "root:x:0:0:root:/root:/usr/sbin/nologin\n"
        "agent:x:1000:1000:agent:/home/agent:/bin/bash\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    ),
    "group": "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "hostname": "sandbox\n",
    "resolv.conf": "",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "shells": "/bin/sh\n/bin/bash\n",
    "host.conf": "multi on\n",
}

_ETC_FROM_HOST = (
    "alternatives",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "magic",
    "mime.types",
    "protocols",
    "services",
    "ssl/certs/ca-certificates.crt",
    "ssl/openssl.cnf",
    "vim",
)
"""Files of the host's that programs under `/usr` need; none of them is private."""


def build(folder: Path) -> None:
    """Write the folder, which must not exist yet."""
    folder.mkdir(mode=0o755)
    for name in (*MOUNT_POINTS, *FOLDERS):
        (folder / name).mkdir(mode=0o755)
    for name in ("tmp", "var/tmp"):
        (folder / name).mkdir()
        (folder / name).chmod(0o1777)


def build_etc(folder: Path, host: Path = Path("/etc")) -> None:
    """Write the `/etc` of every sandbox: small, read-only, without secrets. The folder must not exist yet."""
    folder.mkdir(mode=0o755)
    for name, content in _ETC_FILES.items():
        (folder / name).write_text(content)
    for name in _ETC_FROM_HOST:
        source, target = host / name, folder / name
        target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        with contextlib.suppress(OSError, shutil.Error):
            if source.is_dir():
                _copy_folder(source, target)
            elif source.exists():
                shutil.copyfile(source, target)  # what a link on the host points to


def _copy_folder(source: Path, target: Path) -> None:
    """Copy files, links and folders; unlike `shutil.copytree`, no attributes of the hundreds of links."""
    target.mkdir(mode=0o755)
    with os.scandir(source) as entries:
        for entry in entries:
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), target / entry.name)  # noqa: PTH115, PTH211  (of hundreds)
            elif entry.is_dir():
                _copy_folder(Path(entry.path), target / entry.name)
            else:
                with contextlib.suppress(OSError):  # one that this user may not read, or that is not a file
                    shutil.copy(entry.path, target / entry.name)


def build_dead_socket(path: Path) -> None:
    """Create a file that cannot be opened, at the path of a terminal, which must not exist yet.

    open(2) of a socket's file gives ENXIO, as `/dev/tty` does for a process without a terminal: programs that
    ask for a password there fail instead of waiting.
    """
    os.mknod(path, stat.S_IFSOCK | 0o600)  # no listener is needed, and the path may be longer than an address


def is_python_starter(name: str) -> bool:
    """Return whether a file or folder is a module that Python imports before every program.

    Such a module may also be compiled, to bytecode or to machine code: `sitecustomize.cpython-311.so`.
    """
    return name.partition(".")[0] in PYTHON_STARTERS
