"""Which choice a response states in the end. Pure.

Statements are boxes, answer elements, "Answer: B", "the correct option is B", "I choose B", and a last line
that is a choice; where there is none of these, "B is correct". The last one decides. One that names several
choices, denies its own, is denied behind it, or is side by side with another states nothing.
"""

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final, TypeAlias

from ors_server.rewards.reading.answer_text import ANSWER_TAGS, BOX
from ors_server.rewards.reading.braces import closing_brace
from ors_server.rewards.text.matches import found_words
from ors_server.rewards.text.texts import normalise_text

Choices: TypeAlias = Mapping[str, str]
"""Label to normalised text."""

MAX_LINE: Final = 4_000
"""Characters of a statement that are read; a longer one states nothing."""
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
_LEAD: Final = re.compile(
    r"(?:(?:so|thus|hence|therefore|then|finally|option|choice|letter|answer|the|it is|it's|that is|"
    r"correct|right|best|definitely|clearly|most likely)\b[,:]?\s{0,4}){1,6}",
    re.IGNORECASE,
)
_SAYS: Final = re.compile(
    r"(?<![\w'])\(?(?P<label>[A-Z0-9]{1,4})\)?\s{1,3}"
    r"(?P<verb>isn't|wasn't|is not|was not|cannot be|can't be|can not be|is|was|must be|should be)\s{1,3}"
    r"(?:(?:definitely|clearly|also|indeed|therefore|thus|the|an?|only|most|likely)\s{1,3}){0,3}"
    r"(?P<what>correct|right|best|true|answer|wrong|incorrect|false|untrue|out|not)\b"
)
_REST: Final = re.compile(r"\W{0,4}(?:answer|option|choice|one)?\W{0,4}")
_WRONG: Final = frozenset({"wrong", "incorrect", "false", "untrue", "out", "not"})
_DENIED_BEFORE: Final = re.compile(
    r"(?:\b(?:not|no|never|neither|nor|if|whether|cannot|doubt)\b|n't)[^.;:!?\n]{0,40}$", re.IGNORECASE
)
_DENIED: Final = re.compile(
    r"[\s,.:;()\-–—]{0,9}(?:(?:it|this|that|which)\s{1,3})?"  # noqa: RUF001  (dashes)
    r"(?:(?:is|was|can|could|must|should|seems?|looks?|are|be|being|definitely|clearly)\s{0,3}){0,3}"
    r"(?:wrong|incorrect|false|untrue|excluded|eliminated|ruled out|"
    r"(?:not|n't|never|cannot|can't)\s{1,3}(?:be\s{1,3})?(?:the\s{1,3})?"
    r"(?:correct|right|true|answer|it|valid|possible|an option))\b",
    re.IGNORECASE,
)
_NAY: Final = re.compile(
    r"\s{1,3}(?:is|was|can|could|should|must|does)?(?:\s{1,3}not\b|n't\b)", re.IGNORECASE
)
_NONE: Final = re.compile(r"\W*(?:not|none|neither|no|never|cannot|can't|both|all|either)\b", re.IGNORECASE)
_REASON: Final = re.compile(
    r"\b(?:because|since|as|for|which|where|given|due|while|whereas|although|not)\b", re.IGNORECASE
)
_DRESS: Final = re.compile(
    r"\\(?:text(?:bf|it|rm)?|mathrm|mathbf|mbox)\s{0,4}|[{}$*`]|\\[ ,;:!()]|</?[a-z_]{1,16}>"
)
_EMPHASISED: Final = re.compile(r"_[^_]+_")
_LED: Final = re.compile(r"\(?([A-Za-z0-9]{1,4})(?:\)|\s?[.:,;](?=\s|$)|(?=\s[-–—]\s)|$)[).:]?")  # noqa: RUF001  (dashes)
_OTHER: Final = re.compile(r"(?<!\w)\(?([A-Za-z0-9]{1,4})[).:](?!\w)")
_JOINER: Final = re.compile(r"[\s,;/&|]*(?:(?:and|or)\b\s*)?\(?([A-Za-z0-9]{1,4})(?![\w'])")
_BETWEEN: Final = re.compile(r"[\s\W]*(?:(?:and|or|also|as well as)[\s\W]*)?", re.IGNORECASE)
_MAX_BETWEEN: Final = 40
MAX_STATEMENTS: Final = 64
"""Statements of one kind that are read, from the end."""
MAX_LINES: Final = 60
"""Lines above the last one in which a list is looked for."""


@dataclass(frozen=True, slots=True)
class StatedChoice:
    """A place of a response that states a choice."""

    start: int
    end: int
    """Where the next one may begin."""
    label: str | None
    """The choice; `None` if it states none, or several."""


