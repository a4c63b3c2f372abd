"""A place in the text of an answer, and the tokens that were cut from it so far."""

from ors_server.rewards.math.braces import find_closing
from ors_server.rewards.math.limits import SyntaxUnknownError

Token = tuple[str, str, bool]


class Scanner:
    """Knows where it is, what it has found, and whether white space stood before.

    Attributes:
        text: The text.
        position: Index of the next character.
        is_spaced: Whether white space was just read.
        is_spaced_before: Whether white space stands before the token that is being read.
        tokens: What was found.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.is_spaced = False
        self.is_spaced_before = False
        self.tokens: list[Token] = []

    def add(self, kind: str, value: str) -> None:
        """Add a token.

        Args:
            kind: Its kind.
            value: Its value.
        """
        self.tokens.append((kind, value, self.is_spaced_before))
        self.is_spaced_before = False

    def lay_out(self, name: str) -> None:
        """Take in a command that only lays out.

        Args:
            name: The command.
        """
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
        """Take the argument of a command as it is written: a group in braces, or one character."""
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
