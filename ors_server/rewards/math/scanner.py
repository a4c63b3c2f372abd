"""A position in the text of an answer, and the tokens so far."""

from ors_server.rewards.math.braces import find_closing
from ors_server.rewards.math.limits import SyntaxUnknownError

Token = tuple[str, str, bool]


class Scanner:
    """Reads the text of an answer.

    Attributes:
        position: Index of the next character.
        is_spaced: Whether white space was just read.
        is_spaced_before: Whether white space precedes the token that is being read.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.is_spaced = False
        self.is_spaced_before = False
        self.tokens: list[Token] = []

    def add(self, kind: str, value: str) -> None:
        """Add a token."""
        self.tokens.append((kind, value, self.is_spaced_before))
        self.is_spaced_before = False

    def lay_out(self, name: str) -> None:
        """Read a command that is only layout."""
        self.is_spaced = True
        if name in ("left", "right") and self.position < len(self.text):
            following = self.text[self.position]
            if following == "|":
                self.add("operator", "lbar" if name == "left" else "rbar")
                self.position += 1
            elif following == ".":
                self.position += 1
        elif name in ("hspace", "vspace", "phantom", "label", "tag", "color", "textcolor"):
            self.argument()

    def argument(self) -> str:
        """Read the argument of a command: a group in braces, or one character."""
        rest = self.text[self.position :].lstrip(" *")
        start = len(self.text) - len(rest)
        if not rest.startswith("{"):
            self.position = start + 1
            return rest[:1]
        end = find_closing(self.text, start)
        if end < 0:
            raise SyntaxUnknownError("{")
        self.position = end + 1
        return self.text[start + 1 : end]
