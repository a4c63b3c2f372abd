"""What the tools that touch files share: paths as an agent writes them, and refusals as it reads them."""

import posixpath
from collections.abc import Generator
from contextlib import contextmanager

from ors_server.authoring.tool import ToolError
from ors_server.authoring.toolsets.file_names import read_name, show_name
from ors_server.offload import OverLimitError
from ors_server.sandboxes.base import Sandbox
from ors_server.sandboxes.sandbox_errors import SandboxFileError, SandboxFileMissingError


async def read_meant(sandbox: Sandbox, path: str, most: int | None = None) -> tuple[str, bytes]:
    """Return a file's path as the file system has it, and its content.

    Args:
        most: Bytes above which the file is refused.

    Raises:
        SandboxFileError: It cannot be read.
    """
    try:
        return path, await sandbox.read_file(path, most=most)
    except SandboxFileMissingError:
        meant = read_name(path)
        if meant == path:
            raise
    return meant, await sandbox.read_file(meant, most=most)


@contextmanager
def refusals() -> Generator[None]:
    """Tell the agent what the file system refuses."""
    try:
        yield
    except SandboxFileError as error:
        raise ToolError(str(error)) from error


@contextmanager
def too_much(what: str) -> Generator[None]:
    """Tell the agent that the work took too much."""
    try:
        yield
    except OverLimitError as error:
        raise ToolError(f"{show_name(what)} is too large for this tool: {error}") from error


def same_place(sandbox: Sandbox, path: str) -> str:
    """Return one text for every way to write a path of the work dir."""
    return posixpath.normpath(posixpath.join(sandbox.work_dir, path))


def encode(text: str) -> bytes:
    """Return a text in UTF-8.

    Raises:
        ToolError: UTF-8 cannot express it.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ToolError(
            f"expected text that UTF-8 can express; a lone surrogate is at position {error.start}"
        ) from None
