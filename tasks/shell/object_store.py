"""Reads objects of a store that an agent may have prepared, through git, and checks each by its name."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Protocol, Self

from ors_server_tasks.shell.observation import UnjudgedError
from ors_server_tasks.shell.repository import oid_of

if TYPE_CHECKING:
    from ors_server import Evidence

TIME_LIMIT = 60.0
"""Seconds that git may spend on one store."""
_OBJECT_BYTES = 1 << 20
_NAME = re.compile(r"[0-9a-f]{40}")
_HEADER = re.compile(rb"[0-9a-f]{40} (blob|tree|commit|tag) (\d{1,12})")
_EMPTY_TREE = oid_of("tree", b"")
"""git knows it without any store, so its answer shows that git works."""


class StoreError(Exception):
    """The agent's objects are damaged, missing or out of all proportion."""


def empty_repository() -> dict[str, bytes]:
    """Return the files of the grader's own repository."""
    return {
        "repository/HEAD": b"ref: refs/heads/none\n",
        "repository/config": b"[core]\n\trepositoryformatversion = 0\n",
        "repository/objects/.keep": b"",
        "repository/refs/.keep": b"",
    }


def git_environment(folder: str) -> dict[str, str]:
    """Return the variables that make git use the grader's repository and no user's configuration."""
    return {
        "GIT_DIR": f"{folder}/repository",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
    }


async def _require_git(evidence: Evidence) -> None:
    """Ask git for the empty tree, with no object of the agent's in sight.

    Raises:
        UnjudgedError: git does not work.
    """
    files, environment = empty_repository(), git_environment(evidence.sandbox.fresh_dir)
    run = await evidence.run(["git", "cat-file", "-t", _EMPTY_TREE], files=files, environment=environment)
    if run.stdout.kept.strip() != b"tree":
        raise UnjudgedError(f"git does not work: {run.stderr.text.strip()[:500]}")


class Conversation(Protocol):
    """A program that answers, as `Evidence.start` gives it."""

    async def send(self, data: bytes) -> None:
        """Write to its standard input."""
        ...

    async def receive(self) -> bytes:
        """Return what it printed next, nothing at its end."""
        ...


class ObjectStore:
    """An agent's objects, read one by one."""

    def __init__(self, process: Conversation) -> None:
        """Speak to a `git cat-file --batch`."""
        self._process = process
        self._pending = bytearray()
        self._known: dict[str, tuple[str, bytes]] = {}

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, evidence: Evidence, objects: str) -> AsyncGenerator[Self]:
        """Open a store.

        Args:
            evidence: The work dir as the agent left it.
            objects: The folder of objects, relative to the work dir; plain files and folders only.

        Raises:
            StoreError: git works with every store but this one.
            SandboxStarvedError: The machine was too busy for git.
            UnjudgedError: git does not work.
        """
        sandbox = evidence.sandbox
        process = await evidence.start(
            ["git", "cat-file", "--batch"],
            files=empty_repository(),
            environment={
                **git_environment(sandbox.fresh_dir),
                "GIT_OBJECT_DIRECTORY": f"{sandbox.work_dir}/{objects}",
            },
            time_limit=TIME_LIMIT,
        )
        try:
            store = cls(process)
            if not await store._is_answered():
                await _require_git(evidence)
                raise StoreError("git does not answer with them")
            yield store
        finally:
            await process.aclose()

    async def read(self, oid: str) -> tuple[str, bytes]:
        """Return an object's kind and content.

        Args:
            oid: Its name; anything.

        Raises:
            StoreError: There is no sound object of this name.
        """
        if _NAME.fullmatch(oid) is None:
            raise StoreError("a malformed name")
        if oid not in self._known:
            kind, content = await self._ask(oid)
            if oid_of(kind, content) != oid:
                raise StoreError("an object does not have the name of its content")
            self._known[oid] = (kind, content)
        return self._known[oid]

    async def _is_answered(self) -> bool:
        try:
            return await self._ask(_EMPTY_TREE) == ("tree", b"")
        except StoreError:
            return False

    async def _ask(self, oid: str) -> tuple[str, bytes]:
        await self._process.send(f"{oid}\n".encode())
        header = _HEADER.fullmatch(await self._line())
        if header is None:
            raise StoreError("an object is missing")
        size = int(header[2])
        if size > _OBJECT_BYTES:
            raise StoreError("an object is larger than any that was given or asked for")
        await self._fill(size + 1)
        content = bytes(self._pending[:size])
        del self._pending[: size + 1]
        return header[1].decode(), content

    async def _line(self) -> bytes:
        while b"\n" not in self._pending:
            await self._more()
        line, _, rest = bytes(self._pending).partition(b"\n")
        self._pending = bytearray(rest)
        return line

    async def _fill(self, size: int) -> None:
        while len(self._pending) < size:
            await self._more()

    async def _more(self) -> None:
        piece = await self._process.receive()
        if not piece:
            raise StoreError("git gave up on the objects, or spent too long on them")
        self._pending += piece
