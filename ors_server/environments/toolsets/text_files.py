"""A file's text with its encoding and line ends, so that an edit keeps them. Pure."""

import codecs
import re
from dataclasses import dataclass

from ors_server.environments.tool import ToolError

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""Byte order marks, the longer ones before those that they begin with (Unicode 15, section 23.8)."""
_CONTROLS = "".join(map(chr, [*range(9), 0x0B, *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x7F]))
_MAX_CONTROLS = {"utf-8": 0.3, "latin-1": 0.05}
"""Part of a text's characters that may be control characters before it counts as binary, by its encoding."""
_IMAGES = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
)


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file's content, decoded."""

    text: str
    """Without a byte order mark, with its own line ends."""
    encoding: str = "utf-8"
    mark: bytes = b""
    """The byte order mark, if there is one."""

    @classmethod
    def read(cls, content: bytes) -> "TextFile | None":
        """Decode a file's content, without a mark as UTF-8 or else Latin-1; `None` for a binary file."""
        for mark, encoding in _MARKS:
            if content.startswith(mark):
                text = _decode(content[len(mark) :], encoding)
                return None if text is None else cls(text, encoding, mark)
        # Any bytes are latin-1, so the share of control characters decides whether they are text.
        for encoding in ("utf-8", "latin-1"):
            text = _decode(content, encoding)
            if text is not None:
                controls = sum(map(text.count, _CONTROLS))
                is_binary = "\0" in text or controls > _MAX_CONTROLS[encoding] * len(text)
                return None if is_binary else cls(text, encoding)
        return None

    @classmethod
    def read_editable(cls, name: str, content: bytes) -> "TextFile":
        """Decode a file's content; raises `ToolError` for a binary file."""
        file = cls.read(content)
        if file is None:
            raise ToolError(f"{name} is a binary file and cannot be edited here")
        return file

    def with_text(self, name: str, text: str) -> bytes:
        """Return the content of the file with another text; `ToolError` if its encoding lacks a character."""
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            wrong = error.object[error.start : error.end]
            raise ToolError(f"{name} is encoded as {self.encoding}, which has no {wrong!r}") from None

    @property
    def mixes_line_ends(self) -> bool:
        """Whether some lines end with a carriage return and a line feed, and others do not."""
        return not self.uses_crlf and "\r\n" in self.text

    @property
    def uses_crlf(self) -> bool:
        """Whether every line ends with a carriage return and a line feed."""
        return "\n" in self.text and self.text.count("\n") == self.text.count("\r\n")

    def adapt(self, text: str) -> str:
        """Return a text with the line ends that the file uses."""
        return text.replace("\r\n", "\n").replace("\n", "\r\n") if self.uses_crlf else text

    @property
    def lines(self) -> list[str]:
        """The lines without their ends; a last line feed begins no line."""
        parts = self.text.split("\n")
        if parts[-1] == "":
            parts.pop()
        return [part.removesuffix("\r") for part in parts] if self.uses_crlf else parts

    @property
    def line_count(self) -> int:
        """How many lines there are."""
        return self.text.count("\n") + self.lacks_newline

    @property
    def lacks_newline(self) -> bool:
        """Whether the last line has no line feed."""
        return bool(self.text) and not self.text.endswith("\n")


def image_type(content: bytes) -> str | None:
    """Return the MIME type of a PNG, JPEG, GIF or WebP image by its first bytes; `None` for others."""
    return next((mime_type for magic, mime_type in _IMAGES if magic.match(content)), None)


def _decode(content: bytes, encoding: str) -> str | None:
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        return None
    # Only what can be written back unchanged.
    return text if text.encode(encoding) == content else None
