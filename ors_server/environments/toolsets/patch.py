"""The patch tool: changes several files in one call, all of them or none."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import anyio

from ors_server.environments.argument_names import only_these_arguments
from ors_server.environments.tool import ToolError, tool
from ors_server.environments.toolsets.file_access import encode, path_key, read_meant, refusals, too_much
from ors_server.environments.toolsets.file_names import show_name
from ors_server.environments.toolsets.milestones import pay_progress
from ors_server.environments.toolsets.patch_hunks import apply_hunks
from ors_server.environments.toolsets.patch_text import ADD, DELETE, FileChange, read_patch
from ors_server.environments.toolsets.sandboxed import SandboxToolset
from ors_server.model.wire import ToolOutput
from ors_server.processes import offload
from ors_server.processes.offload import MIB, OffloadLimits
from ors_server.sandboxes.sandbox_errors import (
    SandboxError,
    SandboxFileMissingError,
    SandboxFileTooLargeError,
)

MAX_PATCH = MIB
"""Characters of one patch."""
MAX_BYTES = 16 * MIB
"""Bytes of all files that one patch changes, as they were."""
_LIMITS = OffloadLimits(result_bytes=48 * MIB)


@dataclass(frozen=True, slots=True)
class _Write:
    """A file before and after; `None` where it does not exist."""

    path: str
    before: bytes | None
    after: bytes | None


class PatchTools(SandboxToolset):
    """Change files of the work dir with patches."""

    @tool
    @only_these_arguments(input="patch", patch_text="patch")
    async def apply_patch(self, patch: str) -> ToolOutput:
        """Add, update, move and delete text files with one patch. If a part does not apply, nothing changes.

        Between the lines *** Begin Patch and *** End Patch, use any of these, with paths relative to the work
        dir:

        *** Add File: path, then the lines of a new file, each with + in front.
        *** Delete File: path
        *** Update File: path, then optionally *** Move to: path, then hunks.

        A hunk begins with @@, or with @@ and a line of the file somewhere above it, such as the head of a
        function; several such lines narrow the place further. Then come the lines of the file in their order:
        a space in front of lines that stay, - in front of removed lines, + in front of new lines. There are
        no line numbers. Lines must match exactly and at one place only: include about three lines around each
        change. Hunks are in the order of the file. *** End of File after a hunk means that the hunk ends the
        file.

        Args:
            patch: The whole patch.
        """
        if len(patch) > MAX_PATCH:
            raise ToolError(f"a patch has at most {MAX_PATCH} characters, got {len(patch)}; split it")
        encode(patch)  # refuses what UTF-8 cannot express
        with too_much("the patch"):
            changes = await offload.run_sized(len(patch), read_patch, patch)
        self._check_paths(changes)
        shown: list[str] = []
        writes: list[_Write] = []
        left = MAX_BYTES
        for change in changes:
            more = await self._plan(change, left)
            left -= sum(len(write.before or b"") for write in more)
            writes += more
            shown.append(_describe(change))
        # Deletions last: a patch that fails before them has lost no file.
        await self._write(sorted(writes, key=lambda write: write.after is None))
        return await pay_progress(self.environment, ToolOutput.ongoing("\n".join(["Done:", *shown])))

    def _check_paths(self, changes: Sequence[FileChange]) -> None:
        seen: set[str] = set()
        for change in changes:
            for path in filter(None, (change.path, change.move_to)):
                key = path_key(self.sandbox, path)
                if key in seen:
                    raise ToolError(
                        f"the patch names {path!r} twice; put all hunks of a file under one heading"
                    )
                seen.add(key)

    async def _plan(self, change: FileChange, max_bytes: int) -> list[_Write]:
        if change.kind == ADD:
            return [_Write(await self._require_free_path(change.path), None, change.content.encode())]
        try:
            with refusals():
                path, before = await read_meant(self.sandbox, change.path, max(max_bytes, 1))
        except ToolError as error:
            if isinstance(error.__cause__, SandboxFileTooLargeError):
                raise ToolError(f"{error}; the files of one patch have at most {MAX_BYTES} bytes") from error
            raise
        if change.kind == DELETE:
            return [_Write(path, before, None)]
        after = before
        if change.hunks:
            hunks = change.hunks  # each is looked for in the whole file
            work = (len(before) + 64) * len(hunks) + sum(len(hunk.body) for hunk in hunks)
            with too_much(path):
                after = await offload.run_sized(
                    work, apply_hunks, show_name(path), before, change, limits=_LIMITS
                )
        if change.move_to is None:
            return [_Write(path, before, after)]
        return [
            _Write(await self._require_free_path(change.move_to), None, after),
            _Write(path, before, None),
        ]

    async def _require_free_path(self, path: str) -> str:
        """Return the path if nothing is there; refuse it otherwise."""
        with refusals():
            try:
                await self.sandbox.read_file(path, most=1)
            except SandboxFileMissingError:
                return path
            except SandboxFileTooLargeError:
                pass
        raise ToolError(f"{path}: already exists; update or delete it, or choose another path")

    async def _write(self, writes: Sequence[_Write]) -> None:
        """Write everything, or restore what was written."""
        begun: list[_Write] = []
        try:
            with refusals():
                for write in writes:
                    await self._check_unchanged(write)
                    begun.append(write)
                    await self._set(write.path, write.after)
        except BaseException:
            with anyio.CancelScope(shield=True):
                for write in reversed(begun):
                    with suppress(SandboxError):
                        await self._set(write.path, write.before)
            raise

    async def _check_unchanged(self, write: _Write) -> None:
        """Refuse a file that changed meanwhile: by a process, or as the same file under another name."""
        try:
            now = await self.sandbox.read_file(write.path)
        except SandboxFileMissingError:
            now = None
        if now != write.before:
            raise ToolError(
                f"{show_name(write.path)} changed while the patch was applied; two paths of the patch are "
                "the same file, or a process writes to it"
            )

    async def _set(self, path: str, content: bytes | None) -> None:
        if content is None:
            await self.sandbox.remove_file(path)
        else:
            await self.sandbox.write_file(path, content)


def _describe(change: FileChange) -> str:
    if change.kind == ADD:
        return f"A {change.path}"
    if change.kind == DELETE:
        return f"D {change.path}"
    return f"M {change.path}" + (f" -> {change.move_to}" if change.move_to is not None else "")
