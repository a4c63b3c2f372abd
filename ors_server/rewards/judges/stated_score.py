"""Finds the one score that a reply in plain text states; an ambiguous reply is refused. Pure.

Every pattern here is bounded, and each character is read a fixed number of times, so that the work is linear
in the length of the reply.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from ors_server.rewards.judges.asserted_scores import GAP, NO_SCORE, asserted_reply, phrases
from ors_server.rewards.reading.polarity import classes_of
from ors_server.rewards.reward_errors import UnusableReplyError

_PLAIN = r"[-+]?(?:\d{1,20}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][-+]?\d{1,3})?"
_SCORE = re.compile(rf"(?P<number>{_PLAIN})(?:/(?P<of>\d{{1,6}}(?:\.0{{1,9}})?)|(?P<percent>%))?")
_NUMERIC = re.compile(r"[-+\d.,/:%]+")
"""A word of digits and signs, such as 0,7 or 0.4-0.6."""
_LABELS = (
    "score|rating|reward|grade|mark|verdict|overall|final|total|altogether|conclusion|all in all"
    "|assessment|judge?ment|points|my vote|my number|my figure|to sum up|in sum|in short|tl;?dr|bottom line"
    "|evaluation|result|note|gesamtnote|gesamtbewertung|gesamtpunktzahl|bewertung|punktzahl|nota|puntuaci[oó]n"
    "|puntaje|punteggio|voto|pontua[cç][aã]o|cijfer|ocena|wynik|оценка|балл|puan|评分|分数|得分|評分|分數|点数"
    "|得点|スコア|評価|점수|평점"
)
_LABEL = re.compile(
    rf"\b(?:{_LABELS})s?(?:\s(?:finale?|totale?|g[eé]n[eé]rale?|globale?|total|global))?(?:\s{{1,3}}(?:is|of|was|here|thus|therefore|ist|es|est|\u00e8|\u00e9|jest|wynosi)\b){{0,2}}[\s:=,']{{0,6}}[\u306f\ub294\uc740\u4e3a\u70ba\u662f]?[\s:=]{{0,3}}"
    r"(?:\s-\s{1,3})?(?=[-+.]?\d)",
    re.IGNORECASE,
)
_GIVEN = re.compile(
    r"\b(?:I|we|let\sme|let\sus)(?:['’](?:d|ll|m)|\s{1,3}(?:would|will|can|must|shall"
    r"|do|am))?(?:\s{1,3}(?:[a-z]{1,12}ly|thus|so|hence|therefore|now|just|still))?"
    r"\s{1,3}(?:rate|score|grade|give|award|assign|mark|put|place|value|settle\s(?:on|for)|go(?:ing)?\s(?:with|for)|stay\swith|stand\sat|say"
    r"|call|land\son|arrive\sat|end\s(?:up\s)?(?:with|at)|stand\sby|stick\s(?:to|with))"
    r"(?:\s{1,3}(?:this|it|the|an?|my|of|at|with|as|score|rating|mark|grade|response|answer|essay"
    r"|work|submission|solution|reply|text"
    r"|overall|final|total)){0,6}[\s:]{1,4}(?=[-+.]?\d)"
    r"|(?:\A|(?<=[.!;:,\n]\s)|(?<=\n))(?:call\sit|make\s(?:it|that)|(?:this|that|it)(?:\sis|['\u2019]s)\san?)"
    r"\s{1,4}(?=[-+.]?\d)",
    re.IGNORECASE,
)
"""A sentence in which the judge gives a score: "I rate this 0.8"."""
_ADJUSTED = re.compile(
    r"(?<!\w)(?:bring|brought|lift|rais|tak|took|lower|reduc|drop|pull|push|mov|chang|revis|adjust|correct|amend|updat|cut"
    r"|increas|decreas)(?:e|es|ed|s|d|ing|ping|ped|ting|n)?\s(?:(?:it|this|that|me|us|things|(?:the|my|its|this)(?:\s\w{1,20}){1,2})\s)?"
    r"(?:(?:back|up|down)\s)?(?:from\s\S{1,8}\s)?to\s{1,3}(?=[-+.]?\d)"
    r"|\b(?:up|down)\s(?:from\s\S{1,8}\s)?to\s{1,3}(?=[-+.]?\d)"
    r"|\bfor\s\S{1,8}\s(?:please\s)?read\s{1,3}(?=[-+.]?\d)"
    r"|\bafter\s(?:\w{1,20}\s){0,3}(?:deductions?|penalt(?:y|ies)|adjustments?|corrections?|revisions?|bonus)\b[^:;.\d\n]{0,40}"
    r"[:,]\s{0,3}(?=[-+.]?\d)",
    re.IGNORECASE,
)
"""A score that replaces an earlier one: "the missing proof brings it down to 0.5"."""
_UNREAL = re.compile(
    r"(?i)\b(?:would|could|might|may|can|should|cannot|not|never|no|if|unless|tempted|asks?|wants?|demands?|begs?|please|to)\b"
    r"|n['\u2019]t\b"
)
_COMBINED = re.compile(
    r"(?<!\w)(?:weighted(?:\s\w{1,12})?|(?:(?:taken|put|all)\s)?together|average|mean|combined|in\ssum|\u2192|\u21d2|(?:so|hence|thus|therefore)(?=,?\s\S{1,8}\soverall))"
    r"[\s:,=]{1,4}(?:(?:(?:this|that|it|they)\s)?(?:gives?|makes?|is|comes?\sto)\s{1,3})?(?=[-+.]?\d)",
    re.IGNORECASE,
)
"""The score that follows from those of several criteria: "Accuracy 0.4, style 0.9; together: 0.7"."""
_OVERALL = re.compile(
    r"\s{1,3}(?:overall|altogether|in\stotal|all\sin\sall|in\ssum|combined)\b", re.IGNORECASE
)
_NOTE = re.compile(
    r"[(\[][^()\[\]\n]{0,20}(?:[-\u2013]|\bto\b|of|,|scale|max)[^()\[\]\n]{0,20}[)\]](?=[\s*_]{0,4}[:=])"
)
"""The scale between a label and its number: "Score (0 to 1): "."""
_TAG = re.compile(r"<(/?)([A-Za-z]{1,20})>")
_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_REWRITES = (
    (re.compile(r"[—–]"), " - "),
    (re.compile(r"(?<=[\d.])\s{0,3}/\s{0,3}(?=\d)"), "/"),
    (re.compile(r"(?<=[\d.])\s{1,3}(?:points?\s{1,3})?out\s{1,3}of\s{1,3}(?=\d)", re.IGNORECASE), "/"),
    (
        re.compile(
            r"(?<=[\d.])\s{0,3}\(?\s?(?:points?\s)?(?:out\sof\s(?:an?\s(?:possible|maximum|total)\s(?:of\s)?)?(?=1|5|10|100)"
            r"|of\s(?=1(?!\d)))(?=\d{1,3}(?:\.0{1,3})?\s{0,2}(?:[.,;!)\n]|\Z))",
            re.IGNORECASE,
        ),
        "/",
    ),
    (re.compile(r"(?<=\d)\s{0,3}(?:%|per\s?cent\b)", re.IGNORECASE), "%"),
    (re.compile(r"[:=](?=[-+.]?\d)"), ": "),
    (re.compile(rf"(?<=[{_CJK}])(?=\d)|(?<=\d)(?=[{_CJK}])"), " "),
)
"""Spellings of one thing, made one spelling; in this order."""
_MARKUP = str.maketrans(dict.fromkeys('*`"_$[](){}<>\\|#~“”', " "))
_STOPS = ".,;:!?\u3002\uff0c\uff1b\uff01\uff1f"
_SENTENCE = re.compile(r"[.!?](?=\s)|\n")
_WORD = re.compile(r"[a-z']{1,30}")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NUMBERED = _words(
    "step steps task criterion criteria part point question case test item line turn number section "
    "paragraph figure no example stage round"
)
"""Words before a number that counts or names something and is not a score."""
_JOINING = _words("because since as for due given on in with overall and but - so")
"""Words that may follow a score immediately."""
_GIVING = _words(
    "give gives giving gave given rate rates rating rated score scores scoring scored grade grades "
    "assign assigned award awarded deserve deserves earn earns mark verdict evaluation assess say "
    "worth judge get gets got it's that's settle settled settling lean leaves leaving end ending"
    " merits merit make graded now makes gave stays stands receives receive "
    "donne attribue accorde mets doy otorgo pongo dou atribuo gebe vergebe geef assegno bewerte noto valoro"
)
_ADJECTIVES = _words("a an solid fair clear firm strong weak good decent generous straight exactly precisely")
_STRESS = _words("no not nothing without doubt question")
"""Words of which a sentence that only stresses its number has one: "No doubt: 0.4"."""
_VERDICT = re.compile(
    r"\s{1,3}(?:it is|is|seems|feels|looks|sounds|would be)\b(?:\s{1,3}(?:a|the|about|quite|most|more|only))?"
    r"(?:\s{1,3}(?:fair|right|just|realistic|warranted|justified|due|reasonable|appropriate|adequate|deserved|fitting|correct|score"
    r"|rating|best)){0,2}"
    r"(?:\s{1,3}to\sme)?\s{0,3}(?:[.;!\n]|\Z)"
)
"""What follows a score that is the subject of its sentence: "0.4 seems fair."."""
"""Words of which the sentence of a score without another mark has at least one."""
_CONCLUSION = re.compile(
    r"(?:[:;]|\s-|\b(?:so|hence|thus|therefore|as it stands|as it is|as is|overall|altogether"
    r"|in total|all in all"
    r"|in the end|on balance))[,\s]{0,3}\Z",
    re.IGNORECASE,
)
_PIVOT = re.compile(
    r"\b(?:but|yet|however|so|hence|thus|therefore|which|that|overall|together|decides?|counts?|matters?|averages?|after"
    r"|then|final|finally|now|in\sthe\send|leav(?:es|ing)|makes|gives|goes?\sby)\b",
    re.IGNORECASE,
)
"""Between two numbers of which the second follows from the first or replaces it."""
_CONCLUSION_CHARS = 20
_ADJUSTED_CHARS = 120
"""Characters in front of words that replace a score, in which their sentence may say that they do not."""
_QUALIFIERS = frozenset({""}) | _words(
    "final overall total new revised corrected updated amended my the a an resulting assigned numeric "
    "numerical this"
)
"""Words before the label of the overall score."""
_OTHER_SCORES = _words(
    "sub partial interim preliminary intermediate draft max min top target required typical expected "
    "pass passing threshold cutoff default maximum minimum possible highest lowest cut-off old previous "
    "average mean median sample example last sample's example's year's week's judge's colleague's reviewer's "
    "author's peer self human student's initial first starting raw base original tentative "
    "provisional pending weight confidence temperature version probability baseline limit"
)
"""Words before the label of a number that is not the score."""


@cache
def _conclusion() -> re.Pattern[str]:
    """Return what may stand in front of the score that a sentence concludes with, up to that score."""
    introductions, statements, verdicts = (
        "|".join(pattern.pattern for pattern in phrases("conclusions", key))
        for key in ("introductions", "statements", "verdicts")
    )
    return re.compile(
        rf"(?:(?:\A|[;,:(]\s|\s-\s)\s{{0,2}}(?:(?:and|but|yet)\s)?(?:(?:{introductions})[,:]?\s{{1,3}}){{1,3}}(?:an?\s)?"
        rf"|(?:{statements})[,:]?\s{{0,3}}|(?:{verdicts})[:;]\s{{1,3}})\Z",
        re.IGNORECASE | re.VERBOSE,
    )


@dataclass(frozen=True, slots=True)
class _Number:
    """A word with digits."""

    word: str
    start: int
    end: int
    value: float | None
    """On the scale; `None` if it is not a number on the scale."""
    is_score: bool
    """Whether it is written like a score."""
    is_count: bool
    """Whether it counts or names something: step 1, 2 errors, item 3. of a list."""


@dataclass(frozen=True, slots=True)
class _Scale:
    low: float
    high: float

    def to_score(self, match: re.Match[str]) -> float | None:
        """Return a number, a fraction or a percentage as a score, or `None` if it is not on the scale."""
        value = float(match["number"])
        if match["percent"]:
            value = self.low + value / 100 * (self.high - self.low)
        elif match["of"] and float(match["of"]) != self.high:
            whole = float(match["of"])
            value = value / whole if (self.low, self.high) == (0, 1) and whole > 0 else math.nan
        return value if self.low <= value <= self.high else None

    def refusal(self, word: str) -> UnusableReplyError:
        """Return the error of a score that is not on the scale."""
        match = _SCORE.fullmatch(word)
        if match is not None and match["of"] and float(match["of"]) != self.high:
            return UnusableReplyError(f"the scale must end at {self.high:g}, got {match['of']}: {word!r:.80}")
        return UnusableReplyError(
            f"the score must be a number in [{self.low:g}, {self.high:g}], got {word!r:.80}"
        )


def find_score(text: str, low: float = 0.0, high: float = 1.0) -> float:
    """Find the score that a text without reasoning states, from `low` to `high`.

    In this order: the number after a label (`Score: 0.8`, `the rating is 4/5`), of which the last counts; a
    number alone on the first or last line; a number before a dash or a comma at the very beginning; the only
    number of the text, in a sentence that gives a score. `8/10` and `80%` are parts of the scale.

    Raises:
        UnusableReplyError: There is no score, it is not on the scale, or another number could be one.
    """
    reply = _Reply(asserted_reply(text), _Scale(low, high))
    chosen = reply.adjusted() or reply.labelled_number()
    chosen = chosen or reply.whole_line() or reply.leading() or reply.only() or reply.concluding()
    if chosen is None:
        raise UnusableReplyError(f"the reply states no score: {text.strip()[-80:]!r}")
    if chosen.value is None:
        raise reply.scale.refusal(chosen.word)
    return chosen.value


class _Reply:
    def __init__(self, text: str, scale: _Scale) -> None:
        self.scale = scale
        # Markup, notes and spellings are unified first, so that the patterns can be plain.
        text = _NOTE.sub(" ", text.replace("\\boxed", " ").replace("\uff1a", ": "))
        # The opening tag of a label is read as the label: "<score>" as "score:".
        text = _TAG.sub(
            lambda tag: f" {tag[2]}: " if not tag[1] and re.fullmatch(_LABELS, tag[2].casefold()) else " ",
            text,
        ).translate(_MARKUP)
        for pattern, spelling in _REWRITES:
            text = pattern.sub(spelling, text)
        self.text = text
        self.numbers = _numbers(self.text, scale)

    def adjusted(self) -> _Number | None:
        """Return the number with which a text of several ends, if it replaces the others or combines them."""
        scores = [number for number in self.numbers if number.is_score and not number.is_count]
        if not scores or scores[-1].value is None:
            return None
        last = scores[-1]
        cue = next((cue for cue in _ADJUSTED.finditer(self.text) if cue.end() == last.start), None)
        if cue is not None:
            near = self.text[max(0, cue.start() - _ADJUSTED_CHARS) : cue.start()]
            return None if _UNREAL.search(_SENTENCE.split(near)[-1]) else last
        if _OVERALL.match(self.text, last.end):
            return last  # "0.4 for style, 0.9 for content, 0.7 overall"
        is_combined = any(cue.end() == last.start for cue in _COMBINED.finditer(self.text))
        return last if is_combined and len(scores) > 2 else None  # noqa: PLR2004  (two criteria and the whole)

    def labelled_number(self) -> _Number | None:
        """Return the last number after a label."""
        # By position: a label and its number must touch.
        at = {number.start: number for number in self.numbers}
        labelled = [(label, at[label.end()]) for label in _LABEL.finditer(self.text) if label.end() in at]
        # Without a label the judge may still say the score in words.
        if not labelled:
            return self._given_by_judge(at)
        # "clarity score: 0.5" is not the score of the whole.
        labelled = [item for item in labelled if self._qualifier(item[0].start()) not in _OTHER_SCORES]
        if not labelled:
            return self._given_by_judge(at)
        if labelled[-1][1].is_count:
            return None
        label, chosen = labelled[-1]
        # Several labelled numbers that differ need one that is called the overall one.
        if self._qualifier(label.start()) not in _QUALIFIERS and any(
            _differ(number, chosen) for _, number in labelled
        ):
            raise UnusableReplyError("there are several scores, and none is the overall one")
        # Numbers in front of the label are reasoning; those behind it could correct it.
        self._refuse_rivals(chosen, [number for number in self.numbers if number.start > chosen.start])
        return chosen

    def _given_by_judge(self, at: Mapping[int, _Number]) -> _Number | None:
        """Return the last number that the judge gives in so many words: "I rate this 0.8"."""
        scores = [at[cue.end()] for cue in _GIVEN.finditer(self.text) if cue.end() in at]
        if not scores or scores[-1].is_count:
            return None
        self._refuse_rivals(
            scores[-1], [number for number in self.numbers if number.start > scores[-1].start]
        )
        return scores[-1]

    def whole_line(self) -> _Number | None:
        """Return the number that is the whole last line, or the whole first one."""
        if not self.numbers:
            return None
        first, last = self.numbers[0], self.numbers[-1]
        # The last line first: it is where a reply ends with its score.
        lines = [number for number in (last, first) if self._is_line(number)]
        if not lines:
            return None
        self._refuse_rivals(lines[0], self.numbers, counts=lines)
        return lines[0]

    def leading(self) -> _Number | None:
        """Return the number with which the text begins, if a punctuation mark or a reason follows it."""
        first = self.numbers[0] if self.numbers else None
        if first is None or self.text[: first.start].strip():
            return None
        after = self.text[first.end : first.end + 40]
        rest = after.lstrip(_STOPS)
        mark, word = after[:1] if rest != after else "", rest.split(maxsplit=1)[:1]
        joined = rest[:1].isspace() and word != [] and word[0].casefold() in _JOINING
        # "4. The answer ..." numbers a list; "4, because" and "0.4 - because" are scores.
        if not joined and (not mark or (first.word.isdecimal() and mark != ",")):
            return None
        if not first.is_score:
            return None
        self._refuse_rivals(first, self.numbers[1:])
        return first

    def only(self) -> _Number | None:
        """Return the only number of the text, if its sentence gives a score."""
        # "The maximum is 0.9. This gets 0.7.": numbers that are not scores are not rivals either.
        numbers = [
            number for number in self.numbers if not _OTHER_SCORES & set(self._words_before(number)[-3:])
        ]
        if len(numbers) != 1:
            return None
        (number,) = numbers
        # The words of the sentence decide: a number in an arbitrary sentence is not a score.
        before = set(self._words_before(number))
        if not number.is_score or number.is_count:
            return None
        rest = self.text[number.end :].strip(_STOPS + " \t\r\n")
        is_sentence = before <= _ADJECTIVES and rest in ("", "points", "point", "from me")
        is_stressed = bool(before & _STRESS) and all(classes_of(word) for word in before)
        is_subject = not before and _VERDICT.match(self.text, number.end) is not None
        is_given = bool(before & _GIVING) or GAP in self.text
        # A number behind a colon or "so" is the conclusion: "0.8 would be generous: 0.7".
        conclusion = _CONCLUSION.search(self.text, max(0, number.start - _CONCLUSION_CHARS), number.start)
        is_concluding = (
            conclusion is not None
            and not rest
            and (NO_SCORE in self.text or conclusion[0].strip(" ,").replace(" ", "").isalpha())
        )
        return number if is_concluding or is_given or is_sentence or is_stressed or is_subject else None

    def concluding(self) -> _Number | None:
        """Return the last number, if its sentence draws the conclusion and the numbers before lead to it."""
        scores = [number for number in self.numbers if number.is_score and not number.is_count]
        if not scores:
            return None
        last = scores[-1]
        ending = phrases("conclusions", "endings")[0].match(self.text, last.end)
        if ending is None:
            return None
        sentence = _SENTENCE.split(self.text[max(0, last.start - _ADJUSTED_CHARS) : last.start])[-1]
        is_subject = sentence.strip().casefold() in {"", "a", "an"} and ending["said"] is not None
        if not is_subject and _conclusion().search(sentence) is None:
            return None
        rivals = [
            number
            for number in scores[:-1]
            if _differ(number, last) and not _OTHER_SCORES & set(self._words_before(number)[-3:])
        ]
        if rivals and _PIVOT.search(self.text, rivals[-1].end, last.start) is None:
            return None
        return last

    def _is_line(self, number: _Number) -> bool:
        """Return whether a number fills the first or the last line."""
        before, after = (
            self.text[: number.start].rstrip(" \t\r"),
            self.text[number.end :].lstrip(_STOPS + " \t\r"),
        )
        is_line = before[-1:] in {"", "\n"} and after[:1] in {"", "\n"}
        return is_line and not (before.strip() and after.strip())

    def _refuse_rivals(
        self, chosen: _Number, numbers: Sequence[_Number], counts: Sequence[_Number] = ()
    ) -> None:
        for number in numbers:
            # A number of another criterion, or one that counts, is not a rival.
            is_other = bool(_OTHER_SCORES & set(self._words_before(number)[-3:]))
            is_rival = number in counts or not (number.is_count or is_other)
            if (
                is_rival
                and _differ(number, chosen)
                # One without a value is a rival if it is garbled: made like a number, and no score.
                and (
                    number.value is not None
                    or number in counts
                    or (not number.is_score and _NUMERIC.fullmatch(number.word) is not None)
                )
            ):
                raise UnusableReplyError(
                    f"{chosen.word!r:.40} and {number.word!r:.40} both could be the score; state one"
                )

    def _words_before(self, number: _Number) -> list[str]:
        """Return the words of the sentence before a number, from the last 200 characters."""
        near = self.text[max(0, number.start - 200) : number.start]
        if GAP in near:  # "Score: 0.5. No, 0.3": the label of a corrected score is that of the new one
            return _WORD.findall(near.casefold())
        return _WORD.findall(_SENTENCE.split(near)[-1].casefold())

    def _qualifier(self, start: int) -> str:
        """Return the word in front of a label: "clarity" of "clarity score"."""
        near = self.text[max(0, start - 40) : start].rpartition("\n")[2].rstrip(" -").casefold()
        word = re.search(r"[a-z]{1,40}(?:['’-][a-z]{1,40})?$", near)
        return "" if word is None else word[0]


def _numbers(text: str, scale: _Scale) -> list[_Number]:
    numbers: list[_Number] = []
    words = list(re.finditer(r"\S+", text))
    for index, word in enumerate(words):
        if not re.search(r"\d", word[0]):
            continue
        # Punctuation around a number is not part of it, but belongs to its position.
        bare = word[0].rstrip(_STOPS).lstrip(",;:!?'")
        start = word.start() + len(word[0].rstrip(_STOPS)) - len(bare)
        score = _SCORE.fullmatch(bare) or (_SCORE.fullmatch(f"{bare}.") if bare else None)
        numbers.append(
            _Number(
                word=bare,
                start=start,
                end=start + len(bare),
                value=None if score is None else scale.to_score(score),
                is_score=score is not None,
                is_count=bare.isdecimal() and _is_counting(text, words, index),
            )
        )
    return numbers


def _is_counting(text: str, words: Sequence[re.Match[str]], index: int) -> bool:
    word = words[index]
    earlier = words[index - 1][0].casefold().rstrip(_STOPS) if index else ""
    later = words[index + 1] if index + 1 < len(words) else None
    if earlier in _NUMBERED:
        return True
    # The last word of a line counts nothing.
    if later is None or "\n" in text[word.end() : later.start()]:
        return False
    if word[0][-1] in _STOPS:
        begins = index == 0 or "\n" in text[words[index - 1].end() : word.start()]
        return begins and word[0][-1] == "."
    return later[0][0].islower() and later[0].casefold() not in _JOINING


def _differ(number: _Number, other: _Number) -> bool:
    if number.value is None or other.value is None:
        return number.word != other.word
    return not math.isclose(number.value, other.value, rel_tol=0.0, abs_tol=1e-9)
