"""The file tools: view and change files of the work dir without a shell.

Earlier contents of edited files are kept, bounded and in memory only, so that an edit can be undone.
"""

import base64
import json
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from typing_extensions import override

from ors_server.environments.argument_names import only_these_arguments
from ors_server.environments.tool import ToolError, tool
from ors_server.environments.toolsets.file_access import (
    encode,
    path_key,
    read_meant,
    refusals,
    too_much,
    with_either_name,
)
from ors_server.environments.toolsets.file_edits import Edited, insert_lines, replace_text, show_file
from ors_server.environments.toolsets.file_names import read_name, show_name
from ors_server.environments.toolsets.file_views import count_lines, show_entries, show_matches
from ors_server.environments.toolsets.milestones import pay_progress
from ors_server.environments.toolsets.sandboxed import SandboxToolset
from ors_server.environments.toolsets.text_files import image_type
from ors_server.model.errors import EnvironmentFailedError
from ors_server.model.wire import ImageBlock, ToolOutput
from ors_server.processes import offload
from ors_server.processes.offload import MIB, OffloadLimits
from ors_server.sandboxes.base import Entry
from ors_server.sandboxes.sandbox_errors import (
    SandboxFileError,
    SandboxFileMissingError,
    SandboxFileTooLargeError,
    SandboxPathError,
)

MAX_EDITS = 100
"""Edits that one session remembers."""
MAX_BYTES = 4 << 20
"""Bytes of old contents that one session remembers."""


@dataclass(frozen=True, slots=True, eq=False)
class Edit:
    """One edit of one file."""

    key: str
    """The file."""
    before: bytes | None
    """Its content before the edit; `None` if it was new."""
    after: tuple[int, int]
    """Length and hash of its content after the edit."""


class EditHistory:
    """The edits of one session; the oldest are forgotten first."""

    def __init__(self) -> None:
        self._edits: deque[Edit] = deque()
        self._bytes = 0

    def add(self, key: str, before: bytes | None, after: bytes) -> None:
        """Remember an edit; `before` is `None` if the file was new."""
        self._edits.append(Edit(key, before, _fingerprint(after)))
        self._bytes += len(before or b"")
        while len(self._edits) > MAX_EDITS or self._bytes > MAX_BYTES:
            self._bytes -= len(self._edits.popleft().before or b"")

    def find(self, key: str, now: bytes) -> Edit:
        """Return the newest edit that left a file as it is now.

        Edits that a command or a restored snapshot has overwritten are skipped.
        """
        fingerprint = _fingerprint(now)
        edits = [edit for edit in self._edits if edit.key == key]
        for edit in reversed(edits):
            if edit.after == fingerprint:
                return edit
        if edits:
            raise ToolError(
                "after its last edit, another tool or process changed the file; view it and edit it"
            )
        raise ToolError(
            f"no edit of this file can be undone: only the last {MAX_EDITS} edits of a session can, "
            f"with up to {MAX_BYTES >> 20} MiB of old contents"
        )

    def forget(self, edit: Edit) -> None:
        """Forget an edit and the later ones of its file."""
        at = self._edits.index(edit)
        gone = [other for index, other in enumerate(self._edits) if index >= at and other.key == edit.key]
        self._edits = deque(other for other in self._edits if other not in gone)
        self._bytes -= sum(len(other.before or b"") for other in gone)


def _fingerprint(content: bytes) -> tuple[int, int]:
    # Not the content itself: the history would hold every edited file twice.
    return len(content), hash(content)


MAX_IMAGE_BYTES = 2 << 20
"""Length of an image file that is shown as an image."""
SEARCH_SECONDS = 20.0
"""Seconds that one search may take."""
_NOT_FOUND = 127
_SEARCH_BYTES = 8 << 20
_EDIT_LIMITS = OffloadLimits(result_bytes=48 * MIB)


