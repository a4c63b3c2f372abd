"""Earlier contents of edited files, so that an edit can be undone. Bounded, and in memory only."""

from collections import deque
from dataclasses import dataclass

from ors_server.authoring.tool import ToolError

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
        gone = [other for place, other in enumerate(self._edits) if place >= at and other.key == edit.key]
        self._edits = deque(other for other in self._edits if other not in gone)
        self._bytes -= sum(len(other.before or b"") for other in gone)


def _fingerprint(content: bytes) -> tuple[int, int]:
    return len(content), hash(content)
