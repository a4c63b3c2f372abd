"""Multiple-choice answers: which letter an answer picks.

The letter counts, and the value behind it only if both sides have one (`(D) 12` is `D` and is not `(D) 13`);
this holds only where the gold is a letter (or the task lists its
choices). A list of letters picks none. A letter inside a sentence counts behind "the answer is" and the
like, so that the article "A" never does.
"""

import re
from collections.abc import Sequence
from typing import Final

from ors_server.rewards.math.normalise import unfence
from ors_server.rewards.math.streams import stream

_DRESS: Final = re.compile(
    r"\\(?:text(?:bf|it|rm)?|mathrm|mathbf|mbox|boxed|operatorname)\s*|[{}$*]|\\[ ,;:!]|~|"
    r"\\(?:quad|left|right)"
)
_ALONE: Final = re.compile(r"\(?([A-Za-z])\)?[.):]?")
_LED: Final = re.compile(r"\(([A-J])\)|([A-J])(?:[.):]|\s+(?=[A-Z][a-z]))")
_LIST: Final = re.compile(r"\s*(?:,|;|and\b|or\b|&|/)?\s*\(?[A-J]\)?(?![A-Za-z])")
_OPENING: Final = re.compile(r"\s*\(?([A-J])\)?(?![A-Za-z0-9'+*=^_,])")
_CUES: Final = re.compile(
    r"(?:answer|option|choice|choose|pick|it'?s|it is|réponse|respuesta|resposta|risposta|antwort|ответ|"
    r"答案|选|選)"
    r"(?:\s*(?:is|are|est|es|é|ist|would be|must be|should be|:|for sure|definitely|是|为|為|：|\(|\*))*\s*",
    re.IGNORECASE,
)
_TAIL_CHARS: Final = 8_000
_MOST_CUES: Final = 20
_CUED: Final = re.compile(
    r"[\s({$*\\]{0,9}(?:text(?:bf)?\{|mathrm\{|boxed\{){0,3}[({]{0,3}([A-J])(?![A-Za-z0-9'+*=^_])"
)


def undress(text: str) -> str:
    """Take away the commands that only set a letter in another type.

    Args:
        text: One answer.
    """
    return " ".join(_DRESS.sub(" ", text).split())


def label_of(text: str) -> str | None:
    r"""Give the letter that an answer is or begins with, or none.

    Args:
        text: One answer, such as `(B)`, `B`, `B. 42`, `\text{(B)}\ 42`, `B Paris`.
    """
    bare = undress(text)
    if (alone := _ALONE.fullmatch(bare.rstrip(". "))) is not None:
        return alone[1].upper() if alone[1].upper() <= "J" else None
    led = _LED.match(bare)
    if led is None or _LIST.match(bare, led.end()):
        return None
    return led[1] or led[2]


def text_behind(text: str) -> str:
    """Give what stands behind an answer's letter: `42` of `(B) 42`.

    Args:
        text: One answer.
    """
    bare = undress(text)
    led = _LED.match(bare)
    return "" if led is None else bare[led.end() :].strip(" .)")


def label_in(response: str) -> str | None:
    """Give the letter that a text picks, or none.

    Args:
        response: A text without a box.
    """
    for cue in reversed(list(_CUES.finditer(response[-_TAIL_CHARS:]))[-_MOST_CUES:]):
        cued = _CUED.match(cue.string, cue.end())
        if cued is not None:
            return None if _LIST.match(cue.string, cued.end(1)) else cued[1]
    opening = _OPENING.match(response)
    return opening[1] if opening is not None and not _LIST.match(response, opening.end(1)) else None


def choice_of(text: str, choices: Sequence[str]) -> str | None:
    """Give the letter of the choice whose text an answer repeats, or none.

    Args:
        text: One answer.
        choices: The choices' texts, in order.
    """
    wanted = stream(unfence(text))
    found = [index for index, choice in enumerate(choices) if stream(unfence(choice)) == wanted]
    return chr(ord("A") + found[0]) if len(found) == 1 else None
