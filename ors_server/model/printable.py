"""Makes any text safe to print: the border between texts of others and a terminal.

A terminal executes escape sequences, and a text may change the direction of the text around it. `say`,
`complain`, the consoles of `ors_server.cli.terminal` and the log escape such characters, so that no command
has to. JSON stays the same JSON: `json.dumps` has escaped the characters below U+0020 by then, and the
escapes of all others are those of JSON.
"""

import re

_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but tab and line feed, the second set included
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # what turns the direction of text
    r"\u2028\u2029\ud800-\udfff]"  # other ends of lines; halves of characters, which no terminal is sent
)


def clean(text: str) -> str:
    """Escape every character that controls a terminal, but tabs and line feeds; JSON stays the same JSON."""
    return _CONTROL.sub(_escape, text.replace("\r\n", "\n"))


def clean_line(text: str) -> str:
    """Escape a text that has to stay on one line."""
    return clean(text).replace("\n", "\\n").replace("\t", " ")


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < ord(" ") else f"\\u{code:04x}"
