"""Files that are copied into a sandbox's root: read from a task's folder, packed as one archive."""

import io
import stat
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ors_server.harbor.ignore_rules import IgnoreRules
from ors_server.harbor.task_config import TaskFolderError

MAX_BYTES = 512 * 1024 * 1024
MAX_FILES = 20_000
HARBOR_IGNORE = ".harborignore"


@dataclass(frozen=True)
class RootFile:
    """One file or folder, with its path in the root."""

    target: str
    """An absolute path in normal form."""
    source: Path | None
    """The file on this host; `None` for a folder."""
    mode: int


def list_tree(folder: Path, task: Path, is_left_out: Callable[[str, bool], bool] | None = None) -> list[Path]:
    """Return the files and folders below a folder, sorted, links within the task resolved.

    Args:
        task: The task's folder; a link that leads out of it is refused.
        is_left_out: Called with a relative path and whether it is a folder.

    Raises:
        TaskFolderError: A link leads out of the task or around in a circle, something is neither a file nor a
            folder, or there is too much.
    """
    root = task.resolve()
    listed: list[Path] = []

    def visit(path: Path, above: frozenset[Path]) -> None:
        resolved = path.resolve()
        if not resolved.is_relative_to(root):
            raise TaskFolderError(f"{path}: it leads out of the task's folder")
        mode = path.stat().st_mode
        is_folder = stat.S_ISDIR(mode)
        relative = path.relative_to(folder).as_posix()
        if relative != "." and is_left_out is not None and is_left_out(relative, is_folder):
            return
        if not is_folder and not stat.S_ISREG(mode):
            raise TaskFolderError(f"{path}: expected a file or a folder")
        if resolved in above:
            raise TaskFolderError(f"{path}: its links form a cycle")
        if relative != ".":
            listed.append(path)
        if len(listed) > MAX_FILES:
            raise TaskFolderError(f"{folder}: expected at most {MAX_FILES} files")
        for child in sorted(path.iterdir()) if is_folder else ():
            visit(child, above | {resolved})

    try:
        visit(folder, frozenset())
    except OSError as error:
        raise TaskFolderError(f"{error.filename or folder}: {error.strerror or error}") from error
    return listed


def list_root_files(folder: Path, task: Path, target: str) -> Iterator[RootFile]:
    """Yield the files below a folder of tests or solutions, without what `.harborignore` files leave out."""
    for path in list_tree(folder, task, read_harbor_ignore(folder, task)):
        inside = f"{target.rstrip('/')}/{path.relative_to(folder).as_posix()}"
        yield as_root_file(path, inside)


def as_root_file(path: Path, target: str) -> RootFile:
    """Return a file or folder with the path and mode that its copy in the root gets."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        return RootFile(target, None, 0o755)
    return RootFile(target, path, 0o755 if mode & 0o111 else 0o644)


def read_harbor_ignore(folder: Path, task: Path) -> Callable[[str, bool], bool]:
    """Return a function that tells which paths the rules in a folder and below it leave out."""
    rules: dict[str, IgnoreRules] = {}
    ignore_files = sorted(folder.rglob(HARBOR_IGNORE)) if folder.is_dir() else []
    for file in ignore_files:
        if not file.resolve().is_relative_to(task.resolve()) or not file.is_file():
            raise TaskFolderError(f"{file}: expected a file of ignore rules within the task")
        try:
            lines = file.read_text("utf-8").splitlines()
            rules[file.parent.relative_to(folder).as_posix()] = IgnoreRules(lines)
        except ValueError as error:
            raise TaskFolderError(f"{file}: {error}") from error

    def is_left_out(relative: str, is_folder: bool) -> bool:  # noqa: FBT001  (called by position)
        if relative.rpartition("/")[2] == HARBOR_IGNORE:
            return True
        for base, own in rules.items():
            below = relative if base == "." else relative.removeprefix(f"{base}/")
            if (base == "." or below != relative) and own.leaves_out(below, is_folder=is_folder):
                return True
        return False

    return is_left_out


def pack(files: list[RootFile]) -> bytes:
    """Return an archive of the files, whose paths begin at the root.

    Raises:
        TaskFolderError: They are too large, or one cannot be read.
    """
    buffer = io.BytesIO()
    total = 0
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for file in files:
            if file.target == "/":
                continue  # it exists already
            entry = tarfile.TarInfo(file.target.lstrip("/"))
            entry.mode = file.mode
            if file.source is None:
                entry.type = tarfile.DIRTYPE
                archive.addfile(entry)
                continue
            try:
                content = file.source.read_bytes()
            except OSError as error:
                raise TaskFolderError(f"{file.source}: {error.strerror or error}") from error
            total += len(content)
            if total > MAX_BYTES:
                raise TaskFolderError(f"{file.source}: the files together exceed {MAX_BYTES} bytes")
            entry.size = len(content)
            entry.mtime = int(file.source.stat().st_mtime)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
