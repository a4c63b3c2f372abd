"""Copies declared artefacts from the agent's root into that of a separate verifier: all kinds of files.

The files are the agent's, so only paths below the declared one are copied, and never the tests, the result or
a program of the verifier's image. A link is copied if its target is inside the same artefact.
"""

import os
import posixpath
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import IO

import anyio

from ors_server.harbor.root_files import COPY_SECONDS, RootFilesError
from ors_server.sandboxes.base import MIB, Sandbox
from ors_server.sandboxes.cells.root_skeleton import (
    LOADER_FILES,
    MOUNT_POINTS,
    PROGRAM_FOLDERS,
    SYSTEM,
    is_python_starter,
)
from ors_server.sandboxes.fresh import RECEIVE_BYTES, FreshProcess
from ors_server.sandboxes.program_clock import OutOfTimeError, ProgramClock
from ors_server.sandboxes.sandbox_errors import FreshEndedError

GRADING_FOLDERS = ("/tests", "/logs/verifier")
COVERED = ("proc", "dev", "sys", ".ors-control", ".ors-state", ".ors-home", ".ors-files")
"""Folders of `/` that are mounted over an image, or made by the kernel."""
_PYTEST_FILES = frozenset(
    f"/{name}"
    for name in (
        *("conftest.py", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg", "setup.py"),
    )
)
_MAX_PATH = 4000
"""Bytes of a path, a little less than the kernel's PATH_MAX."""
_OVERHEAD = 64 * MIB
"""Bytes of an archive beyond those of its files."""
_STATUS_MISSING = 44
_STATUSES_ARCHIVED = (0, 1, 2)
"""Statuses of tar with a usable archive: not 0 if it left out files that the agent itself may not read."""
# The declared path may be a link of the agent's, which is followed; links below it are archived as links.
_PACK = f"""\
if [ "$1" = / ]; then
  cd / && shift
  skipped=" $* "
  set --
  for path in ./* ./.[!.]*; do
    case "$skipped" in *" ${{path#./}} "*) continue;; esac
    if [ -e "$path" ] || [ -L "$path" ]; then set -- "$@" "$path"; fi
  done
  exec tar -cf - -- "$@"
fi
if [ -d "$1" ]; then cd -P -- "$1" && exec tar -cf - .; fi
[ -f "$1" ] || exit {_STATUS_MISSING}
exec tar -C / -chf - -- ".$1"
"""
# tar itself replaces a file by a file, and not a folder by a file.
_UNPACK = """\
cd / || exit 1
while IFS= read -r -d '' path; do
  if [ -L "$path" ] || { [ -e "$path" ] && [ ! -d "$path" ]; }; then rm -rf -- "$path"; fi
done < "$0"/folders
while IFS= read -r -d '' path; do
  if [ -d "$path" ] && [ ! -L "$path" ]; then rm -rf -- "$path"; fi
done < "$0"/others
exec tar -xopf - -C /
"""


@dataclass(frozen=True)
class ArtifactFilter:
    """Decides which files of an artefact a verifier gets."""

    source: str
    """The declared path, absolute and in normal form."""
    exclude: Sequence[str]
    layers: tuple[Path, ...] | None
    """The layers of the verifier's image; `None` for a root without an image."""

    def includes(self, target: str, *, is_folder: bool) -> bool:
        """Return whether a file is copied to its path of the root."""
        if len(os.fsencode(target)) > _MAX_PATH or target == "/":
            return False
        relative = target.removeprefix(self.source).lstrip("/")
        names = (relative, *relative.split("/"))
        if relative and any(fnmatch(name, rule.rstrip("/")) for name in names for rule in self.exclude):
            return False
        if not is_folder and any(folder.startswith(f"{target}/") for folder in GRADING_FOLDERS):
            return False
        return not (is_reserved(target) or self._is_system(target, is_folder=is_folder))

    def keeps_link(self, target: str, link: str) -> bool:
        """Return whether a symbolic link at `target` leads to a path of the same artefact, and only there."""
        parts = [part for part in link.split("/") if part not in {"", "."}]
        names = [number for number, part in enumerate(parts) if part != ".."]
        # After a name, `..` leads out of the folder to which that name may be a link.
        if ".." in parts[names[0] if names else len(parts) :]:
            return False
        path = posixpath.normpath(posixpath.join(posixpath.dirname(target), link))
        path = "/" + path.lstrip("/")
        above = [folder for folder in GRADING_FOLDERS if folder.startswith(f"{path.rstrip('/')}/")]
        if above or is_reserved(path):
            return False
        return path == self.source or path.startswith(f"{self.source.rstrip('/')}/")

    def _is_system(self, target: str, *, is_folder: bool) -> bool:
        """Return whether a file could change which program the verifier runs, or what it loads."""
        top, name = target.split("/")[1], posixpath.basename(target)
        # Without an image, the folders of the system are mounted from the host.
        if self.layers is None:
            return top in MOUNT_POINTS
        # Settings may be copied, except those of the dynamic loader, and files that Python runs at its start.
        if top == "etc":
            return target in {f"/etc/{file}" for file in LOADER_FILES} or is_python_starter(name)
        if top not in SYSTEM:
            return False
        # Into a folder of the system only goes an artefact that was declared there.
        if self.source.split("/")[1] not in SYSTEM or is_python_starter(name):
            return True
        # A new file may be copied, but not one that replaces a file of the image. A program also replaces
        # those of its name in every other folder of programs: the search path may have its folder first.
        paths = [target.lstrip("/")]
        if posixpath.dirname(target).lstrip("/") in PROGRAM_FOLDERS:
            paths += [f"{folder}/{name}" for folder in PROGRAM_FOLDERS]
        present = [layer / path for layer in self.layers for path in paths if os.path.lexists(layer / path)]
        return any(not is_folder or path.is_symlink() or not path.is_dir() for path in present)


def is_reserved(path: str) -> bool:
    """Return whether a path is the grader's or the kernel's, which no artefact replaces."""
    if path.split("/")[1] in COVERED or path in _PYTEST_FILES:
        return True
    return any(path == folder or path.startswith(f"{folder}/") for folder in GRADING_FOLDERS)


async def copy_artifact(sandbox: Sandbox, verifier: Sandbox, artifact_filter: ArtifactFilter) -> None:
    """Copy an artefact; what is in its way in the verifier's root is replaced.

    Raises:
        RootFilesError: It could not be read, or does not fit into the verifier's root.
    """
    with tempfile.TemporaryFile() as raw, tempfile.TemporaryFile() as filtered:
        skipped = [*COVERED, *SYSTEM]
        if artifact_filter.layers is None:
            skipped = [*MOUNT_POINTS, *skipped]
        process = await sandbox.start_fresh(["/bin/sh", "-c", _PACK, "sh", artifact_filter.source, *skipped])
        max_bytes = sandbox.limits.disk_bytes + _OVERHEAD
        status = await _run_program(process, None, raw, max_bytes)
        if status == _STATUS_MISSING:
            return
        if status not in _STATUSES_ARCHIVED:
            raise RootFilesError(
                f"{artifact_filter.source}: {process.stderr.text.strip()[-300:] or f'status {status}'}"
            )
        max_bytes = verifier.limits.disk_bytes + _OVERHEAD
        names = await anyio.to_thread.run_sync(_rewrite, raw, filtered, artifact_filter, max_bytes)
        argv = ["/bin/bash", "-c", _UNPACK, verifier.fresh_dir]
        process = await verifier.start_fresh(argv, files=names, writable=True)
        status = await _run_program(process, filtered, None, MIB)
        if status != 0:
            raise RootFilesError(
                f"{artifact_filter.source}: {process.stderr.text.strip()[-300:] or f'status {status}'}"
            )


def _rewrite(
    raw: IO[bytes], filtered: IO[bytes], artifact_filter: ArtifactFilter, max_bytes: int
) -> dict[str, bytes]:
    """Write the archive that the verifier's root gets, and return its names: folders, and others."""
    folders: list[bytes] = []
    others: list[bytes] = []
    raw.seek(0)
    try:
        with (
            tarfile.open(fileobj=raw, mode="r:") as source,
            tarfile.open(fileobj=filtered, mode="w", format=tarfile.GNU_FORMAT) as archive,
        ):
            is_file = source.getnames() == [f".{artifact_filter.source}"]
            # tarfile itself searches the whole archive for the file of each hard link.
            plain = {member.name: member for member in source.getmembers() if member.isreg()}
            for member in source:
                relative = "" if is_file else member.name
                target = posixpath.normpath(posixpath.join(artifact_filter.source, relative))
                if ".." in member.name.split("/") or not artifact_filter.includes(
                    target, is_folder=member.isdir()
                ):
                    continue
                content_member = plain.get(member.linkname) if member.islnk() else member
                content = (
                    None
                    if content_member is None or not content_member.isreg()
                    else source.extractfile(content_member)
                )
                entry = _make_entry(member, target, content)
                if entry.issym() and not artifact_filter.keeps_link(target, entry.linkname):
                    continue
                if entry.isfile() and content is None:
                    continue  # a pipe or a device
                if filtered.tell() + entry.size > max_bytes:
                    raise RootFilesError(f"{artifact_filter.source}: larger than the verifier's disk")
                (folders if entry.isdir() else others).append(os.fsencode(entry.name) + b"\0")
                archive.addfile(entry, content)
    except (tarfile.TarError, ValueError) as error:
        raise RootFilesError(f"{artifact_filter.source}: {error}") from error
    filtered.seek(0)
    return {"folders": b"".join(folders), "others": b"".join(others)}


def _make_entry(member: tarfile.TarInfo, target: str, content: IO[bytes] | None) -> tarfile.TarInfo:
    """Return the entry of a copy: no owner and no special bits; a hard link becomes a file."""
    entry = tarfile.TarInfo(target.lstrip("/"))
    entry.mode, entry.mtime = member.mode & 0o777, member.mtime
    if content is not None:
        entry.size = content.seek(0, os.SEEK_END)
        content.seek(0)
    elif member.isdir() or member.issym():
        entry.type, entry.linkname = member.type, member.linkname
    return entry


async def _run_program(
    process: FreshProcess, source: IO[bytes] | None, sink: IO[bytes] | None, max_bytes: int
) -> int | None:
    """Feed a program and keep its output; return its status, or `None` if it exceeded a limit."""

    async def feed_and_read() -> int | None:
        total = 0
        try:
            while source is not None and (piece := source.read(RECEIVE_BYTES)):
                await process.send(piece)
        except FreshEndedError:
            pass  # its status tells why
        await process.close_stdin()
        while piece := await process.receive():
            total += len(piece)
            if total > max_bytes:
                return None
            if sink is not None:
                sink.write(piece)
        return await process.wait()

    try:
        return await ProgramClock(process.usage).wait_for(feed_and_read, COPY_SECONDS)
    except OutOfTimeError:
        return None
    finally:
        with anyio.CancelScope(shield=True):
            await process.aclose()
