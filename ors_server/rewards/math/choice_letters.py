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
_DENIED: Final = re.compile(
    r"[)}\]$*.: ]{0,6}(?:(?:is|was|are|would be|seems?|looks?)\s+(?:\w+ly\s+|also\s+)?"
    r"(?:not\b|wrong|incorrect|false|impossible|never|ruled|eliminated|out\b|invalid)|"
    r"(?:is|was|does|could|would)n['’]?t\b|can(?:['’]?t|not| not)\b|(?:does|could|would|must) not\b|"
    r"fails?\b|wrong\b|incorrect\b)",
    re.IGNORECASE,
)
_DENYING: Final = re.compile(
    r"(?:\b(?:not|never|neither|nor|than|eliminat\w*|exclud\w*|rul(?:es?|ed|ing) out|against)|n['’]t)"
    r"\s+(?:(?:the|an?|correct|right|final|be|have|been)\s+){0,3}\Z",
    re.IGNORECASE,
)
_DENYING_CHARS: Final = 60
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
    is_none = _LIST.match(bare, led.end()) or _DENIED.match(bare, led.end())
    return None if is_none else led[1] or led[2] or led[3]


def text_behind(text: str) -> str:
    """Return the text after an answer's letter: `42` of `(B) 42`."""
    bare = undress(text)
    led = _LED.match(bare)
    return "" if led is None else bare[led.end() :].strip(" .)")


def label_in(response: str) -> str | None:
    """Return the letter that a text without a box picks, or `None`."""
    denied: set[str] = set()
    for cue in reversed(list(_CUES.finditer(response[-_TAIL_CHARS:]))[-_MOST_CUES:]):
        cued = _CUED.match(cue.string, cue.end())
        if cued is None or (cued[1] == "A" and _ARTICLE.match(cue.string, cued.end(1))):
            continue
        if _is_denied(cue, cued):
            denied.add(cued[1])
        elif cued[1] not in denied:
            return None if _LIST.match(cue.string, cued.end(1)) else cued[1]
    opening = _OPENING.match(response)
    if opening is None or _LIST.match(response, opening.end()) or _DENIED.match(response, opening.end()):
        return None
    letter = opening[1] or opening[2]
    return None if letter in denied else letter


def _is_denied(cue: re.Match[str], cued: re.Match[str]) -> bool:
    """Return whether a sentence rules a letter out: "not option C", "C is wrong"."""
    before = cue.string[max(cue.start() - _DENYING_CHARS, 0) : cue.start()]
    return _DENYING.search(before) is not None or _DENIED.match(cue.string, cued.end(1)) is not None


def choice_of(text: str, choices: Sequence[str]) -> str | None:
    """Return the letter of the choice whose text an answer repeats, or `None`."""
    expected = stream(unfence(text))
    found = [index for index, choice in enumerate(choices) if stream(unfence(choice)) == expected]
    return chr(ord("A") + found[0]) if len(found) == 1 else None
