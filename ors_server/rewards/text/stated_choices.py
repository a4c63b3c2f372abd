"""Which choice a response states in the end. Pure.

A choice is named by its label, by its text, or by both ("B. Paris"); in a box, an answer element, or a
sentence. The reader of statements says which of these the response asserts; the last one that is named as
the answer decides, or else the last one. A place of an answer that names several choices states none.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, zip_longest
from typing import Final, TypeAlias

from ors_server.rewards.reading.answer_text import ANSWER_TAGS, BOX
from ors_server.rewards.reading.braces import closing_brace
from ors_server.rewards.reading.mentions import (
    MAX_TAIL,
    Mention,
    Reading,
    single_assertion,
    visible,
)
from ors_server.rewards.reading.option_frames import read_options
from ors_server.rewards.reading.polarity import NO_CLASSES, Polarity, languages_of, lexicons, words_of
from ors_server.rewards.text.found_words import word_places
from ors_server.rewards.text.texts import normalise_text

Choices: TypeAlias = Mapping[str, str]
"""Label to normalised text."""

MAX_LINE: Final = 4_000
"""Characters of a box, an element or a cue's line that are read; a longer one states nothing."""
_TAGGED: Final = re.compile("|".join(f"{re.escape(opening)}" for opening, _ in ANSWER_TAGS), re.IGNORECASE)
_UNTAGGED: Final = re.compile("|".join(re.escape(closing) for _, closing in ANSWER_TAGS), re.IGNORECASE)
_MARKS: Final = r"[*_`\"')\]}]{0,4}"
_CUE: Final = re.compile(
    rf"""(?<![^\W_])(?<![</])(?:
    (?:answer|solution)(?:[ ]{{1,4}}(?:choice|option|letter))?{_MARKS}
      (?P<is>[ ]{{1,4}}(?:is|would[ ]be|should[ ]be|must[ ]be|will[ ]be))?{_MARKS}
      (?P<colon>\s{{0,4}}[:\uff1a=])?
    | (?:correct|right|best|final)[ ]{{1,4}}(?:option|choice|one|letter){_MARKS}
      (?P<are>[ ]{{1,4}}(?:is|would[ ]be|should[ ]be|must[ ]be))?{_MARKS}(?P<colon2>\s{{0,4}}[:\uff1a=])?
    | (?:i|we)(?:[ ]will|'ll|[ ]would|'d)?[ ]{{1,4}}(?P<verb>choose|pick|select|go[ ]with|opt[ ]for)
    )(?![^\W_]|[-'])""",
    re.IGNORECASE | re.VERBOSE,
)
_ANSWER_LINE: Final = re.compile(r"(?im)^[ \t#*_]{0,8}(?:final[ ])?answer[*_]{0,3}[ ]{0,2}:")
_DRESS: Final = re.compile(
    r"\\(?:text(?:bf|it|rm)?|mathrm|mathbf|mbox)\s{0,4}|[{}$*`]|\\[ ,;:!()]|</?[a-z_]{1,16}>"
)
_EMPHASISED: Final = re.compile(r"_[^_]+_")
_NOUN: Final = re.compile(
    r"(?:option|choice|letter|answer)\s{1,3}(?=\(?[A-Za-z0-9]{1,4}\)?[.:]?\Z)", re.IGNORECASE
)
_LED: Final = re.compile(r"\(?([A-Za-z0-9]{1,4})(?:\)|\s?[.:,;](?=\s|$)|(?=\s[-–—]\s)|$)[).:]?")
_FOLLOWING: Final = re.compile(r"[ \t]{1,3}([^\W\d_]+)")
_WORD: Final = re.compile(r"[^\W\d_]+")
_NEAR_CHARS: Final = 120
"""Characters behind an "A" that tell the language of its sentence."""
_PRECEDING: Final = re.compile(r"(?<![A-Za-z])([A-Za-z]+)[ \t]\Z")
_NAMING: Final = frozenset(
    {
        "copula",
        "answer",
        "confirm",
        "pivot",
        "correction",
        "pronoun",
        "negative",
        "label",
        "maybe",
        "bound",
        "suppose",
        "oblique",
        "reject",
        "trial",
    }
)
_NAMING_WORDS: Final = words_of(
    "option choice letter with for choose pick say mark select on to and or than lor vee cup text"
)
_VERB_CLASSES: Final = frozenset({"copula", "negative", "would", "maybe", "pivot", "reject", "bound_after"})
_NOT_VERBS: Final = words_of("lens series species means gas canvas atlas perhaps always news class process")
_VERBS: Final = words_of(
    "and or for with by to in on of than over alone only all either too also it i because since as must can "
    "both do does yes no not then itself instead rather here first last again please now before after "
    "between among from at best better first most that which who isn doesn wasn hasn couldn wouldn won didn"
)
_LETTERS: Final = r"A-Za-z0-9\u00c0-\u1fff"
"""What a label does not touch; words in Chinese, Japanese and Korean it does."""
_NOUN_CLASSES: Final = frozenset({"label", "work", "quantity", "work_verb"})
_NOUN_BEHIND: Final = re.compile(r" ([a-z]{3,})(?=[.!]?\s*(?:\n|\Z))")
_INVERTED: Final = re.compile(r"(?:not only (?:is|does|was|did)|makes) \Z", re.IGNORECASE)
_OPTION: Final = re.compile(r"(?:option|choice|letter|answer)s?\s{1,3}\(?\Z", re.IGNORECASE)
_ATTACHED: Final = frozenset("+#'’^=@°-")
_LINE_START: Final = " \t*_`#>-"
_LINE_END: Final = " \t*_`.)!"
_INITIAL: Final = re.compile(
    r"(?:vitamin|plan|hepatitis|team|room|gate|platform|terminal|block|phase|wing|row|exhibit|annex|division|league|"
    r"company|person|patient|witness|node|process|machine|channel|drive|disk|"
    r"grade|type|class|group|appendix|section|figure|part|point|vertex|angle|side|line|variable)\s{1,3}\Z",
    re.IGNORECASE,
)
_BEHIND_LABEL: Final = re.compile(r"[)*_}]{0,4}[.):,=]?[*_]{0,3}\s{0,3}[(\"'“*_]{0,3}(?:[-–—:]\s)?[\"'“]?")
_APPOSED: Final = re.compile(
    r"[*_\"'”]{0,3}(?:,|\s[–—-])\s(?:(?:i\.?e\.?|that\sis|namely|which\sis),?\s)?(?:the\s)?(?:option|choice|letter|answer)\s\(?",
    re.IGNORECASE,
)
"""Between the text of a choice and its label: "Paris, option B"."""
MAX_STATEMENTS: Final = 64
"""Places of an answer of one kind that are read, from the end."""


