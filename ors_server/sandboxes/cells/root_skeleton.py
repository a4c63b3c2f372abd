"""The folders of a whole root: made once for a server, copied for each session that has such a root."""

from pathlib import Path

FOLDER = "root"
"""Its name among the server's static files."""
SYSTEM_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""Folders of `/` with the host's programs, besides `/usr`."""
SYSTEM = ("usr", *SYSTEM_FOLDERS)
PROGRAM_FOLDERS = ("usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin")
PYTHON_STARTERS = ("sitecustomize", "usercustomize")
"""Modules that Python imports before every program, wherever it finds them (Python: `site`)."""
LOADER_FILES = ("ld.so.preload", "ld.so.cache", "nsswitch.conf")
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


def build(folder: Path) -> None:
    """Write the folder, which must not exist yet."""
    folder.mkdir(mode=0o755)
    for name in (*MOUNT_POINTS, *FOLDERS):
        (folder / name).mkdir(mode=0o755)
    for name in ("tmp", "var/tmp"):
        (folder / name).mkdir()
        (folder / name).chmod(0o1777)


def is_python_starter(name: str) -> bool:
    """Return whether a file or folder is a module that Python imports before every program.

    Such a module may also be compiled, to bytecode or to machine code: `sitecustomize.cpython-311.so`.
    """
    return name.partition(".")[0] in PYTHON_STARTERS
