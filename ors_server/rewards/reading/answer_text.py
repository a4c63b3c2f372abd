r"""Finds the answer of a response: one place for every reward and adapter. Pure.

A response is cut in this order; each step is linear in its length.

1. The turn: markers of the chat template around it go, and what follows the end of the turn.
2. The reasoning: everything up to the last closing tag, and everything from an opening tag that is never
   closed. A response that begins with reasoning and never closes it has no answer.
3. The place: the content of the last `<answer>` element where there is one, the last `\boxed{}`, the last
   line, or all that is left.
"""

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias, cast, get_args

from ors_server.rewards.reading.asserted_parts import answer_part
from ors_server.rewards.reading.braces import closing_brace
from ors_server.rewards.reward_errors import RewardFieldError

Place: TypeAlias = Literal["answer", "text", "tag", "box", "last_line", "raw"]
"""Where the answer is. `answer`: in the last answer element, or else the text. `text`: all but the reasoning.
`tag`, `box`, `last_line`: there and nowhere else. `raw`: the whole response, reasoning included."""
Tags: TypeAlias = tuple[tuple[str, str], ...]
"""Opening and closing tags; case does not count."""

REASONING_TAGS: Final[Tags] = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),
    ("<|channel|>commentary<|message|>", "<|channel|>final<|message|>"),
)
"""Tags around reasoning: DeepSeek's and Qwen's, those of common prompts, Seed, Mistral, Kimi, OpenThoughts,
Cohere, and the channels of gpt-oss (harmony)."""
ANSWER_TAGS: Final[Tags] = (
    ("<answer>", "</answer>"),
    ("<final_answer>", "</final_answer>"),
    ("<solution>", "</solution>"),
    ("<|begin_of_solution|>", "<|end_of_solution|>"),
)

_TURN_START: Final = re.compile(
    r"\A\s*(?:<\|im_start\|>\s*assistant|<\|start_header_id\|>\s*assistant\s*<\|end_header_id\|>|<\|assistant\|>)\s*"
)
_TURN_END: Final = re.compile(
    r"<\|(?:im_start|im_end|endoftext|eot_id|end_of_text|start_header_id|end|user|eom_id|return|call)\|>|"
    r"<｜(?:end▁of▁sentence|User)｜>|</s>|<eos>|<(?:end|start)_of_turn>|\[INST\]"  # noqa: RUF001  (the signs of the template)
)
_END_SIGNS: Final = ("<|", "<\uff5c", "</s>", "<eos>", "_of_turn>", "[INST]")
"""One of them is in every end of a turn."""
_CHANNEL: Final = "<|channel|>"
_STRUCK: Final = ("<s>", "</s>")
"""Text that is struck through in HTML; its closing tag ends no turn."""
BOX: Final = re.compile(r"\\(?:boxed|fbox)\s{0,4}\{")


@dataclass(frozen=True, slots=True)
class AnswerSource:
    """Where the answer of a response is."""

    place: Place = "answer"
    reasoning: Tags = REASONING_TAGS
    """Tags of reasoning, which is cut; an empty tuple cuts nothing."""
    tags: Tags = ANSWER_TAGS


AnswerFrom: TypeAlias = AnswerSource | Place | Mapping[str, Any] | None
"""A source; its place alone; a mapping of its fields, as JSON has it; or `None` for a reward's own."""


@dataclass(frozen=True, slots=True)
class FoundAnswer:
    """The answer of a response."""

    text: str
    """As it was written; empty without a mark."""
    problem: str | None = None
    """Why there is no answer; `None` where there is one, which may be empty."""


@dataclass(frozen=True, slots=True)
class _MarkedPart:
    """A marked part of a response."""

    start: int
    end: int
    content: str


def find_answer(response: str, source: AnswerSource) -> FoundAnswer:
    """Find the answer of a response."""
    # Most responses have no sign of a tag or of the end of a turn, and need no search.
    is_bare = source is _DEFAULT and not any(sign in response for sign in "<[\u25c1")
    if is_bare or source.place == "raw":
        return FoundAnswer(response)
    text = cut_reasoning(response, source.reasoning)
    if text is None:
        return FoundAnswer("", "the response is all reasoning, which is never closed")
    try:
        answer = _in_place(text, source)
    except _TakenBackError:
        return FoundAnswer("", f"the response takes its {source.place} back, or leaves it open")
    return FoundAnswer("", f"the response has no {source.place}") if answer is None else FoundAnswer(answer)