@dataclass(frozen=True, slots=True)
class _Named(Mention):
    """A choice that a sentence names."""

    is_label: bool = False


def stated_choice(text: str, choices: Choices) -> str | None:
    """Return the choice that a response without reasoning states in the end; `None` if it states none."""
    # The end only, without zero-width characters, which could split words.
    text = visible(text[-MAX_TAIL:])
    readings = _read(text, choices, [*boxes(text, choices), *_elements(text, choices)])
    final = single_assertion(text, readings)
    if final is None:
        return None
    cue = next(iter(deque(_ANSWER_LINE.finditer(text), 1)), None)
    # A later "Answer: both", which names no single choice, revokes one that was read in front of it.
    if cue is not None and cue.end() > final.mention.start and not final.mention.is_marked:
        start, _ = _span_behind_cue(text, cue.end())
        if start < len(text):
            return None
    return final.mention.name


def boxed_choice(text: str, choices: Choices) -> str | None:
    """Return the choice of the last box that a response asserts."""
    text = visible(text[-MAX_TAIL:])
    return _name(
        single_assertion(
            text, [item for item in _read(text, choices, boxes(text, choices)) if item.mention.is_marked]
        )
    )


def cued_choice(text: str, choices: Choices) -> str | None:
    """Return the choice of the last "Answer: B" or answer element that a response asserts."""
    text = visible(text[-MAX_TAIL:])
    elements = list(_elements(text, choices))
    readings = _read(text, choices, [*boxes(text, choices), *elements])
    spans = [*_cued_spans(text), *((element.start, element.end) for element in elements)]
    chosen = None
    for start, end in sorted(spans):
        inside = [
            reading for reading in readings if start < reading.mention.end and reading.mention.start < end
        ]
        # A quoted statement ("others answer B") leaves the one before it in force.
        if any(reading.statement.polarity is not Polarity.QUOTED for reading in inside):
            chosen = _name(single_assertion(text, inside))
    return chosen


