"""The 25 checks of IFEval, on its own data: ids of instructions and their arguments. Pure.

Source: Zhou et al. 2023 (arXiv 2311.07911), with the behaviour of lm-eval 0.4.13's copy of the checks;
rewritten, so that every check is linear in the response. Where the original draws an argument at random,
because it is missing, the data is refused here.

Sentences and words of English as NLTK's Punkt model and its word tokenizer split them. Pure.

Source: Kiss and Strunk 2006, "Unsupervised Multilingual Sentence Boundary Detection", as NLTK 3.10 applies
it: the abbreviations and the words that begin sentences (`sentences.toml`) are those of its English model.
What the model has learned of the case of 20,000 further words is left out; where it knows a word as one that
is not capitalised within sentences, the `openers` are the common ones. So a sentence behind an abbreviation
or an ellipsis may be counted otherwise where it begins with a rare word.
"""

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias, cast

from ors_server.rewards.reading.optional_packages import load_package
from ors_server.rewards.text.texts import BadGoldError

_WORDS: Final[dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("sentences.toml").read_text(encoding="utf-8")
)
_ABBREVIATIONS: Final = frozenset(_WORDS["abbreviations"].split())
_STARTERS: Final = frozenset(_WORDS["starters"].split())
_OPENERS: Final = frozenset(_WORDS["openers"].split())
_PERSONAL: Final = frozenset({"i", "shall", "oh", "additionally", "consequently"})
"""Words that the model has only seen capitalised; an initial may end a sentence before any other."""
_KNOWN: Final = (_STARTERS - _PERSONAL) | _OPENERS
_INSIDE: Final = re.compile(r"[.?!](?=[)\";}\]*:@'({\[!?])")
_NUMERAL: Final = re.compile(r"-?[.,]?\d[\d,.-]*\.?")
_INITIAL: Final = re.compile(r"[^\W\d]\.")
_CLOSERS: Final = re.compile(r"[\"')\]}]+?(?:\s+|(?=--)|$)")
_TOKENS: Final = re.compile(
    r"-{2,}|\.{2,}|[^(\"`{\[:;&#*@)}\]\-,\s](?:(?!\.{2,}|-{2,})[^\s)\";}\]*:@'({\[!?,])*,?|\S"
)
_SPLIT: Final = re.compile(r"[;@#$%&?!*\[\](){}<>«»“”„‘’\"`]|\.{2,}|--|''|[:,](?=\D|$)")  # noqa: RUF001  (these signs are what it is about)
_CLITIC: Final = re.compile(r"(?<=[^' ])('[sSmMdD]|'ll|'LL|'re|'RE|'ve|'VE|n't|N'T|')$")
_CONTRACTION: Final = re.compile(
    r"(?i)^(can)(not)$|^(d)('ye)$|^(gim|lem)(me)$|^(gon|wan)(na)$|^(got)(ta)$|^('t)(is|was)$"
)


def count_sentences(text: str) -> int:
    """Count the sentences of a text that is not blank."""
    words = list(re.finditer(r"\S+", text))
    count = last = 0
    for index, word in enumerate(words):
        following = words[index + 1] if index + 1 < len(words) else None
        end = _possible_end(word[0], has_next=following is not None)
        if end is None:
            continue
        is_last = end == len(word[0]) - 1
        if _ends(word[0][: end + 1], following[0] if is_last and following is not None else None):
            count += 1
            last = following.start() if is_last and following is not None else word.start() + end + 1
    rest = text[last:].strip()
    closers = _CLOSERS.match(rest) if count else None
    return count + bool(rest if closers is None else rest[closers.end() :])


def split_words(text: str) -> Iterator[str]:
    """Yield the words of a text, with the endings of contractions apart, as in "DO N'T"."""
    for piece in _SPLIT.sub(" ", text).split():
        rough = piece.rstrip(".")
        clitic = _CLITIC.search(rough)
        word = rough if clitic is None else rough[: clitic.start()]
        contraction = _CONTRACTION.match(word)
        yield from (word,) if contraction is None else (part for part in contraction.groups() if part)
        if clitic is not None:
            yield clitic[1]


def _possible_end(word: str, *, has_next: bool) -> int | None:
    """Return the last place in a word at which a sentence may end: before a sign, or before white space."""
    if has_next and word[-1] in ".?!":
        return len(word) - 1
    end = None
    for end in _INSIDE.finditer(word):  # noqa: B007  (the last one counts)
        pass
    return None if end is None else end.start()


