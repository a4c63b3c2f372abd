"""Multiple-choice answers: the letter that an answer picks.

The letter counts, and the value after it only if both sides have one (`(D) 12` is `D` and is not `(D) 13`);
this holds only if the gold answer is a letter (or the task lists its choices). A list of letters picks none.
A letter inside a sentence counts after "the answer is" and the like, or at its beginning if the sentence goes
on about the choice ("B is correct"); the article "A" never does ("A rectangle"), nor does a letter that is
ruled out ("C is not correct").
"""

import re
from collections.abc import Sequence
from typing import Final

from ors_server.rewards.math.normalise import unfence
from ors_server.rewards.math.streams import stream
from ors_server.rewards.reading.mentions import Mention, Reading, read_mentions
from ors_server.rewards.reading.polarity import Polarity

_DRESS: Final = re.compile(
    r"\\(?:text(?:bf|it|rm)?|mathrm|mathbf|mbox|boxed|operatorname)\s*|[{}$*]|\\[ ,;:!]|~|"
    r"\\(?:quad|left|right)"
)
_ALONE: Final = re.compile(r"\(?([A-Za-z])\)?[.):]?")
_LED: Final = re.compile(r"\(([A-J])\)|([A-J])[.):]|([A-J])\s+(?=[A-Z][a-z])")
_TRAILED: Final = re.compile(r"\\(?:text(?:bf|it|rm)?|mathrm|mathbf)\s*\{\s*\(?([A-J])\)?\s*\}[\s.$]*\Z")
r"""A letter set in type after a value: `12 \\text{ C}`."""
_LIST: Final = re.compile(r"\s*(?:,|;|and\b|or\b|&|/)?\s*\(?[A-J]\)?(?![A-Za-z])")
_OPENING: Final = re.compile(
    r"\s*(?:\(([A-J])\)(?![A-Za-z0-9'+*=^_])|"
    r"([A-J])(?=[ \t]*(?:[.):;!\n]|\Z|[-–—]\s|(?!不对|不正确|错)[^\x00-\x7f])|"
    r",?\s+(?:because|since|as|for)\b|"
    r"\s+(?:is|was|must be|would be)\s+(?:the\s+|clearly\s+|definitely\s+){0,2}"
    r"(?:correct|right|best|true|answer|choice|option)))"
)
_ARTICLE: Final = re.compile(
    r"\s+(?!is\b|was\b|because\b|since\b|as\b|for\b|with\b|and\b|by\b|which\b|where\b)[a-zA-Z]"
)
"""What follows an "A" that is not a choice."""
_CUES: Final = re.compile(
    r"(?:answer|option|choice|choose|pick|it'?s|it is|réponse|respuesta|resposta|risposta|antwort|ответ|"
    r"答案|选|選)"
    r"(?:\s*(?:is|are|est|es|é|ist|would be|must be|should be|:|for sure|definitely|是|为|為|：|\(|\*))*\s*",
    re.IGNORECASE,
)
_LETTER: Final = re.compile(r"(?<![A-Za-z0-9'\\])[A-J](?![A-Za-z0-9'+*=^_])")
_DENIED: Final = frozenset({Polarity.DENIED, Polarity.RETRACTED})
_TAIL_CHARS: Final = 8_000
_MAX_CUES: Final = 20
_MAX_LETTERS: Final = 400
"""Letters of a text that are read, from its end."""
_CUED: Final = re.compile(
    r"[\s({$*\\]{0,9}(?:text(?:bf)?\{|mathrm\{|boxed\{){0,3}[({]{0,3}([A-J])(?![A-Za-z0-9'+*=^_])"
)


def undress(text: str) -> str:
    """Remove the commands that only change the type of letters."""
    return " ".join(_DRESS.sub(" ", text).split())


def label_of(text: str) -> str | None:
    r"""Return the letter that an answer is or begins with: `(B)`, `B. 42`, `\text{(B)}\ 42`, `B Paris`."""
    bare = undress(text)
    if (alone := _ALONE.fullmatch(bare.rstrip(". "))) is not None:
        return alone[1].upper() if alone[1].upper() <= "J" else None
    led = _LED.match(bare)
    if led is None:
        trailed = _TRAILED.search(text)
        return None if trailed is None else trailed[1]
    letter = led[1] or led[2] or led[3]
    is_list = _LIST.match(bare, led.end()) is not None
    return letter if not is_list and _asserts(bare, led.start(led.lastindex or 0)) else None


def text_behind(text: str) -> str:
    """Return the text after an answer's letter: `42` of `(B) 42`."""
    bare = undress(text)
    led = _LED.match(bare)
    return "" if led is None else bare[led.end() :].strip(" .)")


def label_in(response: str) -> str | None:
    """Return the letter that a text without a box picks, or `None`."""
    tail = response[-_TAIL_CHARS:]
    readings = _read(tail)
    denied = {reading.mention.name for reading in readings if reading.statement.polarity in _DENIED}
    asserted_at = {reading.mention.start for reading in readings if reading.is_asserted}
    for cue in reversed(list(_CUES.finditer(tail))[-_MAX_CUES:]):
        cued = _CUED.match(tail, cue.end())
        if cued is None or (cued[1] == "A" and _ARTICLE.match(tail, cued.end(1))):
            continue
        if cued.start(1) in asserted_at and cued[1] not in denied:
            return None if _LIST.match(tail, cued.end(1)) else cued[1]
    opening = _OPENING.match(response)
    if opening is None or _LIST.match(response, opening.end()):
        return None
    at = opening.start(opening.lastindex or 0)
    letter = response[at]
    return letter if letter not in denied and _asserts(response[:_TAIL_CHARS], at) else None


def _asserts(text: str, position: int) -> bool:
    """Return whether a text asserts the letter at a place: not "C is wrong"."""
    return any(
        item.mention.start == position
        and item.statement.polarity in (Polarity.ASSERTED, Polarity.INTERMEDIATE)
        for item in _read(text)
    )


def _read(text: str) -> list[Reading]:
    """Read what a text says of the letters of choices in it."""
    letters = [
        letter
        for letter in _LETTER.finditer(text)
        if letter[0] != "A" or not _ARTICLE.match(text, letter.end()) or text.startswith(" is", letter.end())
    ]
    mentions = [Mention(letter.start(), letter.end(), letter[0]) for letter in letters[-_MAX_LETTERS:]]
    return read_mentions(text, mentions, are_labels=True)


def choice_of(text: str, choices: Sequence[str]) -> str | None:
    """Return the letter of the choice whose text an answer repeats, or `None`."""
    expected = stream(unfence(text))
    indices = [index for index, choice in enumerate(choices) if stream(unfence(choice)) == expected]
    return chr(ord("A") + indices[0]) if len(indices) == 1 else None