def stated_choice(text: str, choices: Choices) -> str | None:
    """Return the choice that a response without reasoning states in the end; `None` if it states none."""
    whole = pick(text, choices)
    if whole is not None:
        return whole
    found = sorted(
        [*boxes(text, choices), *_elements(text, choices), *cues(text, choices)], key=lambda one: one.start
    )
    line = text.rstrip().rfind("\n") + 1
    if not found or found[-1].start < line:
        last = _last_line(text, choices)
        found += [] if last is None else [last]
    found = found or [one for one in _judgements(text, choices) if one.label is not None]
    return _final(text, found, choices)


def last_statement(found: Iterator[StatedChoice]) -> str | None:
    """Return the choice of the last statement."""
    label = None
    for one in found:
        label = one.label
    return label


def boxes(text: str, choices: Choices) -> Iterator[StatedChoice]:
    r"""Yield the `\boxed{}` of a text; one that is not closed states nothing."""
    end = 0
    for box in deque(BOX.finditer(text), MAX_STATEMENTS):
        if box.start() < end:
            continue  # inside of another one
        end = closing_brace(text, box.end())
        if end < 0:
            return
        yield StatedChoice(box.start(), end + 1, _pick_short(text[box.end() : end], choices))


def cues(text: str, choices: Choices) -> Iterator[StatedChoice]:
    """Yield the statements behind a cue: "Answer: B", "the correct option is B", "I choose B"."""
    found = deque(_CUE.finditer(text), MAX_STATEMENTS)
    for cue, following in zip_longest(found, list(found)[1:]):
        is_direct = bool(cue["colon"] or cue["colon2"])
        if not (is_direct or cue["is"] or cue["are"] or cue["verb"]) and not _is_heading(text, cue):
            continue
        start, end = _behind(text, cue.end())
        end = end if following is None else max(start, min(end, following.start()))
        stated = text[start:end]
        label = _pick_said(stated, choices)
        if label is None and not is_direct and not _is_statement(stated, choices):
            continue
        if label is not None and _DENIED_BEFORE.search(text[max(0, cue.start() - 60) : cue.start()]):
            label = None
        yield StatedChoice(cue.start(), _end_of_label(text, start, end, label), label)


def pick(text: str, choices: Choices) -> str | None:
    """Return the choice that a short text is; `None` if it is none, or several."""
    bare = " ".join(_DRESS.sub(" ", text).split())
    bare = bare[1:-1] if _EMPHASISED.fullmatch(bare) else bare
    alone = bare.rstrip(". ").strip("()[] ").rstrip(".: ").upper()
    if alone in choices:
        return alone
    form = normalise_text(bare)
    by_text = [label for label, choice in choices.items() if form in {choice, f"{choice}."}]
    return by_text[0] if by_text else _led(bare, choices)


def _pick_short(text: str, choices: Choices) -> str | None:
    return pick(text, choices) if len(text) <= MAX_LINE else None


def _pick_said(stated: str, choices: Choices) -> str | None:
    """Return the choice in the text behind a cue, whatever reason follows it."""
    if len(stated) > MAX_LINE:
        return None
    label = pick(stated, choices)
    if label is not None:
        return label
    bare = " ".join(_DRESS.sub(" ", stated).split())
    lead = _LEAD.match(bare)
    bare = bare if lead is None or _begins_with_choice(bare, choices) else bare[lead.end() :]
    return pick(bare, choices) or _with_reason(bare, choices)


def _begins_with_choice(bare: str, choices: Choices) -> bool:
    form = normalise_text(bare)
    return any(form.startswith(choice) for choice in choices.values())


def _with_reason(bare: str, choices: Choices) -> str | None:
    """Read a choice with a reason behind it: "B because A is wrong", "London, as Paris is in France"."""
    reason = _REASON.search(bare)
    if reason is None or (
        _NAY.match(bare, max(0, reason.start() - 1)) is not None and reason[0].lower() == "not"
    ):
        return None
    return pick(bare[: reason.start()].rstrip(" ,;:-–—("), choices)  # noqa: RUF001  (dashes)


def _led(text: str, choices: Choices) -> str | None:
    """Read a label with text behind it: "B. Paris", "(B) because"; never "A dog", nor "A, B"."""
    found = _LED.match(text)
    label = found[1].upper() if found is not None else ""
    if found is None or label not in choices:
        return None
    rest = text[found.end() :]
    form = normalise_text(rest)
    own = form.startswith(choices[label])
    if not own and (found[1] != label or _lists(rest, choices) or _DENIED.match(rest)):
        return None
    rest = rest[: reason.start()] if (reason := _REASON.search(rest)) is not None and not own else rest
    if any(other[1] in choices and other[1] != label for other in _OTHER.finditer(rest)):
        return None
    return label if found_words(normalise_text(rest), set(choices.values())) <= {choices[label]} else None


def _lists(rest: str, choices: Choices) -> bool:
    listed = _JOINER.match(rest)
    return listed is not None and listed[1] in choices


