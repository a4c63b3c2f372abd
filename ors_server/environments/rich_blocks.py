"""Audio and resources in text blocks, since the Open Reward Standard has only text and images.

The block's text is for every caller; its `detail` has the richer form under `RICH_KEY`, which a door that
supports it sends instead.
"""

from ors_server.model.wire import JSONObject, TextBlock

RICH_KEY = "org.openrewardstandard/content"
"""Key of a text block's `detail` that holds the richer form, an MCP content object."""


def audio_block(data: str, mime_type: str, text: str = "[audio]") -> TextBlock:
    """Make a block of audio.

    Args:
        data: In base64.
        text: For callers that cannot play it; a transcript is best.
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
        raise ValueError("a resource has text or data, one of them")
    body: JSONObject = {"text": text} if text is not None else {"blob": data}
    shown = text if text is not None else f"[{mime_type}: {uri}]"
    detail: JSONObject = {
        RICH_KEY: {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, **body}}
    }
    return TextBlock(text=shown, detail=detail)
