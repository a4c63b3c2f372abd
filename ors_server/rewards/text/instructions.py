"""The reward for following instructions that can be checked in the text alone."""

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

from ors_server.model.json_values import is_array
from ors_server.rewards.reading.json_text import JSONTextError, parse_json
from ors_server.rewards.reading.option_words import Pays, check_words
from ors_server.rewards.result import RewardResult
from ors_server.rewards.text.ifeval import (
    BadInstructionError,
    Check,
    always,
    is_quoted,
    loose_variants,
    make_check,
    read_check,
    require_number,
    require_text,
)
from ors_server.rewards.text.texts import UnparsedAnswerError, text_reward

MAX_CHARACTERS = 200_000
MAX_INSTRUCTIONS = 50
_WORD = re.compile(r"\w+")
_BULLET = re.compile(r"^[ \t]*[-*•][ \t]+\S", re.MULTILINE)
_MARKED = re.compile(r"(?<!\*)\*{1,2}[^*\n]+\*{1,2}(?!\*)")
_END = re.compile(r"(?<![.!?])[.!?]++(?=\s|\Z)")
"""The end of a sentence; the last one may lack it."""
_TITLE = re.compile(r"<<[^<>\n]+>>")
_PLACEHOLDER = re.compile(r"\[[^\[\]\n]+\]")


@text_reward
def instruction_reward(
    final_response: str,
    instructions: Sequence[Mapping[str, Any]] | None = None,
    *,
    instruction_id_list: Sequence[str] | None = None,
    kwargs: Sequence[Mapping[str, Any]] | None = None,
    pays: Pays = "all",
    loose: bool = False,
) -> RewardResult:
    """Pays for following instructions: 1 if all are followed, or the part that is.

    Hazards: it checks only the form, so a nonsense text of the right form is paid: gate it by a reward for
    the content. With `pays="fraction"` instructions that forbid something are followed by a text of one
    letter.

    Source: IFEval (Zhou et al. 2023), prompt-level (all) and instruction-level (fraction), strict and loose.
    With `instruction_id_list` and `kwargs`, as its data has them, all 25 instructions are checked as its
    reference does (`ors_server.rewards.text.ifeval`; sentences nearly so). The kinds of `instructions` are
    this library's own and stricter: JSON without a fence, the case of `ends_with`, a space behind a bullet.

    Args:
        final_response: The response; a blank one follows nothing, as in IFEval.
        instructions: Objects with `kind` and its bounds. Numbers: `words`, `sentences`, `paragraphs` (parted
            by blank lines), `bullets`, `highlights` (*so*), `placeholders` ([so]), each with `at_least` and
            `at_most`, or one of them. Texts: `include` and `forbid` with `words` (whole words, any case;
            `include` also `at_least`, times each), `starts_with` and `ends_with` with `text`, `letter` with
            `letter` and bounds. Alone: `lower`, `upper`, `json`, `no_comma`, `quoted`, `title` (<<so>>).
        loose: Whether it is enough that a variant follows an instruction: without the first line, the last
            one, or both, and without asterisks.

    Returns:
        In [0, 1], with `fraction` and `followed`, a list in the instructions' order. No instructions, or ones
        that cannot be checked (an unknown kind or bound, no bound, bounds that exclude each other) are
        `bad_gold`; more than 200,000 characters follow nothing. Instructions on the language need the package
        `langdetect`.

    Raises:
        MissingPackageError: If a language is asked for and the package `langdetect` is not installed.
    """
    check_words(pays=(pays, Pays))
    checks = _read(instructions) if instruction_id_list is None else _read_ids(instruction_id_list, kwargs)
    if len(final_response) > MAX_CHARACTERS:
        raise UnparsedAnswerError(f"the response has more than {MAX_CHARACTERS} characters")
    texts = [text for text in (loose_variants(final_response) if loose else [final_response]) if text.strip()]
    followed = [any(check(text) for text in texts) for check in checks]
    part = sum(followed) / len(followed)
    extras = {"fraction": part, "followed": followed}
    return RewardResult(part if pays == "fraction" else float(all(followed)), extras=extras)


def _read(instructions: object) -> list[Check]:
    if not is_array(instructions):
        raise BadInstructionError("instructions are a list of objects")
    listed = cast("Sequence[object]", instructions)
    if not 1 <= len(listed) <= MAX_INSTRUCTIONS:
        raise BadInstructionError(f"expected 1 to {MAX_INSTRUCTIONS} instructions, got {len(listed)}")
    return [_read_one(instruction) for instruction in listed]


