"""Texts as whole words and numbers of another text. Pure."""

import re
from collections.abc import Iterable
from typing import Final

from ors_server.rewards.text.texts import UnparsedAnswerError

MAX_SEARCH: Final = 100_000_000
"""Characters of a response times the number of texts to look for in it."""
MAX_OCCURRENCES: Final = 200_000
"""Places of a response at which one of the texts may be."""
_LETTER: Final = r"[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
"""A letter or digit of a script with spaces between words."""
_BEFORE: Final = re.compile(rf"(?<!{_LETTER})(?<![+#^&@.-])(?<!\d[,:])(?<!{_LETTER}[/*'])")
_AFTER: Final = re.compile(rf"(?!{_LETTER}|[+#^&@%-]|[.'/*]{_LETTER}|[,:]\d|\s?%|\s?/\s?\d|\s\d{{1,400}}/\d)")
"""Where words and numbers end: 4 is not in 14, 4.0, 4,000, 4:30, -4, 4/5, 4%, and C is not in C++."""
_INSIDE: Final = re.compile(r"(?<!\w)")
_BEHIND: Final = re.compile(r"(?!\w)")


def word_places(text: str, sought: Iterable[str]) -> list[tuple[int, str]]:
    """Return where each text is, as a whole word or words.

    Raises:
        UnparsedAnswerError: The text is too long to search, or repeats the texts too often.
    """
    sought = list(sought)
    if len(text) * len(sought) > MAX_SEARCH:
        raise UnparsedAnswerError(
            f"the answer is too long to search for {len(sought)} texts: {len(text)} characters"
        )
    places: list[tuple[int, str]] = []
    looked = 0
    for phrase in sought:
        start = text.find(phrase)
        while start >= 0:
            looked += 1
            if looked > MAX_OCCURRENCES:
                raise UnparsedAnswerError("the answer repeats the golds or choices too often")
            end = start + len(phrase)
            if _BEFORE.match(text, start) and _AFTER.match(text, end):
                # In a script without spaces, or with a sign at an end, no letter may be next to the text.
                has_spaces = re.match(_LETTER, text[start]) and re.match(_LETTER, text[end - 1])
                if has_spaces or (_INSIDE.match(text, start) and _BEHIND.match(text, end)):
                    places.append((start, phrase))
            start = text.find(phrase, start + 1)
    return places
