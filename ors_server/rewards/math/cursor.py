"""A position in a list of tokens."""

from typing import Final

from ors_server.rewards.math.limits import DEPTH, LimitError, SyntaxUnknownError
from ors_server.rewards.math.scanner import Token

_END: Final[Token] = ("end", "", False)


class Cursor:
    """Reads tokens one by one and counts the nesting depth; `position` is the index of the next token."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self.position: int = 0
        self._depth = 0

    def peek(self, ahead: int = 0) -> Token:
        """Return the token that is `ahead` of the next one, without taking it."""
        try:
            return self._tokens[self.position + ahead]
        except IndexError:
            return _END

    def is_next(self, *values: str) -> bool:
        """Return whether the next token is one of some operators."""
        try:
            kind, value, _ = self._tokens[self.position]
        except IndexError:
            return False
        return kind == "operator" and value in values

    def skip(self, *values: str) -> bool:
        """Take the next token if it is one of some operators; return whether it was."""
        try:
            kind, value, _ = self._tokens[self.position]
        except IndexError:
            return False
        if kind != "operator" or value not in values:
            return False
        self.position += 1
        return True

    def take(self) -> str:
        """Take the next token and return its value."""
        value = self.peek()[1]
        self.position += 1
        return value

    def expect(self, *values: str) -> str:
        """Take one of some operators; raises `SyntaxUnknownError` if something else is next."""
        if not self.is_next(*values):
            raise SyntaxUnknownError(f"expected {' or '.join(values)}, found {self.peek()[1]!r}")
        return self.take()

    def enter(self) -> None:
        """Go one level deeper; raises `LimitError` if that is too deep."""
        self._depth += 1
        if self._depth > DEPTH:
            raise LimitError(f"nested deeper than {DEPTH}")

    def leave(self) -> None:
        """Go back one level."""
        self._depth -= 1