def _in_place(text: str, source: AnswerSource) -> str | None:
    match source.place:
        case "box":
            return _asserted(text, list(_box_parts(text)))
        case "last_line":
            return text.rstrip().rpartition("\n")[2].strip()
        case "tag":
            return _asserted(text, _tagged_parts(text, source.tags))
        case "answer":
            # The element is optional here: without one the text is the answer.
            tagged = _asserted(text, _tagged_parts(text, source.tags))
            return text if tagged is None else tagged
        case _:
            return text


class _TakenBackError(ValueError):
    """A response asserts none of the answers that it marks."""


def _asserted(text: str, parts: list[_MarkedPart]) -> str | None:
    """Return the content of the last part that a text asserts; `None` if it has no part."""
    if not parts:
        return None
    by_span = {(part.start, part.end): part.content for part in parts}
    # A single part that is the whole response: no words around it could take it back.
    if len(parts) == 1 and text.strip() == text[parts[0].start : parts[0].end]:
        return parts[0].content
    chosen = answer_part(text, list(by_span))
    if chosen is None:
        raise _TakenBackError
    return by_span[chosen]


def _tagged_parts(text: str, tags: Tags) -> list[_MarkedPart]:
    """Return the elements of an answer, in order; the last one may end with the text."""
    if not tags or not _may_have(text, tags):
        return []
    closings = {opening.lower(): closing.lower() for opening, closing in tags}
    parts: list[_MarkedPart] = []
    opened: re.Match[str] | None = None
    for mark in _tag_pattern(tags).finditer(text):
        name = mark[0].lower()
        if opened is not None and name == closings.get(opened[0].lower()):
            parts.append(_MarkedPart(opened.start(), mark.end(), text[opened.end() : mark.start()].strip()))
            opened = None
        # A second opening tag starts over: what an unclosed element held was a draft.
        elif name in closings:
            opened = mark
    # A sampler drops the tag at which it stops.
    if opened is not None:
        parts.append(_MarkedPart(opened.start(), len(text), text[opened.end() :].strip()))
    return parts


def _box_parts(text: str) -> Iterator[_MarkedPart]:
    """Yield the boxes of a text, up to one that is never closed: a box behind it is inside it."""
    end = 0
    for box in BOX.finditer(text):
        if box.start() < end:
            continue  # inside of another one
        closing = closing_brace(text, box.end())
        if closing < 0:
            return
        end = closing + 1
        yield _MarkedPart(box.start(), end, text[box.end() : closing])


def cut_reasoning(response: str, tags: Tags = REASONING_TAGS) -> str | None:
    """Return a response without the template's markers and its reasoning; `None` if it never closes that."""
    if _CHANNEL in response:  # the end of a channel is not that of the turn
        text = _outside(response, tags)
        return None if text is None else _cut_turn(text)
    return _outside(_cut_turn(response), tags)


def last_tagged(text: str, tags: Tags = ANSWER_TAGS) -> str | None:
    """Return the content of the last element of an answer, stripped; `None` if no tag is opened.

    An unclosed element ends with the text, for a sampler drops the tag at which it stops.
    """
    if not _may_have(text, tags):
        return None
    marks = _Marks(text)
    start, closing = max(((marks.last(opening), closing) for opening, closing in tags), default=(0, ""))
    return text[start : marks.first(closing, start)].strip() if start else None


def last_box(text: str) -> str | None:
    r"""Return the content of the last `\boxed{...}`; `None` without a box, or if it is not closed."""
    box = next(iter(deque(BOX.finditer(text), 1)), None)
    end = -1 if box is None else closing_brace(text, box.end())
    return None if box is None or end < 0 else text[box.end() : end]


def read_source(value: object, default_place: Place) -> AnswerSource:
    """Read where an answer is; at `default_place` if nothing, or no place, is given."""
    if value is None:
        return _SOURCES[default_place]
    if isinstance(value, AnswerSource):
        return value
    if isinstance(value, str) and value in _SOURCES:
        return _SOURCES[cast("Place", value)]
    if isinstance(value, Mapping):
        return _from_mapping(cast("Mapping[str, Any]", value), default_place)
    raise RewardFieldError(
        f"expected answer_from as one of {', '.join(_SOURCES)}, or an object with place, reasoning or tags, "
        f"got {value!r:.80}"
    )


def _from_mapping(options: Mapping[str, Any], default_place: Place) -> AnswerSource:
    unknown = set(options) - {"place", "reasoning", "tags"}
    if unknown:
        raise RewardFieldError(
            f"expected place, reasoning and tags in answer_from, got {sorted(unknown)!r:.80}"
        )
    source = read_source(options.get("place"), default_place)
    reasoning = _read_tags(options["reasoning"]) if "reasoning" in options else source.reasoning
    tags = _read_tags(options["tags"]) if "tags" in options else source.tags
    return AnswerSource(source.place, reasoning, tags)