def whole_choice(text: str, choices: Choices) -> str | None:
    """Return the choice that is the whole response."""
    # The whole response may still deny the choice.
    label = pick(visible(text), choices) if len(text) <= MAX_LINE else None
    return label if label is not None and stated_choice(text, choices) == label else None


def boxes(text: str, choices: Choices) -> Iterator[Mention]:
    r"""Yield the `\boxed{}` of a text; one that is not closed states nothing."""
    end = 0
    for box in deque(BOX.finditer(text), MAX_STATEMENTS):
        if box.start() < end:
            continue  # inside of another one
        end = closing_brace(text, box.end())
        if end < 0:
            return
        yield Mention(box.start(), end + 1, _pick_short(text[box.end() : end], choices), is_marked=True)


def pick(text: str, choices: Choices) -> str | None:
    """Return the choice that a short text names; `None` if it names no choice, or several."""
    bare = " ".join(_DRESS.sub(" ", text).split())
    bare = bare[1:-1] if _EMPHASISED.fullmatch(bare) else bare
    bare = _NOUN.sub("", bare, count=1)
    alone = bare.rstrip(". ").strip("()[] ").rstrip(".: ").upper()
    if alone in choices:
        return alone
    form = normalise_text(bare)
    by_text = [label for label, choice in choices.items() if form in {choice, f"{choice}."}]
    return by_text[0] if by_text else _read_led_label(bare, choices)


def _pick_short(text: str, choices: Choices) -> str | None:
    if len(text) > MAX_LINE:
        return None
    label = pick(text, choices)
    return label if label is not None else _name(single_assertion(text, _read(text, choices, ())))


def _read_led_label(text: str, choices: Choices) -> str | None:
    """Read a label with a choice's text behind it, or a reason: "B. Paris", "(B) because"; never "A, B"."""
    led = _LED.match(text)
    label = led[1].upper() if led is not None else ""
    if led is None or label not in choices:
        return None
    form = normalise_text(text[led.end() :])
    if form.startswith(choices[label]):
        return label
    # A small letter in front of other words is a word: "a dog".
    if led[1] != label:
        return None
    names = {mention.name for mention in _mentions(text, choices, ())}
    return label if names == {label} else None


def _name(assertion: Reading | None) -> str | None:
    return None if assertion is None else assertion.mention.name


def _read(text: str, choices: Choices, places: Iterable[Mention]) -> list[Reading]:
    """Return what a text asserts of the choices."""
    return read_options(text, _mentions(text, choices, places))


def _mentions(text: str, choices: Choices, places: Iterable[Mention]) -> list[Mention]:
    """Return where a text names the choices; a label and its text side by side are one mention."""
    texts = _texts(text, choices)
    # A label inside a choice's text is part of the text.
    labels = [mention for mention in _labels(text, choices) if not _is_inside(mention, texts)]
    mentions = sorted([*texts, *labels], key=lambda mention: mention.start)
    merged: list[_Named] = []
    for mention in mentions:
        last = merged[-1] if merged else None
        if last is not None and _is_attached(text, last, mention):
            merged[-1] = _Named(last.start, mention.end, last.name if last.name == mention.name else None)
        else:
            merged.append(mention)
    return [*places, *_without_list(text, merged, choices)]


