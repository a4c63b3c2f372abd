"""Removes from the texts of a record and its replay what may differ."""

import re
from collections.abc import Sequence
from typing import Any

from ors_server.model.wire import ImageBlock, JSONObject, TextBlock
from ors_server.sandboxes.cells.server_state import FOLDER_PREFIX

VOLATILE = "<volatile>"
"""Replaces what the environment declares volatile."""
SESSION = "<session>"
"""Replaces a session's id."""
FOLDER = "<sandbox>"
"""Replaces the path of a session's folder on the host."""
MIN_ID = 8
"""Minimum number of characters of a session id that is replaced; a shorter one may be a word of the text."""

_FOLDER = re.compile(r"(?:/[\w.+-]+)*/" + re.escape(FOLDER_PREFIX) + r"[0-9a-f]{12}/s[0-9]+/files\b")
"""As in `ors_server.sandboxes.cells.server_state`."""


class Normaliser:
    """Replaces what two plays of the same calls need not have in common.

    That is what an author declared, the ids of the two sessions, and the folder of a sandbox on the host.
    Times and addresses are not guessed: that would hide differences that the author does not know of.
    """

    def __init__(self, patterns: Sequence[str] = (), session_ids: Sequence[str] = ()) -> None:
        """Compile the patterns that the environment declares volatile; `session_ids` are of both sessions."""
        self._patterns = tuple(map(re.compile, patterns))
        self._ids = tuple(
            sorted({name for name in session_ids if len(name) >= MIN_ID}, key=len, reverse=True)
        )

    def text(self, text: str) -> str:
        """Replace what may differ in a text."""
        for name in self._ids:
            text = text.replace(name, SESSION)
        text = _FOLDER.sub(FOLDER, text)
        for pattern in self._patterns:
            text = pattern.sub(VOLATILE, text)
        return text

    def value(self, value: Any) -> Any:
        """Replace what may differ in every text of a JSON value, except keys."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]  # pyright: ignore[reportUnknownVariableType]  # JSON
        if isinstance(value, dict):
            return {key: self.value(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]  # JSON
        return value

    def blocks(self, blocks: Sequence[TextBlock | ImageBlock]) -> list[JSONObject]:
        """Return blocks as JSON, with replaced texts and details; images stay as they are."""
        return [self._block(block) for block in blocks]

    def _block(self, block: TextBlock | ImageBlock) -> JSONObject:
        shown: JSONObject = {"type": block.type}
        if isinstance(block, TextBlock):
            shown["text"] = self.text(block.text)
        else:
            shown |= {"mimeType": block.mimeType, "data": block.data}
        if block.detail is not None:
            shown["detail"] = self.value(block.detail)
        return shown