def _elements(text: str, choices: Choices) -> Iterator[StatedChoice]:
    for opened in deque(_TAGGED.finditer(text), MAX_STATEMENTS):
        closed = _UNTAGGED.search(text, opened.end(), opened.end() + MAX_LINE)
        end = len(text) if closed is None else closed.start()
        label = _pick_short(text[opened.end() : end], choices)
        if label is not None or closed is not None:
            yield StatedChoice(opened.start(), opened.end() if closed is None else closed.end(), label)


def _is_heading(text: str, cue: re.Match[str]) -> bool:
    """Whether a cue ends its line, as "Answer" or "### Final answer" does."""
    end = text.find("\n", cue.end())
    begin = text.rfind("\n", max(0, cue.start() - 40), cue.start()) + 1
    before = text[max(begin, cue.start() - 40) : cue.start()]
    return end >= 0 and not text[cue.end() : end].strip(" *_`:") and len(before.strip(" #*_`").split()) <= 2  # noqa: PLR2004  ("the final")


def _behind(text: str, start: int) -> tuple[int, int]:
    """Return where the text behind a cue begins and ends: the line, or the next one that is not blank."""
    for _ in range(3):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        if end - start > MAX_LINE or text[start:end].strip(" \t\r*_`:#"):
            return start, end
        start = min(end + 1, len(text))
    return start, start


def _is_statement(stated: str, choices: Choices) -> bool:
    """Whether a text that picks no choice still states something about them: a list, or a denial."""
    bare = " ".join(_DRESS.sub(" ", stated[:MAX_LINE]).split())
    if _NONE.match(bare):
        return True
    led = _LED.match(bare)
    is_denied = bare[:1] in choices and _NAY.match(bare, 1) is not None
    return is_denied or (led is not None and led[1] in choices)


def _end_of_label(text: str, start: int, end: int, label: str | None) -> int:
    """Return where the label behind a cue ends, so that a second statement side by side is seen."""
    if label is None:
        return end
    place = text.find(label, start, end)
    return end if place < 0 else place + len(label)


def _last_line(text: str, choices: Choices) -> StatedChoice | None:
    """Read the last line as a choice; lines of its form above it that are other choices make a list."""
    lines = text.rstrip()[-MAX_LINE:].split("\n")
    label = _pick_line(lines[-1], choices)
    if label is None:
        return None
    start = len(text.rstrip()) - len(lines[-1])
    if _is_one_of_a_list([line for line in lines[:-1] if line.strip()][-MAX_LINES:], lines[-1], choices):
        return StatedChoice(start, len(text), None)
    return StatedChoice(start, len(text), label)


def _is_one_of_a_list(above: list[str], line: str, choices: Choices) -> bool:
    """Whether the lines above are choices of the same form, and this is another one of them."""
    label, same = pick(line, choices), [one for one in above if _is_bare(one) == _is_bare(line)]
    if label is None or not same or pick(same[-1], choices) in {None, label} or same[-1] != above[-1]:
        return False
    return all(pick(one, choices) != label for one in same)


def _pick_line(line: str, choices: Choices) -> str | None:
    label = pick(line, choices)
    if label is not None:
        return label
    judged = _SAYS.match(line.strip().removeprefix("Option ").removeprefix("Choice "))
    if judged is not None and _REST.fullmatch(judged.string, judged.end()) is not None:
        return next((one.label for one in _judgements(line, choices)), None)
    lead = _LEAD.match(line.strip())
    return None if lead is None else pick(line.strip()[lead.end() :], choices)


def _is_bare(line: str) -> bool:
    return len(_DRESS.sub("", line).strip(" ().:")) <= 2  # noqa: PLR2004  (a label)


def _judgements(text: str, choices: Choices) -> Iterator[StatedChoice]:
    """Yield "B is correct" and "B is wrong"; the latter states nothing."""
    for stated in deque(_SAYS.finditer(text), MAX_STATEMENTS):
        if stated["label"] not in choices:
            continue
        is_denied = ("not" in stated["verb"] or "n't" in stated["verb"]) != (stated["what"] in _WRONG)
        is_denied = (
            is_denied or _DENIED_BEFORE.search(text[max(0, stated.start() - 60) : stated.start()]) is not None
        )
        yield StatedChoice(stated.start(), stated.end(), None if is_denied else stated["label"])


def _final(text: str, found: list[StatedChoice], choices: Choices) -> str | None:
    if not found or found[-1].label is None:
        return None
    last = found[-1]
    for one in reversed(found[:-1]):
        between = text[one.end : last.start]
        if one.label is None or one.end > last.start:
            continue
        if len(between) > _MAX_BETWEEN or "\n" in between or not _BETWEEN.fullmatch(between):
            break
        if one.label != last.label:
            return None
    denied = _DENIED.match(text, last.end) is not None or _is_denied_later(text, last, choices)
    return None if denied else last.label


def _is_denied_later(text: str, last: StatedChoice, choices: Choices) -> bool:
    later = _judgements(text[last.end :], choices) if last.label is not None else iter(())
    return any(
        one.label is None and text[last.end + one.start :].lstrip("(").startswith(str(last.label))
        for one in later
    )