def _without_list(text: str, mentions: list[_Named], choices: Choices) -> list[_Named]:
    """Leave out a list of all choices in order, a line for each: it repeats the question."""
    labels = list(choices)
    index = 0
    while index + len(labels) <= len(mentions):
        listed = mentions[index : index + len(labels)]
        lines = [text.count("\n", first.end, second.start) for first, second in pairwise(listed)]
        if [mention.name for mention in listed] == labels and all(lines):
            del mentions[index : index + len(labels)]
            break
        index += 1
    return mentions


def _is_inside(mention: Mention, places: Sequence[Mention]) -> bool:
    return any(span.start <= mention.start < span.end for span in places)


def _is_attached(text: str, first: "_Named", second: "_Named") -> bool:
    """Whether a choice's text is directly behind its label, or the label in brackets behind the text."""
    if first.is_label is second.is_label:
        return False
    between = text[first.end : second.start]
    if first.is_label:
        return between != "" and _BEHIND_LABEL.fullmatch(between) is not None
    return (text[second.start] == "(" and not between.strip(" *_\"'")) or _APPOSED.fullmatch(
        between
    ) is not None


def _texts(text: str, choices: Choices) -> list[_Named]:
    form, folded = text.casefold(), {choice: label for label, choice in choices.items()}
    # Offsets in the folded text must be offsets in the text; otherwise texts are not searched.
    if len(form) != len(text):
        form = text.lower()
    if len(form) != len(text):
        return []
    form = re.sub(r"\s", " ", form)
    # Texts of one character are left to the labels.
    sought = {choice for choice in folded if len(choice) > 1}
    places = sorted(word_places(form, sought), key=lambda span: (span[0], -len(span[1])))
    named: list[_Named] = []
    for start, choice in places:
        end = start + len(choice)
        following = _NOUN_BEHIND.match(text, end)
        if following is not None and not following[1].endswith("ly"):
            word = following[1]
            # The beginning of a noun phrase is not a choice: "a dog" of "a dog house".
            if not any(
                lexicon.words.get(word, NO_CLASSES) - _NOUN_CLASSES for lexicon in languages_of({word})
            ):
                continue
        named.append(_Named(start, end, folded[choice]))
    return named


def _labels(text: str, choices: Choices) -> Iterator[_Named]:
    for match in _label_pattern(tuple(choices)).finditer(text):
        label = match[0]
        start, end = _with_brackets(text, match.start(), match.end())
        is_lower = label not in choices
        before, after = text[max(0, start - 16) : start], text[end : end + 1]
        rest = text[end : end + 80].partition("\n")[0]
        is_alone = not before.rpartition("\n")[2].strip(_LINE_START) and not rest.strip(_LINE_END)
        is_plain_word = is_lower or label.isdigit() or len(label) > 1
        if is_plain_word and not (
            is_alone or text[start] == "(" or (_OPTION.search(before) and not is_lower)
        ):
            continue
        # `_A_` is emphasis; an underscore at one side only is part of a name.
        if (after == "_") is not before.endswith("_"):
            continue
        if (
            not is_alone
            and (
                (
                    label in ("A", "I")
                    and start == match.start()
                    and not before.endswith((", ", "; "))  # an article there is written small
                    and _INVERTED.search(before) is None
                    and _is_article(text, end)
                )
                or after in _ATTACHED
                or (before[-1:] in _ATTACHED and before)
                or _INITIAL.search(before)
                or (label == "A" and before.endswith(" an "))
            )
        ):
            continue
        yield _Named(start, end, label.upper() if is_lower else label, is_label=True)


def _with_brackets(text: str, start: int, end: int) -> tuple[int, int]:
    """Take the brackets or the emphasis around a label to it."""
    # Twice, for brackets inside of emphasis and emphasis inside of brackets.
    for opening, closing in (("(", ")"), ("**", "**"), ("(", ")"), ("**", "**")):
        if (
            text.startswith(opening, max(0, start - len(opening)))
            and start >= len(opening)
            and text.startswith(closing, end)
        ):
            start, end = start - len(opening), end + len(closing)
    return start, end