class FileTools(SandboxToolset):
    """View, create and edit files of the work dir."""

    @override
    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        self._history = EditHistory()

    @tool
    @only_these_arguments(file_path="path", filename="path", range="view_range")
    async def view(self, path: str, view_range: list[int] | None = None) -> ToolOutput:
        """Show a file or a folder.

        A text file is shown with line numbers, a folder as a listing two levels deep, a small PNG, JPEG, GIF
        or WebP file as an image.

        Args:
            path: Relative to the work dir.
            view_range: First and last line to show, counted from 1, such as [20, 40]; -1 as the last line
                means the end of the file. Leave it out for the whole file.
        """
        with refusals():
            try:
                real_path, content = await read_meant(self.sandbox, path)
            except SandboxPathError:
                entries = await self._list(path, 2)
                return await self._done(show_entries(entries, path))
        mime_type = image_type(content)
        if mime_type is not None and len(content) <= MAX_IMAGE_BYTES:
            shown = f"{show_name(real_path)}: {mime_type}, {len(content)} bytes"
            data = base64.b64encode(content).decode()
            return await self._done(shown, ImageBlock(data=data, mimeType=mime_type))
        with too_much(real_path):
            text = await offload.run_sized(len(content), show_file, content, view_range)
        kind = mime_type or "a binary file"
        refused = f"{show_name(real_path)} is {kind} of {len(content)} bytes and cannot be shown."
        return await self._done(refused if text is None else text)

    @tool
    @only_these_arguments(file_path="path", filename="path", file_text="content", text="content")
    async def create(self, path: str, content: str) -> ToolOutput:
        """Write a whole file; an existing file is replaced. Missing folders are created.

        Args:
            path: Relative to the work dir.
            content: The whole content of the file.
        """
        data = encode(content)
        with refusals():
            real_path, is_new, old = await self._read_old(path)
            await self.sandbox.write_file(real_path, data)
        # Content that was too large to read cannot be restored.
        if is_new or old is not None:
            self._remember(real_path, old, data)
        verb = "Created" if is_new else "Replaced"
        return await self._done(f"{verb} {show_name(real_path)}: {count_lines(content)}, {len(data)} bytes.")

    @tool
    @only_these_arguments(file_path="path", filename="path", old_string="old_str", new_string="new_str")
    async def str_replace(self, path: str, old_str: str, new_str: str) -> ToolOutput:
        """Replace a text that occurs exactly once in a file.

        Args:
            path: Relative to the work dir.
            old_str: The text to replace, exactly as it is in the file, including white space. Include enough
                lines around it that it occurs only once.
            new_str: The text to put in its place; may be empty.
        """
        if not old_str:
            raise ToolError("old_str is empty; give the text to be replaced, or use insert")
        return await self._edit(path, replace_text, old_str, new_str)

    @tool
    @only_these_arguments(
        file_path="path",
        filename="path",
        insert_text="text",
        new_str="text",
        content="text",
        line="insert_line",
    )
    async def insert(self, path: str, insert_line: int, text: str) -> ToolOutput:
        """Insert lines into a text file.

        Args:
            path: Relative to the work dir.
            insert_line: The line after which the text goes, counted from 1; 0 puts it before the first line.
            text: The lines to insert.
        """
        return await self._edit(path, insert_lines, insert_line, text)

    @tool
    @only_these_arguments(file_path="path", filename="path")
    async def undo_edit(self, path: str) -> ToolOutput:
        """Undo the last create, str_replace or insert of a file; a file that was new is removed.

        Args:
            path: Relative to the work dir.
        """
        with refusals():
            real_path, now = await read_meant(self.sandbox, path)
            name = show_name(real_path)
            edit = self._history.find(path_key(self.sandbox, real_path), now)
            if edit.before is None:
                await self.sandbox.remove_file(real_path)
                done = f"Undone: {name} was new and is removed."
            else:
                await self._store(real_path, edit.before, now, is_edit=False)
                done = f"Undone: {name} is as it was before the edit, {len(edit.before)} bytes."
        self._history.forget(edit)
        return await self._done(done)

    @tool(name="list")
    @only_these_arguments(dir_path="path", directory="path", folder="path")
    async def list_files(self, path: str = ".", depth: int = 2) -> ToolOutput:
        """List a folder. Folders end with a slash, links with an at sign; files have their size in bytes.

        Args:
            path: Relative to the work dir.
            depth: Number of levels to list, from 1.
        """
        if depth < 1:
            raise ToolError(f"depth must be at least 1, got {depth}")
        with refusals():
            entries = await self._list(path, depth)
        return await self._done(show_entries(entries, path))

    @tool
    @only_these_arguments(regex="pattern", query="pattern", file_pattern="glob", include="glob")
    async def search(self, pattern: str, path: str = ".", glob: str | None = None) -> ToolOutput:
        """Find the lines of text files that match a regular expression. Links are not followed.

        Args:
            pattern: A Python regular expression.
            path: The file or folder to search, relative to the work dir.
            glob: Only files that match it, such as *.py; with a slash, it is matched with the whole path.
        """
        inside = path.removeprefix(self.sandbox.work_dir).lstrip("/") if path.startswith("/") else path
        if path.startswith("/") and not (path + "/").startswith(self.sandbox.work_dir + "/"):
            raise ToolError(
                f"{path!r} is outside the work dir; use a path relative to {self.sandbox.work_dir}"
            )
        return await self._done(await self._search(pattern, inside or ".", glob or ""))

    async def _edit(self, path: str, edit: Callable[..., Edited], target: str | int, text: str) -> ToolOutput:
        """Change a file with an edit: a function of its name, its content, where to edit, and a text."""
        with refusals():
            real_path, before = await read_meant(self.sandbox, path)
        size = len(before) + len(text)
        with too_much(real_path):
            edited = await offload.run_sized(
                size, edit, show_name(real_path), before, target, text, limits=_EDIT_LIMITS
            )
        await self._store(real_path, edited.content, before)
        return await self._done(edited.shown)

    async def _done(self, *content: str | ImageBlock) -> ToolOutput:
        return await pay_progress(self.environment, ToolOutput.ongoing(*content))

    async def _read_old(self, path: str) -> tuple[str, bool, bytes | None]:
        """Return where to write, whether nothing is there, and the old content unless it is too large."""
        try:
            real_path, old = await read_meant(self.sandbox, path)
        except SandboxFileMissingError:
            return path, True, None
        except SandboxFileTooLargeError:
            return path, False, None
        return real_path, False, old

    async def _list(self, path: str, depth: int) -> list[Entry]:
        _, entries = await with_either_name(path, lambda name: self.sandbox.list_files(name, depth=depth))
        return entries

    def _remember(self, path: str, before: bytes | None, after: bytes) -> None:
        self._history.add(path_key(self.sandbox, path), before, after)

    async def _store(self, path: str, content: bytes, before: bytes, *, is_edit: bool = True) -> None:
        with refusals():
            try:
                await self.sandbox.write_file(path, content)
            except SandboxFileTooLargeError:
                raise  # nothing was written
            except SandboxFileError:
                with suppress(SandboxFileError):  # a full disk: the old content fits
                    await self.sandbox.write_file(path, before)
                raise
        if is_edit:
            self._remember(path, before, content)

    async def _search(self, pattern: str, path: str, glob: str) -> str:
        encode(pattern)  # refuses what UTF-8 cannot express
        request = {"pattern": pattern, "path": path, "meant": read_name(path), "glob": glob}
        run = await self.sandbox.run_fresh(
            ["python3", "-I", "-S", f"{self.sandbox.fresh_dir}/search.py"],
            files={"search.py": _search_program()},
            stdin=json.dumps(request).encode(),
            time_limit=SEARCH_SECONDS,
            output_bytes=_SEARCH_BYTES,
        )
        if run.timed_out:
            raise ToolError(f"the search took longer than {SEARCH_SECONDS:g} seconds; simplify or narrow it")
        if run.exit_code == _NOT_FOUND:
            raise EnvironmentFailedError("the search tool needs a python3 inside the sandbox")
        if run.exit_code != 0:
            raise ToolError(f"the search failed: {run.stderr.text.strip()[-500:]}")
        answer = await offload.run_sized(run.stdout.total, json.loads, run.stdout.text)
        if "error" in answer:
            raise ToolError(answer["error"])
        return show_matches(answer["matches"], is_cut=answer["cut"])


@cache
def _search_program() -> bytes:
    return Path(__file__).with_name("inside").joinpath("search.py").read_bytes()
