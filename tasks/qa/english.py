"""Writes dates, numbers and lists as the articles do, and in the other forms in which people write them."""


def words(text: str) -> tuple[str, ...]:
    """The words of a text."""
    return tuple(text.split())


MONTHS = words("January February March April May June July August September October November December")
_SMALL = words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
_TENS = words("twenty thirty forty fifty sixty seventy eighty ninety")
_SPELLED_BELOW = 100


def date(day: int, month: int, year: int) -> str:
    """A date as articles write it: 4 March 1823."""
    return f"{day} {MONTHS[month - 1]} {year}"


def date_forms(day: int, month: int, year: int) -> tuple[str, ...]:
    """The forms of a date that are gold; the first is the articles'."""
    name, ordinal = MONTHS[month - 1], f"{day}{_ending(day)}"
    return (
        date(day, month, year),
        f"{name} {ordinal}, {year}",
        f"{ordinal} of {name} {year}",
        f"{year}-{month:02}-{day:02}",
    )


def number_forms(number: int) -> tuple[str, ...]:
    """The forms of a whole number that are gold; none has a unit."""
    forms = [f"{number:,}"]
    if number < _SPELLED_BELOW:
        forms.append(in_words(number))
    return tuple(forms)


def in_words(number: int) -> str:
    """A number in [0, 100) in words: forty-two."""
    if number < len(_SMALL):
        return _SMALL[number]
    tens, ones = divmod(number, 10)
    return _TENS[tens - 2] + (f"-{_SMALL[ones]}" if ones else "")


def listing(names: list[str]) -> str:
    """Names in a row: a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def article_for(word: str) -> str:
    """The indefinite article of a word that is spelled as it sounds."""
    return "an" if word[0] in "aeiou" else "a"


def _ending(day: int) -> str:
    if day in {11, 12, 13}:
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