def _is_cut_off(text: str, end: int) -> bool:
    """Whether an "A" at the very end is the article of a noun that is missing: "I think A"."""
    preceding = _PRECEDING.search(text[max(0, end - 20) : end - 1])
    if preceding is None or text[end:].strip():
        return False
    word = preceding[1].lower()
    return word not in _NAMING_WORDS and not any(
        lexicon.words.get(word, NO_CLASSES) & _NAMING for lexicon in languages_of({word})
    )


def _is_article(text: str, end: int) -> bool:
    """Whether an "A" or "I" is in front of a noun: no verb, conjunction or punctuation follows it."""
    following = _FOLLOWING.match(text, end)
    if following is None:
        return re.match(r"[ \t]{1,3}\d", text[end : end + 4]) is not None or _is_cut_off(text, end)
    word = following[1]
    portuguese = lexicons()["portuguese"]
    near = _WORD.findall(text[end : end + _NEAR_CHARS].casefold())
    if word.islower() and portuguese in languages_of(near):
        return not portuguese.words.get(word, NO_CLASSES) & _VERB_CLASSES  # "A resposta certa é"
    if not word.isascii() or (len(languages_of({word})) > 1 and len(languages_of(near)) > 1):
        return False  # "सही विकल्प A है", "Die Antwort kann nur A sein"
    if word[0].isupper():
        return True
    if (
        word in _VERBS
        or word.endswith("ly")
        or (word.endswith("s") and word[-2:-1] not in "sui" and word not in _NOT_VERBS)
    ):
        return False
    return not any(lexicon.words.get(word, NO_CLASSES) & _VERB_CLASSES for lexicon in languages_of({word}))


@lru_cache(maxsize=64)
def _label_pattern(labels: tuple[str, ...]) -> re.Pattern[str]:
    lower = {label.lower() for label in labels if len(label) == 1}
    listed = "|".join(re.escape(label) for label in sorted({*labels, *lower}, key=len, reverse=True))
    return re.compile(rf"(?<![{_LETTERS}])(?:{listed})(?![{_LETTERS}])")


def _elements(text: str, choices: Choices) -> Iterator[Mention]:
    for opened in deque(_TAGGED.finditer(text), MAX_STATEMENTS):
        closed = _UNTAGGED.search(text, opened.end(), opened.end() + MAX_LINE)
        start, end = opened.end(), len(text) if closed is None else closed.start()
        label = _pick_short(text[start:end], choices)
        if label is not None or closed is not None:
            yield Mention(opened.start(), end if closed is None else closed.end(), label, is_marked=True)


def _cued_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the text behind each cue, up to the next one."""
    cues = deque(_CUE.finditer(text), MAX_STATEMENTS)
    for cue, following in zip_longest(cues, list(cues)[1:]):
        is_stated = any(cue[name] for name in ("colon", "colon2", "is", "are", "verb"))
        if not is_stated and not _is_heading(text, cue):
            continue
        start, end = _span_behind_cue(text, cue.end())
        yield start, end if following is None else max(start, min(end, following.start()))


def _is_heading(text: str, cue: re.Match[str]) -> bool:
    """Whether a cue ends its line, as "Answer" or "### Final answer" does."""
    end = text.find("\n", cue.end())
    begin = text.rfind("\n", max(0, cue.start() - 40), cue.start()) + 1
    before = text[max(begin, cue.start() - 40) : cue.start()]
    return end >= 0 and not text[cue.end() : end].strip(" *_`:") and len(before.strip(" #*_`").split()) <= 2  # noqa: PLR2004  ("the final")


def _span_behind_cue(text: str, start: int) -> tuple[int, int]:
    """Return where the text behind a cue begins and ends: the line, or the next one that is not blank."""
    for _ in range(3):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        if end - start > MAX_LINE or text[start:end].strip(" \t\r*_`:#"):
            return start, end
        start = min(end + 1, len(text))
    return start, start
