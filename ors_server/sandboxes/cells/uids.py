"""Uids for sessions, taken in blocks, so that sessions cannot reach each other even outside a sandbox."""

import fcntl
import os
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from ors_server.processes.host_processes import processes_of_uids
from ors_server.sandboxes.sandbox_errors import SandboxUnavailableError

IDS_OF_IMAGES = 65_536
"""Ids of one session whose root is an image: as many as images may use."""
_BLOCKS = 256


@dataclass(frozen=True)
class UidPlan:
    """Uids that sessions of one kind get, all far above what systems assign, and below 2**31."""

    files: str
    """Beginning of the names of the locks."""
    first: int
    """The lowest uid of the first block."""
    sessions: int
    """How many sessions a block is for."""
    ids: int = 1
    """How many uids a session has; it gets the lowest of them."""

    @property
    def per_block(self) -> int:
        """How many uids a block has."""
        return self.sessions * self.ids


SINGLE_UIDS = UidPlan("uids-", 1_700_000_000, 1024)
UID_RANGES = UidPlan("ranges-", 1_400_000_000, 16, IDS_OF_IMAGES)
UID_PLANS = (SINGLE_UIDS, UID_RANGES)


def try_lock(path: Path) -> int | None:
    """Create and lock a file for as long as the returned descriptor is open; None if another holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


@dataclass(frozen=True)
class UidBlock:
    """A range of uids that no other server on this host uses while this one runs."""

    first: int
    lock: int

    @classmethod
    def take(cls, base: Path, plan: UidPlan = SINGLE_UIDS) -> "UidBlock":
        """Take the first free block; `SandboxUnavailableError` if every block is taken."""
        for number in range(_BLOCKS):
            lock = try_lock(base / f"{plan.files}{number}")
            if lock is None:
                continue
            first = plan.first + number * plan.per_block
            if not processes_of_uids(first, plan.per_block):
                return cls(first, lock)
            os.close(lock)  # a dead server's processes still run; `cleanup` kills them
        raise SandboxUnavailableError(f"all {_BLOCKS} blocks of {plan.per_block} uids are taken by servers")


class UidPool:
    """The uids of one server: one block, and another whenever all are in use."""

    def __init__(self, base: Path, plan: UidPlan = SINGLE_UIDS) -> None:
        """Take the first block; all servers of a host share the folder of locks.

        Raises:
            SandboxUnavailableError: Every block is taken.
        """
        self._base = base
        self._plan = plan
        self._blocks: list[UidBlock] = []
        self._free: deque[int] = deque()
        self._grow()

    @property
    def first(self) -> int:
        """The lowest uid of the first block."""
        return self._blocks[0].first

    def take(self) -> int:
        """Return the uid that has been free for longest.

        Raises:
            SandboxUnavailableError: All are in use, and no block is left.
        """
        if not self._free:
            try:
                self._grow()
            except SandboxUnavailableError as error:
                alive = len(self._blocks) * self._plan.sessions
                raise SandboxUnavailableError(f"{alive} sandboxes are alive; close some: {error}") from None
        return self._free.popleft()

    def release(self, uid: int) -> None:
        """Make a uid available again; its processes must be dead."""
        # At the end of the queue, so that a uid rests as long as possible before another session has it.
        self._free.append(uid)

    def close(self) -> None:
        """Release the blocks."""
        for block in self._blocks:
            os.close(block.lock)
        self._blocks.clear()

    def _grow(self) -> None:
        plan = self._plan
        block = UidBlock.take(self._base, plan)
        self._blocks.append(block)
        self._free.extend(range(block.first, block.first + plan.per_block, plan.ids))