def _read_tags(value: object) -> Tags:
    """Read pairs of tags; a bare name such as `think` is the pair `<think>`, `</think>`."""
    listed = cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()
    pairs = [(f"<{tag}>", f"</{tag}>") if isinstance(tag, str) else tag for tag in listed]
    tags: list[tuple[str, str]] = []
    for pair in pairs:
        ends = cast("Sequence[object]", pair) if isinstance(pair, list | tuple) else ()
        opening, closing = ends if len(ends) == 2 else (None, None)  # noqa: PLR2004  (two ends)
        if not (isinstance(opening, str) and isinstance(closing, str) and opening and closing):
            raise RewardFieldError(
                f"expected tags as names, or pairs of an opening and a closing tag, got {pair!r:.80}"
            )
        tags.append((opening, closing))
    if not isinstance(value, list | tuple):
        raise RewardFieldError(f"expected a list of tags, got {value!r:.80}")
    return tuple(tags)


def _outside(text: str, tags: Tags) -> str | None:
    if not _may_have(text, tags):
        return text
    marks = _Marks(text)
    # All up to the last closing tag is reasoning, even where text is between two thoughts.
    start = max(marks.last(closing) for _, closing in tags)
    opened = min(marks.first(opening, start) for opening, _ in tags)
    if not start and opened == len(text):
        return text
    left = text[start:opened]
    if not left.strip():
        # Nothing is left: an empty answer, or reasoning that never ends.
        return "" if opened == len(text) else None
    if start:
        # The white space behind a closing tag is dropped, but not the indentation of the first line.
        bare = left.lstrip()
        _, has_line, indent = left[: len(left) - len(bare)].rpartition("\n")
        left = indent + bare if has_line else bare
    return left if opened == len(text) else left.rstrip()


def _may_have(text: str, tags: Tags) -> bool:
    """Whether a text has a sign with which one of the tags begins; most have none."""
    return any(sign in text for sign in _signs(tags))


@lru_cache(maxsize=64)
def _signs(tags: Tags) -> tuple[str, ...]:
    first = {mark[0] for pair in tags for mark in pair}
    return tuple(first | {sign.swapcase() for sign in first})


class _Marks:
    def __init__(self, text: str) -> None:
        self._text = text
        lowered = text.lower()
        self._lowered = lowered if len(lowered) == len(text) else None  # as a Turkish I makes it longer

    def first(self, mark: str, start: int) -> int:
        """Return where a mark begins, the end of the text if it is missing."""
        if self._lowered is not None:
            start_of_mark = self._lowered.find(mark.lower(), start)
        else:
            match = _pattern(mark).search(self._text, start)
            start_of_mark = -1 if match is None else match.start()
        return len(self._text) if start_of_mark < 0 else start_of_mark

    def last(self, mark: str) -> int:
        """Return where the last such mark ends, 0 if it is missing."""
        if self._lowered is not None:
            start_of_mark = self._lowered.rfind(mark.lower())
            return 0 if start_of_mark < 0 else start_of_mark + len(mark)
        return max((match.end() for match in _pattern(mark).finditer(self._text)), default=0)


def _cut_turn(text: str) -> str:
    # Only at the very start: a marker within the text would be quoted.
    start = _TURN_START.match(text)
    text = text if start is None else text[start.end() :]
    if not ("<" in text or "[" in text) or not any(sign in text for sign in _END_SIGNS):
        return text
    opening, closing = _STRUCK
    is_struck = opening in text
    for end in _TURN_END.finditer(text):
        if end[0] == closing and is_struck:
            continue
        return text[: end.start()].rstrip() or text
    return text


@lru_cache(maxsize=64)
def _tag_pattern(tags: Tags) -> re.Pattern[str]:
    marks = sorted({mark for pair in tags for mark in pair}, key=len, reverse=True)
    return re.compile("|".join(re.escape(mark) for mark in marks), re.IGNORECASE)


@lru_cache(maxsize=64)
def _pattern(mark: str) -> re.Pattern[str]:
    return re.compile(re.escape(mark), re.IGNORECASE)


_SOURCES: Final[Mapping[str, AnswerSource]] = {
    source_place: AnswerSource(source_place) for source_place in get_args(Place)
}
_DEFAULT: Final = _SOURCES["answer"]
