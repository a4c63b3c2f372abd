"""Reads what an agent writes: numbers of records, amounts, days, codes; in every unambiguous form."""

import re
import unicodedata
from collections.abc import Iterable
from datetime import date
from decimal import Decimal, InvalidOperation

from ors_server import ToolError

MAX_CHARACTERS = 200
"""Of any one argument."""
_AMOUNT = re.compile(r"\d{1,7}(?:\.\d{1,6})?")
_DAY = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})")


def plain(text: str) -> str:
    """Return a text in small letters, with single spaces; compatible characters are one character.

    Raises:
        ToolError: If it is too long.
    """
    if len(text) > MAX_CHARACTERS:
        raise ToolError(f"An argument has {len(text):,} characters; at most {MAX_CHARACTERS} are allowed.")
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def key_of(number: str) -> str:
    """Return what identifies a record: letters and digits, without case, spaces and signs between them."""
    return "".join(letter for letter in plain(number) if letter.isalnum())


def read_amount(amount: str | float) -> int:
    """Read an amount of money, such as 12.5, "12.50" or "$12.50", and return cents.

    Raises:
        ToolError: If it is not a positive amount of whole cents.
    """
    text = plain(str(amount)).removeprefix("$").strip()
    try:
        cents = Decimal(text) * 100 if _AMOUNT.fullmatch(text) else Decimal(-1)
    except InvalidOperation:  # digits of other scripts
        cents = Decimal(-1)
    if cents <= 0 or cents != cents.to_integral_value():
        raise ToolError(
            f"The amount must be positive, in dollars and whole cents, such as 12.50, got {text!a}."
        )
    return int(cents)


def read_day(text: str) -> date:
    """Read a day such as 2031-05-09.

    Raises:
        ToolError: If it is not one.
    """
    match = _DAY.fullmatch(plain(text))
    try:
        return date(*map(int, match.groups())) if match else date.fromisoformat("")
    except ValueError:
        raise ToolError(f"The date must be a day such as 2031-05-09, got {text[:40]!a}.") from None


def read_code(text: str, codes: Iterable[str], what: str) -> str:
    """Return the code that a text names, in any case, with spaces or hyphens for underscores.

    Raises:
        ToolError: If it names none.
    """
    wanted = plain(text).replace("-", "_").replace(" ", "_")
    listed = list(codes)
    if wanted not in listed:
        raise ToolError(f"The {what} must be one of {', '.join(listed)}, got {text[:40]!a}.")
    return wanted


def read_address_part(text: str, what: str) -> str:
    """Return a part of an address with single spaces.

    Raises:
        ToolError: If it is empty or too long.
    """
    part = " ".join(text.split()).strip(" ,.")
    if not plain(part):
        raise ToolError(f"The {what} is empty.")
    return part


def dollars(cents: int) -> str:
    """Return an amount as people write it."""
    return f"{cents // 100}.{cents % 100:02d}"
