"""Writes numbers, money, times and counted things in correct English.

It knows grammar and notation; the words themselves are in `vocabulary`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

CENTS_PER_DOLLAR = 100
MINUTES_PER_HOUR = 60
HOURS_TO_NOON = 12
TIMES = {2: "twice", 3: "three times", 4: "four times", 5: "five times", 6: "six times", 7: "seven times"}
ORDINALS = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", 6: "sixth", 7: "seventh"}


@dataclass(frozen=True, slots=True)
class Noun:
    """A countable thing."""

    singular: str
    plural: str

    @property
    def one(self) -> str:
        """The singular with its indefinite article: "an apple"."""
        return with_article(self.singular)

    def count(self, number: int) -> str:
        """The number and the noun in agreement: "1 apple", "1,250 apples"."""
        return f"{number:,} {self.singular if number == 1 else self.plural}"


@dataclass(frozen=True, slots=True)
class Person:
    """A person in a story, with the pronouns that refer to them."""

    name: str
    he: str
    him: str
    his: str


def noun(singular: str, plural: str = "") -> Noun:
    """Makes a noun; the plural is the singular with an s unless given."""
    return Noun(singular, plural or f"{singular}s")


def with_article(text: str) -> str:
    """The text after its indefinite article: "a zoo", "an aquarium"."""
    return f"{'an' if text[0] in 'aeiou' else 'a'} {text}"


def cap(text: str) -> str:
    """The text with its first letter in upper case and the rest as it is."""
    return text[:1].upper() + text[1:]


def listing(parts: Sequence[str]) -> str:
    """Joins two or more parts: "a and b", "a, b, and c"."""
    if len(parts) <= len(("a", "b")):
        return " and ".join(parts)
    return f"{', '.join(parts[:-1])}, and {parts[-1]}"


def money(cents: int) -> str:
    """An amount of dollars: "$12" when there are no cents, else "$1,012.50"."""
    dollars, rest = divmod(cents, CENTS_PER_DOLLAR)
    return f"${dollars:,}.{rest:02}" if rest else f"${dollars:,}"


def dollars(cents: int | Fraction) -> Fraction:
    """An amount in cents as the exact number of dollars."""
    return Fraction(cents) / CENTS_PER_DOLLAR


def clock(minute_of_day: int) -> str:
    """A time of day on the twelve-hour clock, such as "2:05 PM"; counts on past midnight."""
    hour, minute = divmod(minute_of_day, MINUTES_PER_HOUR)
    half = "AM" if hour % (2 * HOURS_TO_NOON) < HOURS_TO_NOON else "PM"
    return f"{(hour - 1) % HOURS_TO_NOON + 1}:{minute:02} {half}"


def mixed(value: Fraction) -> str:
    """A positive fraction as "5", "3/4" or "2 1/2"."""
    whole, rest = divmod(value, 1)
    if not rest:
        return str(whole)
    return f"{whole} {rest}" if whole else str(rest)


def decimal(value: Fraction) -> str:
    """A positive fraction that terminates within three decimal places, such as "2.75" or "1,250".

    Raises:
        ValueError: The fraction does not terminate within three decimal places.
    """
    thousandths = value * 1000
    if thousandths.denominator != 1:
        message = f"expected a number with at most three decimal places, got {value}"
        raise ValueError(message)
    whole, rest = divmod(thousandths.numerator, 1000)
    return f"{whole:,}.{rest:03}".rstrip("0") if rest else f"{whole:,}"