def _ends(word: str, following: str | None) -> bool:
    """Whether a sentence ends with a word; the following text is a sign, or the next word."""
    tokens = _TOKENS.findall(word)
    if any(map(_is_end, tokens[:-1])) or tokens[-1][-1] in "?!":
        return True
    if following is None:
        return _is_end(tokens[-1])
    after = _TOKENS.findall(following)
    return any(map(_is_end, after[:-1])) or _ends_before(tokens[-1], after[0])


def _is_end(token: str) -> bool:
    """Whether a token ends a sentence regardless of what follows."""
    if token in {"?", "!"}:
        return True
    return token.endswith(".") and not token.endswith("..") and not _is_abbreviation(token)


def _ends_before(token: str, after: str) -> bool:
    kind = after.rstrip(".").lower()
    is_number = _NUMERAL.fullmatch(token) is not None
    is_initial = _INITIAL.fullmatch(token) is not None
    is_open = not (token.endswith("..") or _is_abbreviation(token))
    is_large, is_small = after[:1].isupper(), after[:1].islower()
    if not is_open and not is_initial:
        return is_large and (kind in _OPENERS or kind in _STARTERS)
    if is_number or is_initial:
        if is_small or after[:1] in ";:,.!?":
            return False
        is_open = is_open or (is_large and kind in _OPENERS)
        return is_open and not (is_initial and is_large and kind not in _KNOWN)
    return is_open


def _is_abbreviation(token: str) -> bool:
    bare = token[:-1].lower()
    return bare in _ABBREVIATIONS or bare.rpartition("-")[2] in _ABBREVIATIONS


Check: TypeAlias = Callable[[str], bool]
"""Whether a response that is not blank follows an instruction."""

_OPTIONS: Final = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
_POSTSCRIPTS: Final = {"P.P.S": r"p\.\s?p\.\s?s", "P.S.": r"p\.\s?s\."}
_WORD: Final = re.compile(r"\w+")
_HIGHLIGHT: Final = re.compile(r"\*[^\n*]*\*")
_STRONG: Final = re.compile(r"\*\*[^\n*]*\*\*")
_DIVIDER: Final = re.compile(r"\s?\*\*\*\s?")
_STOPS: Final = re.compile(r"[.,?!'\"]")
_PATTERN_SIGNS: Final = frozenset("*+{}()[]|\\")
_FENCES: Final = ("```json", "```Json", "```JSON", "```")
_RELATIONS: Final = ("less than", "at least")
_DETECTED: Final = 20_000
"""Characters of a response by which its language is detected; langdetect itself looks at 10,000."""


class BadInstructionError(BadGoldError):
    """An instruction cannot be checked as it is written; the message says why."""


def read_check(name: object, arguments: object) -> Check:
    """Read one instruction by its id, such as `length_constraints:number_words`, and its arguments.

    As in IFEval, arguments that are null, empty or 0 count as missing.
    """
    make = _CHECKS.get(name) if isinstance(name, str) else None
    if make is None:
        raise BadInstructionError(f"IFEval has no instruction {name!r:.80}")
    if not isinstance(arguments, Mapping):
        raise BadInstructionError(f"expected the arguments of {name} as an object, got {arguments!r:.80}")
    named = cast("Mapping[object, Any]", arguments)
    options: dict[str, Any] = {str(key): value for key, value in named.items() if value}
    return make_check(make, str(name), options, "arguments")


def make_check(make: Callable[..., Check], name: str, options: Mapping[str, Any], noun: str) -> Check:
    """Make a check of an instruction's arguments; `noun` is their name in messages."""
    try:
        return make(**options)
    except TypeError:
        raise BadInstructionError(f"{name} does not take the {noun} {sorted(options)!r:.200}") from None
    except BadInstructionError as error:
        raise BadInstructionError(f"{name}: {error}") from None


def always(check: Check) -> Callable[[], Check]:
    """Make an instruction without arguments of a check."""
    return lambda: check