def _read_ids(ids: object, arguments: object) -> list[Check]:
    names = list(cast("Sequence[object]", ids)) if is_array(ids) else []
    options = list(cast("Sequence[object]", arguments)) if is_array(arguments) else []
    if len(names) != len(options) or not 1 <= len(names) <= MAX_INSTRUCTIONS:
        raise BadInstructionError(
            f"expected instruction_id_list and kwargs as lists of the same length, 1 to {MAX_INSTRUCTIONS}"
        )
    return [read_check(name, option or {}) for name, option in zip(names, options, strict=True)]


def _read_one(value: object) -> Check:
    if not isinstance(value, Mapping):
        raise BadInstructionError(f"expected an instruction as an object with kind, got {value!r:.80}")
    options = dict(cast("Mapping[str, Any]", value))
    kind: Any = options.pop("kind", None)
    make = _KINDS.get(kind) if isinstance(kind, str) else None
    if make is None:
        raise BadInstructionError(f"unknown kind of instruction {kind!r:.80}; expected {', '.join(_KINDS)}")
    return make_check(make, str(kind), options, "bounds")


def _between(at_least: object, at_most: object) -> Callable[[int], bool]:
    low = (
        None if at_least is None else require_number(at_least, "expected at_least as a number of at least 0")
    )
    high = None if at_most is None else require_number(at_most, "expected at_most as a number of at least 0")
    if low is None and high is None:
        raise BadInstructionError("expected at_least or at_most")
    if low is not None and high is not None and low > high:
        raise BadInstructionError("at_least is above at_most")
    if low == 0 and high is None:
        raise BadInstructionError("at_least 0 is always true")
    return lambda count: (low is None or count >= low) and (high is None or count <= high)


def _text(value: object, name: str) -> str:
    return require_text(value, f"expected {name} as a text that is not blank")


def _words(value: object) -> list[str]:
    listed: list[Any] = list(cast("Sequence[Any]", value)) if is_array(value) else []
    if not listed:
        raise BadInstructionError(f"expected words as a list of texts, got {value!r:.80}")
    return [_text(word, "a word").strip() for word in listed]


def _make_counting_check(count: Callable[[str], int]) -> Callable[..., Check]:
    def make(*, at_least: object = None, at_most: object = None) -> Check:
        fits = _between(at_least, at_most)
        return lambda text: fits(count(text))

    return make


def _include(*, words: object, at_least: object = 1) -> Check:
    fits = _between(at_least, None)
    expected = _words(words)
    return lambda text: all(fits(_times(word, text)) for word in expected)


def _forbid(*, words: object) -> Check:
    forbidden = _words(words)
    return lambda text: not any(_times(word, text) for word in forbidden)


def _times(word: str, text: str) -> int:
    """Count a word, or words, without an adjacent letter or digit; case does not count."""
    return len(re.findall(rf"(?<!\w){re.escape(word.casefold())}(?!\w)", text.casefold()))


def _make_edge_check(has_edge: Callable[[str, str], bool]) -> Callable[..., Check]:
    def make(*, text: object) -> Check:
        expected = _text(text, "text").strip()
        return lambda response: has_edge(response.strip(), expected)

    return make


def _letter(*, letter: object, at_least: object = None, at_most: object = None) -> Check:
    expected = _text(letter, "letter").casefold()
    if len(expected) != 1:
        raise BadInstructionError(f"expected letter as one letter, got {letter!r:.80}")
    fits = _between(at_least, at_most)
    return lambda text: fits(text.casefold().count(expected))


def _is_json(text: str) -> bool:
    try:
        parse_json(text)
    except JSONTextError:
        return False
    return True


def _count_paragraphs(text: str) -> int:
    blank = True
    count = 0
    for line in text.split("\n"):
        count += blank and bool(line.strip())
        blank = not line.strip()
    return count


_KINDS: Mapping[str, Callable[..., Check]] = MappingProxyType(
    {
        "words": _make_counting_check(lambda text: len(_WORD.findall(text))),
        "sentences": _make_counting_check(
            lambda text: sum(1 for part in _END.split(text) if _WORD.search(part))
        ),
        "paragraphs": _make_counting_check(_count_paragraphs),
        "bullets": _make_counting_check(lambda text: len(_BULLET.findall(text))),
        "highlights": _make_counting_check(lambda text: len(_MARKED.findall(_BULLET.sub("x", text)))),
        "placeholders": _make_counting_check(lambda text: len(_PLACEHOLDER.findall(text))),
        "include": _include,
        "forbid": _forbid,
        "starts_with": _make_edge_check(str.startswith),
        "ends_with": _make_edge_check(str.endswith),
        "letter": _letter,
        "lower": always(str.islower),
        "upper": always(str.isupper),
        "json": always(_is_json),
        "no_comma": always(lambda text: "," not in text),
        "quoted": always(lambda text: is_quoted(text, 3)),
        "title": always(lambda text: _TITLE.search(text) is not None),
    }
)
