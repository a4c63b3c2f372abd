"""Content that only some callers can show: audio, and whole resources.

The Open Reward Standard knows text and images. A richer piece travels as a text block that any caller can
show, with the richer form under the key `RICH_KEY` of its `detail`; a door that can carry the richer form
shows that instead of the text.
"""

from ors_server.wire import JSONObject, TextBlock

RICH_KEY = "org.openrewardstandard/content"
"""Key of a text block's `detail` that holds the richer form, an MCP content object."""


def audio_block(data: str, mime_type: str, text: str = "[audio]") -> TextBlock:
    """Make a block that is heard where that is possible and read elsewhere.

    Args:
        data: The sound in base64.
        text: What is read where sound cannot be played; a transcript is best.
    """
    return TextBlock(text=text, detail={RICH_KEY: {"type": "audio", "data": data, "mimeType": mime_type}})


def resource_block(
    uri: str, mime_type: str, *, text: str | None = None, data: str | None = None
) -> TextBlock:
    """Make a block that embeds a whole resource, such as a file.

    Args:
        data: The content in base64, if it is not text.

    Raises:
        ValueError: If not exactly one of `text` and `data` is given.
    """
    if (text is None) == (data is None):
        msg = "a resource has text or data, one of them"
        raise ValueError(msg)
    body: JSONObject = {"text": text} if text is not None else {"blob": data}
    shown = text if text is not None else f"[{mime_type}: {uri}]"
    detail: JSONObject = {
        RICH_KEY: {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, **body}}
    }
    return TextBlock(text=shown, detail=detail)