def loose_variants(response: str) -> list[str]:
    """Return the texts of the loose rule: without the first line, the last, both, and without asterisks."""
    lines = response.split("\n")
    parts = ("\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1]))
    return list(
        dict.fromkeys(variant for text in (response, *parts) for variant in (text, text.replace("*", "")))
    )


def require_number(value: object, expected: str = "expected a number of at least 0") -> int:
    """Return a number of at least 0; the error begins with what was expected."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadInstructionError(f"{expected}, got {value!r:.80}")
    return value


def require_text(value: object, expected: str = "expected text that is not blank") -> str:
    """Return a text that is not blank; the error begins with what was expected."""
    if not isinstance(value, str) or not value.strip():
        raise BadInstructionError(f"{expected}, got {value!r:.80}")
    return value


def _texts(value: object) -> list[str]:
    if not isinstance(value, list | tuple) or not value:
        raise BadInstructionError(f"expected a list of texts, got {value!r:.80}")
    return [require_text(entry) for entry in cast("Sequence[object]", value)]


def _fits(relation: object, number: object) -> Callable[[int], bool]:
    bound = require_number(number)
    if relation not in _RELATIONS:
        raise BadInstructionError(
            f"expected a relation as one of {', '.join(_RELATIONS)}, got {relation!r:.80}"
        )
    return (lambda count: count < bound) if relation == "less than" else (lambda count: count >= bound)


def _pattern(text: str, form: str = "{}", *, ignores_case: bool = True) -> re.Pattern[str]:
    """Read a word as IFEval does, as a regular expression; refuse one that may not be linear."""
    if _PATTERN_SIGNS & set(text):
        raise BadInstructionError(f"{text!r:.80} is a regular expression with repeats, groups or classes")
    try:
        return re.compile(form.format(text), re.IGNORECASE if ignores_case else 0)
    except re.error as error:
        raise BadInstructionError(f"{text!r:.80} is not a valid regular expression: {error}") from None


def _existence(*, keywords: object) -> Check:
    expected = [_pattern(keyword) for keyword in _texts(keywords)]
    return lambda text: all(pattern.search(text) for pattern in expected)


def _frequency(*, keyword: object, frequency: object, relation: object) -> Check:
    fits, expected = _fits(relation, frequency), _pattern(require_text(keyword).strip())
    return lambda text: fits(sum(1 for _ in expected.finditer(text)))


def _forbidden(*, forbidden_words: object) -> Check:
    forbidden = [_pattern(word, r"\b{}\b") for word in _texts(forbidden_words)]
    return lambda text: not any(pattern.search(text) for pattern in forbidden)


def _letters(*, letter: object, let_frequency: object, let_relation: object) -> Check:
    expected = require_text(letter).strip().lower()
    if len(expected) != 1 or not "a" <= expected <= "z":
        raise BadInstructionError(f"expected a letter from a to z, got {letter!r:.80}")
    fits = _fits(let_relation, let_frequency)
    return lambda text: fits(text.lower().count(expected))


def _language(*, language: object) -> Check:
    expected = require_text(language)
    return lambda text: detect_language(text) in {expected, None}


def _sentences(*, num_sentences: object, relation: object) -> Check:
    fits = _fits(relation, num_sentences)
    return lambda text: fits(count_sentences(text))


def _paragraphs(*, num_paragraphs: object) -> Check:
    expected = require_number(num_paragraphs)

    def check(text: str) -> bool:
        parts = _DIVIDER.split(text)
        inner, blank = parts[1:-1], [not part.strip() for part in parts]
        if any(not part.strip() for part in inner):
            return False
        ends = blank[0] + blank[-1] if len(parts) > 1 else blank[0]
        return len(parts) - ends == expected

    return check


def _words(*, num_words: object, relation: object) -> Check:
    fits = _fits(relation, num_words)
    return lambda text: fits(sum(1 for _ in _WORD.finditer(text)))


def _first_word(*, num_paragraphs: object, nth_paragraph: object, first_word: object) -> Check:
    count, number, expected = (
        require_number(num_paragraphs),
        require_number(nth_paragraph),
        require_text(first_word).lower(),
    )
    if not 0 < number <= count:
        raise BadInstructionError(f"paragraph {number} of {count} does not exist")

    def check(text: str) -> bool:
        parts = text.split("\n\n")
        filled = sum(1 for part in parts if part.strip())
        part = parts[number - 1].split(maxsplit=1) if number <= filled else []
        if not part:
            return False
        word = _STOPS.split(part[0].lstrip("'").lstrip('"'), maxsplit=1)[0].lower()
        return filled == count and word == expected

    return check


def _placeholders(*, num_placeholders: object) -> Check:
    least = require_number(num_placeholders)

    def check(text: str) -> bool:
        count = 0
        for line in text.split("\n"):
            opened = line.find("[")
            while opened >= 0 and (closed := line.find("]", opened + 1)) >= 0:
                count += 1
                opened = line.find("[", closed + 1)
        return count >= least

    return check


def _postscript(*, postscript_marker: object) -> Check:
    marker = require_text(postscript_marker).strip()
    pattern = _POSTSCRIPTS.get(marker)
    expected = re.compile(pattern) if pattern is not None else _pattern(marker.lower(), ignores_case=False)
    return lambda text: expected.search(text.lower()) is not None


def _bullets(*, num_bullets: object) -> Check:
    expected = require_number(num_bullets)

    def check(text: str) -> bool:
        lines = [line.lstrip() for line in text.split("\n")]
        count = sum(line.startswith("-") for line in lines)
        is_skipped = False
        for index, line in enumerate(lines):
            if is_skipped:
                is_skipped = False
            # A bare `*` is followed by its text in the next line, which begins no bullet.
            elif line == "*" and index + 1 < len(lines):
                count, is_skipped = count + 1, True
            elif line[:1] == "*" and line[1:2] not in {"", "*"}:
                count += 1
        return count == expected

    return check


def _highlights(*, num_highlights: object) -> Check:
    least = require_number(num_highlights)

    def check(text: str) -> bool:
        count = sum(1 for highlight in _HIGHLIGHT.finditer(text) if highlight[0].strip("*").strip())
        strong = (span[0].removeprefix("**").removesuffix("**") for span in _STRONG.finditer(text))
        return count + sum(1 for content in strong if content.strip()) >= least

    return check


def _sections(*, section_spliter: object, num_sections: object) -> Check:
    least = require_number(num_sections)
    splitter = _pattern(require_text(section_spliter).strip(), r"\s?{}\s?\d+\s?", ignores_case=False)
    return lambda text: sum(1 for _ in splitter.finditer(text)) >= least


def _is_json(text: str) -> bool:
    bare = text.strip()
    for fence in _FENCES:
        bare = bare.removeprefix(fence)
    try:
        json.loads(bare.removesuffix("```").strip())
    except (ValueError, RecursionError):
        return False
    return True


def _is_title(line: str) -> bool:
    start, end = line.find("<<"), line.rfind(">>")
    return 0 <= start <= end - 3 and bool(line[start : end + 2].lstrip("<").rstrip(">").strip())


def _has_two_responses(text: str) -> bool:
    parts = [part.strip() for part in text.split("******")]
    if not all(parts[1:-1]):
        return False
    filled = [part for part in parts if part]
    return len(filled) == 2 and filled[0] != filled[1]  # noqa: PLR2004  (two responses)


def _repeated(*, prompt_to_repeat: object) -> Check:
    expected = require_text(prompt_to_repeat).strip().lower()
    return lambda text: text.strip().lower().startswith(expected)


def _end(*, end_phrase: object) -> Check:
    expected = require_text(end_phrase).strip().lower()
    return lambda text: text.strip().strip('"').lower().endswith(expected)


def _capital_words(*, capital_frequency: object, capital_relation: object) -> Check:
    fits = _fits(capital_relation, capital_frequency)
    return lambda text: fits(sum(1 for word in split_words(text) if word.isupper()))


def is_quoted(text: str, least: int = 2) -> bool:
    """Whether a text of at least so many characters is in double quotes."""
    bare = text.strip()
    return len(bare) >= least and bare[0] == bare[-1] == '"'


def _is_english(text: str) -> bool:
    return detect_language(text) in {"en", None}


def detect_language(text: str) -> str | None:
    """Return the code of a text's language by the package langdetect; `None` if it has no letters."""
    package = load_package("langdetect")
    package.DetectorFactory.seed = 0  # it draws at random, and would differ from call to call
    try:
        return str(package.detect(text[:_DETECTED]))
    except package.LangDetectException:
        return None


_CHECKS: Final[Mapping[str, Callable[..., Check]]] = MappingProxyType(
    {
        "keywords:existence": _existence,
        "keywords:frequency": _frequency,
        "keywords:forbidden_words": _forbidden,
        "keywords:letter_frequency": _letters,
        "language:response_language": _language,
        "length_constraints:number_sentences": _sentences,
        "length_constraints:number_paragraphs": _paragraphs,
        "length_constraints:number_words": _words,
        "length_constraints:nth_paragraph_first_word": _first_word,
        "detectable_content:number_placeholders": _placeholders,
        "detectable_content:postscript": _postscript,
        "detectable_format:number_bullet_lists": _bullets,
        "detectable_format:constrained_response": always(
            lambda text: any(option in text for option in _OPTIONS)
        ),
        "detectable_format:number_highlighted_sections": _highlights,
        "detectable_format:multiple_sections": _sections,
        "detectable_format:json_format": always(_is_json),
        "detectable_format:title": always(lambda text: any(map(_is_title, text.split("\n")))),
        "combination:two_responses": always(_has_two_responses),
        "combination:repeat_prompt": _repeated,
        "startend:end_checker": _end,
        "startend:quotation": always(is_quoted),
        "change_case:capital_word_frequency": _capital_words,
        "change_case:english_capital": always(lambda text: text.isupper() and _is_english(text)),
        "change_case:english_lowercase": always(lambda text: text.islower() and _is_english(text)),
        "punctuation:no_comma": always(lambda text: "," not in text),
    }
)
INSTRUCTION_IDS: Final = tuple(_CHECKS)
