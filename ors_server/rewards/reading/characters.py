"""Reads scripts without spaces by the characters around a value: Chinese, Japanese, Korean. Pure."""

import re
from itertools import pairwise
from typing import Final

from ors_server.rewards.reading.options import OptionReader
from ors_server.rewards.reading.polarity import Polarity, character_lists
from ors_server.rewards.reading.sentences import CJK, MAX_NEAR_WORDS, Value

_CJK_STOP: Final = re.compile(r"[。！？!?；;।\n]|\. ")
_PARTICLES: Final = re.compile(r"\((?:은|는|이|가|을|를|으|으로|이라|과|와)\)")
"""The other form of a Korean particle: "은(는)"."""
_CJK_BREAK: Final = re.compile(
    r"[，,、،：:（）()]|而是|但是|但|不过|그러나|하지만|しかし| بل | لكن|لكنه|لكنها| लेकिन | पर | बल्कि |"
    r"(?=而不是|而非|而并非|並非|وليس|말고)"
)
_CJK_SAYING: Final = re.compile(
    r"(?<![我们們以该該])(?:说|說|认为|認為|觉得|覺得|猜|主张|主張|回答)(?:是|道|了)?\s?\Z"
)
_TURNED: Final = re.compile(
    r"\A[^，,]{0,12}[，,]\s?(?:但是?|可是?|然而|不过|不過|其实|其實|可惜|事实上|實際上|实际上)[^，,。]{0,6}"
    r"(?:不是|并非|並非|不对|不對|不成立|不符合|行不通|不行|没有)(?:如此|这样|這樣|这么回事|的)?\Z"
)
"""A denial of the value in front of it, behind "but", that names no other one."""
_ONLY: Final = ("\u3057\u304b", "\ubc16\uc5d0")
WINDOW: Final = 60
"""Characters at each side of a value that count in a script without spaces."""
_MAX_TAIL: Final = 600
"""Characters behind a value in which the next sentence may take it back."""


class CharacterReader(OptionReader):
    """Reads what the characters next to a value say of it."""

    def _read_characters(self) -> None:
        """Read Chinese, Japanese and Korean by the characters around a value."""
        lists = character_lists()
        for value, following in zip(self._values, [*self._values[1:], None], strict=True):
            end = len(self._text) if following is None else following.token.start
            if value.polarity is not Polarity.ASSERTED:
                continue
            before, after = self._window(value)
            polarity = _by_characters(before, after, lists)
            if not (self.are_labels and polarity is Polarity.INTERMEDIATE):  # "정답은 B번입니다"
                value.polarity = polarity or value.polarity
            rest = _CJK_STOP.split(self._text[value.token.end : min(end, value.token.end + WINDOW)])[0]
            if (
                value.polarity is Polarity.ASSERTED
                and (following is None or following.sentence != value.sentence)
                and (
                    _TURNED.match(rest.rstrip("。.!！ ")) is not None
                    or (
                        any(word in rest for word in lists["denied_later"])
                        and not any(word in rest for word in lists["of_others"])
                    )
                )
            ):
                value.polarity = Polarity.DENIED
        self._hedge_characters(lists)
        for value, other in pairwise(self._values):
            between = self._text[value.token.end : other.token.start].strip(" $,，、?？。")
            words = (*lists["maybe_before"], *lists["maybe_after"])
            if between and CJK.search(between) and between in words and not self._takes_alternatives:
                value.polarity = other.polarity = Polarity.HEDGED
        retracting = lists["retract"]
        long_retracting = [word for word in retracting if len(word) > MAX_NEAR_WORDS]
        for value in self._values:
            tail = self._text[value.token.end : value.token.end + _MAX_TAIL]
            stop = _CJK_STOP.search(tail)
            rest = "" if stop is None else tail[stop.end() :].strip()
            sentence = _CJK_STOP.split(rest, maxsplit=1)[0].strip() if rest else ""
            if value.polarity is Polarity.ASSERTED and sentence and CJK.search(sentence):
                head = _CJK_BREAK.split(sentence, maxsplit=1)[0].strip()
                if head in retracting or any(map(sentence.startswith, long_retracting)):
                    value.polarity = Polarity.RETRACTED

    def _hedge_characters(self, lists: dict[str, tuple[str, ...]]) -> None:
        """Decide for none of several values that a text only calls possible."""
        if self._takes_alternatives:
            return
        possible: list[Value] = []
        for value in self._values:
            before, after = self._window(value)
            if before.rstrip(" $").endswith(lists["maybe_before"]) or after.lstrip(" $").startswith(
                lists["maybe_after"]
            ):
                possible.append(value)
        self._hedge_all([value for value in possible if value.polarity is Polarity.ASSERTED])

    def _window(self, value: Value) -> tuple[str, str]:
        near = self._text[max(0, value.token.start - WINDOW) : value.token.start]
        *headings, before = _CJK_BREAK.split(_CJK_STOP.split(near)[-1])
        # A heading judges what is behind its colon.
        if headings and not before.strip(" $*") and near.rstrip(" $*").endswith((":", "\uff1a")):
            before = headings[-1]
        after = self._text[value.token.end : value.token.end + WINDOW]
        after = _PARTICLES.sub("", after)
        after = _CJK_STOP.split(after, maxsplit=1)[0] + (
            "?" if re.match(r"[^。！!；;\n]{0,60}[？?]", after) else ""
        )
        return before, after

    def _hedge_all(self, values: list[Value]) -> None:
        if len({self._written(value) for value in values}) > 1:
            for value in values:
                value.polarity = Polarity.HEDGED

    def _written(self, value: Value) -> str:
        return "".join(self._text[value.token.start : value.token.end].split()).strip("$.,*").casefold()


def _by_characters(before: str, after: str, lists: dict[str, tuple[str, ...]]) -> Polarity | None:
    head = _CJK_BREAK.split(after, maxsplit=1)[0]
    rows = (
        ("label_before", before[-10:], Polarity.INTERMEDIATE),
        ("denied_before", before, Polarity.DENIED),
        ("denied_after", head, Polarity.DENIED),
        ("bound_before", before, Polarity.BOUNDED),
        ("bound_after", head[:8], Polarity.BOUNDED),
        ("supposed_before", before, Polarity.SUPPOSED),
        ("supposed_after", head, Polarity.SUPPOSED),
        ("reported_before", before, Polarity.QUOTED),
        ("reported_after", head, Polarity.QUOTED),
        ("asked_after", head, Polarity.ASKED),
        ("label_after", head[:4], Polarity.INTERMEDIATE),
    )
    is_only = any(word in head for word in _ONLY)  # "only A is left", with a negated verb
    for name, window, polarity in rows:
        if is_only and name == "denied_after":
            continue
        if any(word in window for word in lists[name]):
            return polarity
    if _CJK_SAYING.search(before) is not None:
        return Polarity.QUOTED
    return Polarity.ASKED if after.endswith("?") and CJK.search(before + after) else None
