"""Shared code of the file tools: paths as agents write them, and errors as agents read them."""

import posixpath
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

from ors_server.environments.tool import ToolError
from ors_server.environments.toolsets.file_names import read_name, show_name
from ors_server.processes.offload import OverLimitError
from ors_server.sandboxes.base import Sandbox
from ors_server.sandboxes.sandbox_errors import SandboxFileError, SandboxFileMissingError

T = TypeVar("T")


async def read_meant(sandbox: Sandbox, path: str, max_bytes: int | None = None) -> tuple[str, bytes]:
    """Return a file's path on the file system and its content; `most` is its largest size in bytes.

    Raises:
        SandboxFileError: It cannot be read.
    """
    return await with_either_name(path, lambda name: sandbox.read_file(name, most=max_bytes))


async def with_either_name(path: str, look: Callable[[str], Awaitable[T]]) -> tuple[str, T]:
    r"""Return a path and the result of `look` for it; if nothing is there, its `\xNN` mean bytes."""
    try:
        return path, await look(path)
    except SandboxFileMissingError:
        meant = read_name(path)
        if meant == path:
            raise
    return meant, await look(meant)


@contextmanager
def refusals() -> Generator[None]:
    """Turn refusals of the file system into `ToolError`."""
    try:
        yield
    except SandboxFileError as error:
        raise ToolError(str(error)) from error


@contextmanager
def too_much(path: str) -> Generator[None]:
    """Turn an exceeded limit into `ToolError`."""
    try:
        yield
    except OverLimitError as error:
        raise ToolError(f"{show_name(path)} is too large for this tool: {error}") from error


def path_key(sandbox: Sandbox, path: str) -> str:
    """Return the same text for every way to write a path of the work dir."""
    return posixpath.normpath(posixpath.join(sandbox.work_dir, path))


def encode(text: str) -> bytes:
    """Return a text in UTF-8; raises `ToolError` if UTF-8 cannot express it."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ToolError(
            f"expected text that UTF-8 can encode; there is a lone surrogate at position {error.start}"
        ) from None
