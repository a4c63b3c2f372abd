"""Texts of two plays brought into one form, so that what may differ does not."""

import re
from collections.abc import Sequence
from typing import Any

from ors_server.sandboxes.server_state import FOLDER_PREFIX
from ors_server.wire import ImageBlock, JSONObject, TextBlock

VOLATILE = "<volatile>"
"""Stands where something was that the environment declares volatile."""
SESSION = "<session>"
"""Stands where a session's id was."""
FOLDER = "<sandbox>"
"""Stands where the path of a session's folder on the host was."""
LEAST_ID = 8
"""Characters of a session id that is looked for in texts; a shorter one may be a word of the text's own."""

_FOLDER = re.compile(r"(?:/[\w.+-]+)*/" + re.escape(FOLDER_PREFIX) + r"[0-9a-f]{12}/s[0-9]+/files\b")
"""As `ors_server.sandboxes.server_state` names the folders of servers and sessions."""


class Normaliser:
    """Takes out of texts what two plays of the same calls need not agree on.

    Nothing is taken out that nobody declared, but names that the server itself gives: the ids of the two
    sessions, and the folder of a session's sandbox where its isolation shows the agent paths of the host. A
    pattern that guessed at times or addresses would hide differences which an author does not know of.
    """

    def __init__(self, patterns: Sequence[str] = (), session_ids: Sequence[str] = ()) -> None:
        """Keep what is taken out.

        Args:
            patterns: Regular expressions of what the environment declares volatile.
            session_ids: Of both plays, in any order.
        """
        self._patterns = tuple(map(re.compile, patterns))
        self._ids = tuple(
            sorted({name for name in session_ids if len(name) >= LEAST_ID}, key=len, reverse=True)
        )

    def text(self, text: str) -> str:
        """Return a text without what may differ.

        Args:
            text: What an agent was shown.
        """
        for name in self._ids:
            text = text.replace(name, SESSION)
        text = _FOLDER.sub(FOLDER, text)
        for pattern in self._patterns:
            text = pattern.sub(VOLATILE, text)
        return text

    def value(self, value: Any) -> Any:
        """Return a JSON value with every text in it brought into form; keys stay.

        Args:
            value: The value.
        """
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]  # pyright: ignore[reportUnknownVariableType]  # JSON
        if isinstance(value, dict):
            return {key: self.value(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]  # JSON
        return value

    def blocks(self, blocks: Sequence[TextBlock | ImageBlock]) -> list[JSONObject]:
        """Return blocks as JSON, their texts and details brought into form; pictures stay as they are.

        Args:
            blocks: What an agent was shown, in order.
        """
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
