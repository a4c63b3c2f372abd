"""What a judge's reply asserts: without what it denies, quotes, asks or takes back. Pure."""

import re
import tomllib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from ors_server.rewards.reading.mentions import visible
from ors_server.rewards.reading.polarity import Polarity, words_of
from ors_server.rewards.reading.sentences import Span
from ors_server.rewards.reading.statements import Statement, read_statements

_DIGITS: Final = (
    r"(?<![^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])(?<!\.)[-+]?(?:\d[\d.,]{0,40}|\.\d{1,30})(?:[eE][-+]?\d{1,3})?"
    r"(?:\s{0,3}(?:/|out\sof)\s{0,3}\d{1,6}(?:\.\d{1,9})?|\s{0,2}%)?"
)
_NUMBER: Final = re.compile(_DIGITS)
_CLAIMED: Final = (
    r"\b(?:author|student|response|answer|candidate|submission|writer|user|prompt|solution|essay|text|he|she"
    r"|they|(?:another|other)\s(?:judges?|reviewers?|graders?)|colleagues?)\s{1,3}(?:\w{1,12}ly\s)?"
    r"(?:asks?|asked|demand(?:s|ed)?|wants?|wanted|request(?:s|ed)?|claim(?:s|ed)?|expect(?:s|ed)?|hope[sd]?"
    r"|insist(?:s|ed)?|begs?|begged|propose[sd]?|suggest(?:s|ed)?|computes?|computed|reports?|reported|says?"
    r"|said|states?|stated|finds?|found|gives|gave|has|had|uses?|quotes?|quoted)\b[^.;:\n]{0,40}?(?P<gone>NUMBER)"
)
_OF_ITSELF: Final = (
    r"\b(?:author|student|response|answer|candidate|submission|writer|user|prompt|solution|essay|text|he|she|they)"
    r"\s{1,3}(?:\w{1,12}ly\s)?(?:rates?|rated|scores?|scored|grades?|graded|gives?|gave|awards?|awarded|tries"
    r"|tried|attempts?|attempted|wishes|talks?|talked|instructs?|instructed|tells?|told|recommends?)"
    r"\s(?:[^.,;:\n]{0,30}?\s)?(?:him|her|it|them|me|us)(?:self|selves)?\b[^.,;:\n]{0,30}?(?P<gone>NUMBER)"
)
"""What the work says of itself: "the author rates himself 0.9", "the response talks me into 0.9"."""
_UNADJUSTED: Final = (
    r"\b(?:before|without|prior\sto)\s(?:(?:any|the|all)\s)?\w{3,20}(?:\s\w{3,20})?\s{0,2}[:=,]\s{0,3}"
    r"(?P<gone>NUMBER)"
)
"""What the author of the work, or another judge, says or wants: "the student demands 0.9"."""
_CONCEDED: Final = (
    r"\b(?:though|although|while|whereas|but)\s{1,3}(?:(?!i\b|we\b|it\b|this\b|(?:the|my|our|its)\s(?:\w{1,9}\s)?scores?\b)[a-z]{2,20}\s{1,3}){1,3}"
    r"(?:gives?|gave|says?|said|rates?|rated|scores?|scored|wants?|asks?)\b[^.;:\n]{0,30}?(?P<gone>NUMBER)"
)
_EXCESSIVE: Final = (
    r"(?P<gone>NUMBER)\s{1,3}(?:(?:is|was|seems|looks|feels|would\sbe)\s{1,3})?"
    r"(?:far\s|much\s|a\sbit\s)?too\s{1,3}[a-z]"
)
_DISOWNED: Final = (
    r"(?P<gone>NUMBER)[.;,\s]{1,4}(?:but\s)?(?:that|this|it)(?:\s(?:is|was)\snot|\s(?:is|was)n't)\s(?:my|the)"
    r"\s(?:final\s|real\s|actual\s)?(?:score|rating|grade|mark)\b"
)
_LAST_TIME: Final = (
    r"\b(?:last|previous)\s(?:time|year|week|month|term|round)\b[^.;:\n]{0,30}?(?P<gone>NUMBER)"
)
_FORMER: Final = (
    r"(?P<gone>NUMBER)(?<![.,])\s{1,3}(?:last\s(?:time|year|week|month|term|round)|previously|yesterday)\b"
)
_SHOWN: Final = (
    r"\b(?:author|student|response|answer|candidate|submission|prompt|solution|essay|text|line)\s(?:\w{1,12}ly\s)?"
    r"(?:contains|reads|says|states|includes|ends|closes|opens|begins|goes)\b[^.;:\n]{0,40}:\s{0,3}[\"'*]{0,3}"
    r"(?:[a-z]{3,12}(?::|\sis)?\s{1,3}){0,3}(?P<gone>NUMBER)"
)
"""What a heading says to be in the work: "The answer contains the following: Score: 0.9"."""
_WAS: Final = (
    r"\bwas\s(?P<gone>NUMBER)(?:,\s|\s)(?:before|until|till|up\sto|(?:(?:but|and)\s)?(?:is\s)?now)\b"
)
_OF_CROWD: Final = (
    r"(?P<gone>NUMBER)\s(?:by|on)\sthe\s(?:crowd|web|internet|public|users|readers|audience|class|other)\b"
)
_UNDUE: Final = (
    r"(?P<gone>NUMBER)\s(?:is|was|seems|looks|feels|would\sbe)\s(?:\w{1,12}ly\s)?"
    r"(?:un(?!disp|quest)\w{3,20}|indefensible|inappropriate|inflated|exaggerated|overgenerous|overstated)\b"
)
"""A score that is called undue: "a score of 0.9 is undeserved"."""
_REVISED: Final = (
    r"\((?:it\s)?(?:was|previously|formerly|before|originally|initially|up\sfrom|down\sfrom|instead\sof|not)\s"
    r"(?P<gone>NUMBER)\s?\)"
)
_DENIED: Final = (
    r"(?:[,;:(\u2013\u2014]\s{0,3}no|\b(?:pas|nicht|niet|nie|non|n\u00e3o|inte|ikke|\u043d\u0435))\s{1,3}"
    r"(?:un\s|de\s)?(?P<gone>NUMBER)"
)
"""A denial in another language, or one behind a comma: "Score: 0.8, no 0.3"."""
_CONSIDERED: Final = (
    r"\b(?:I|we)\s(?:had\s|first\s|also\s|briefly\s)?(?:considered|contemplated|weighed|hesitated\sat|toyed\swith"
    r"|(?:thought|(?:was|were)\sthinking)\s(?:of|about)|leaned\stowards?|(?:was|were)\stempted\s(?:by|to\s\w{2,12}"
    r"(?:\s(?:it|this|that|the\sscore))?(?:\s(?:up|down))?(?:\sto)?))"
    r"\s{1,3}(?:an?\s|giving\s(?:it\s|this\s)?)?(?P<gone>NUMBER)"
)
_CONSIDERED_NEXT: Final = (
    r"\b(?:thought|thinking|considered|weighed)\b[^.;\n]{0,40}?[,\s]\s?(?:and\s)?then\s"
    r"(?:(?:of|about)\s)?(?P<gone>NUMBER)"
)
_CRITERIA: Final = (
    r"(?P<gone>NUMBER)\sfor\s(?:(?:its|the)\s)?(?:style|content|accuracy|clarity|form|format|formatting|effort|grammar"
    r"|spelling|structure|tone|creativity|completeness|correctness|relevance|logic|length|wording|layout|originality)\b"
)
"""What one criterion gets: "0.4 for style"."""
_IDEAL: Final = (
    r"\b(?:an?|the)\s(?:ideal|perfect|model|complete|better|full|flawless|excellent|typical|weaker|stronger|longer"
    r"|shorter)\s(?:\w{1,20}\s){1,4}?(?P<gone>NUMBER)"
)
_OF_ANOTHER: Final = (
    r"\b(?:an?|some|other|most|many|every)\s(?:\w{2,12}\s)?(?:judge|reader|grader|reviewer|teacher|person|marker|examiner)s?"
    r"\s(?:(?:would|might|may|could|will)\s)?(?:also\s)?\w{2,8}\s{1,3}(?P<gone>NUMBER)"
)
"""What another judge would say: "a lenient judge would say 0.9"."""
_REACHABLE: Final = (
    r"\b(?:might|could|would|may)\s(?:reach|rise\sto|get\sto|climb\sto|go\sup\sto)\s{1,3}(?P<gone>NUMBER)"
)
_DEDUCTED: Final = (
    r"\b(?:start(?:ing|s|ed)?\s(?:from|at|with)|deduct(?:s|ed|ing)?|subtract(?:s|ed|ing)?|tak(?:e|es|ing)\s(?:off|away)"
    r"|los(?:es|t|ing)|minus|dock(?:s|ed|ing)?|knock(?:s|ed|ing)?\soff)\s{1,3}(?:it\s)?(?P<gone>NUMBER)"
)
"""What a score begins with, and what is taken from it: "I deduct 0.3 for the missing proof"."""
_PARTIAL: Final = (
    r"(?:\bfor\s(?:(?:its|the)\s)?[a-z]{3,20}\s(?:alone|only)\b[^.;:\n]{0,40}?"
    r"|\b(?:half|part|section|paragraph|third|sentence)\s(?:\w{1,12}ly\s)?(?:deserves?|gets?|earns?|merits?|receives?|scores?"
    r"|is\sworth)\s{1,3}(?:an?\s)?"
    r"|\b(?:usually|typically|normally|generally|often|commonly)\s(?:gets?|receives?|scores?|earns?|deserves?|merits?"
    r"|(?:is|are)\s(?:given|awarded|worth))\s{1,3}(?:an?\s)?)(?P<gone>NUMBER)"
)
"""What a part of the work gets, or what work of its kind usually does."""
_UNREACHED: Final = (
    r"(?:\b(?:would|will|can|could|do|shall)\snot|n['\u2019]t|\bcannot|\bwon['\u2019]t|\bnever)\s(?:quite\s)?"
    r"(?:go|stretch|rise|climb)\s(?:\w{1,12}\s){0,3}(?P<gone>NUMBER)"
)
_PROVISIONAL: Final = (
    r"(?P<gone>NUMBER)\s?[(\[](?:placeholder|dummy|example|sample|draft|tbd|tbc|to\sbe\s(?:\w{1,12}))[)\]]"
)
_EXEMPLARY: Final = (
    r"(?:\A|\n|[.!]\s)[*#\s]{0,4}(?:example|sample|template|format|expected\sformat)(?:\s\w{1,12}){0,2}\s?:[^.\n]{0,30}?"
    r"(?P<gone>NUMBER)"
)
_NEGATED_LABEL: Final = (
    r"(?:\b(?:never|not|cannot|hardly|no\sway|(?:wrong|unfair|unjust|absurd|silly|foolish|premature|misleading"
    r"|inappropriate|a\smistake|an\serror)\sto)|n['\u2019]t)\s[^.,;:\n]{0,30}\b(?:score|rating|grade|mark|verdict)"
    r"\s{0,2}[:=]\s{0,3}(?P<gone>NUMBER)"
)
"""A label within a denial: "I would never give Score: 0.9"."""
_CONDITIONAL: Final = r"(?P<gone>NUMBER)\s(?:if|provided|assuming)\s(?:you|one|we)\b(?!\sask)"
_NOT_SCORES: Final = tuple(
    re.compile(pattern.replace("NUMBER", _DIGITS), re.IGNORECASE)
    for pattern in (
        _CLAIMED,
        _OF_ITSELF,
        _UNADJUSTED,
        _CONCEDED,
        _FORMER,
        _REVISED,
        _SHOWN,
        _WAS,
        _OF_CROWD,
        _UNDUE,
        _DENIED,
        _DISOWNED,
        _CONSIDERED,
        _IDEAL,
        _OF_ANOTHER,
        _REACHABLE,
        _DEDUCTED,
        _CONDITIONAL,
        _PARTIAL,
        _CRITERIA,
        _CONSIDERED_NEXT,
        _LAST_TIME,
        _UNREACHED,
        _PROVISIONAL,
        _EXEMPLARY,
        _NEGATED_LABEL,
    )
)
_SCORE_NOUN: Final = r"(?:score|rating|grade|mark|verdict|number|figure)"
_VOIDED: Final = re.compile(
    rf"\b(?:that|this|the|my|its)\s(?:\w{{1,12}}\s)?{_SCORE_NOUN}(?:\sabove|\sI\sgave|\sthere)?\s(?:no\slonger\b"
    r"|belong(?:s|ed)\sto\s(?:the\sprevious|another|a\sdifferent|the\sother)"
    r"|(?:is|was|seems?|looks?|feels?|should|must|has)\b[^.;\n]{0,30}?\b(?:meaningless|invalid|void|wrong|mistaken|unfair"
    r"|unjust|provisional|placeholder|obsolete|outdated|withdrawn|ignored|disregarded|discarded|deleted|premature|random"
    r"|mistake|slip|misprint|typo|not\s(?:valid|final|mine|meant|right|correct|fair|reliable|be)|no\slonger"
    r"|for\sanother|for\sthe\sprevious))"
    r"|\bI\s(?:(?!not\b|never\b)\w{1,9}\s){0,3}(?:withdraw|retract|revoke|rescind|cancel|take\sback|delete|void)"
    r"\s(?:this|that|the|my|it)\b"
    r"|\bI\s(?:was|have\sbeen|had\sbeen|am)\s(?:\w{1,12}\s)?(?:grading|judging|scoring|rating|reading|marking|looking\sat)"
    r"\s(?:the\swrong|another|a\sdifferent|the\sother)\b"
    r"|\bI\s(?:\w{1,12}\s)?(?:graded|scored|judged|rated|read|pressed|hit|typed|marked|opened)\b[^.;\n]{0,20}"
    r"\b(?:the\swrong|by\smistake|by\saccident)\b"
    r"|\b(?:needs?|requires?|awaits?)\s(?:a|another)\s(?:second\s|third\s|other\s)?(?:reader|grader|judge|opinion)\b"
    r"|\bscore\s(?:is\s)?(?:to\sbe\s(?:determined|decided|confirmed|announced)|still\sopen|tbd|pending)\b"
    r"|\bwhich\sis\s(?:far\s|much\s)?(?:more|less|higher|lower)\sthan\s(?:it|this|the\s\w{1,20})\s(?:deserves|merits|earns"
    r"|is\sworth)\b"
    rf"|\b(?:this|that|it)\s(?:was|is)\s(?:(?:meant|intended)\s)?(?:the\s{_SCORE_NOUN}\s(?:of|for)\s(?:the\s(?:other|previous|last)"
    r"|another|a\sdifferent)|for\s(?:another|a\sdifferent|the\s(?:other|wrong|previous)))\b"
    rf"|\bI\s(?:have|need|ought|am\sgoing|intend|want|plan|will|must|should)(?:\sto)?\s(?:revise|lower|raise|reconsider|rethink"
    rf"|reduce|increase|change|redo|recompute)\s(?:it|that|(?:this|the|my)(?:\s{_SCORE_NOUN})?)\s{{0,2}}[.!]"
    r"|\b(?:this|that|it)\s(?:(?:needs|has|ought)\sto\sbe\s(?:lowered|raised|revised|reduced|reconsidered)"
    r"|should\sbe\s(?:much\s|a\sbit\s|a\slittle\s)?(?:lower|higher))\b"
    r"|\bspoke\stoo\ssoon\b|\bdon\Wt\scount\s(?:it|this|that)\b|\bnot\smy\sfinal\s(?:word|score|verdict|answer)\b"
    r"|\b(?:and|I|but)\s(?:now\s)?regret\s(?:it|that|this)\b"
    r"|\bI\s(?:leave|left)\s(?:the|this|that|it)\b[^.;\n]{0,30}\b(?:to|for)\b"
    r"|\blet\sme\s(?:reconsider|rethink)\b|\bask\s(?:someone|somebody)\selse\b"
    r"|\bno\slonger\ssure\b"
    r"|\b(?:treat|regard|consider|count)\s(?:it|this|that)\sas\s(?:a\s)?(?:blank|void|empty|missing|withdrawn|deleted"
    r"|pending|provisional|placeholder|draft|joke|guess)\b"
    r"|\b(?:graded|scored|wrote|gave|judged|rated|marked)\s(?:it|this|that)\sbefore\b"
    r"|\bI\s(?:need|have|want|ought)\sto\s(?:look|check|see|read|consult|verify|think)\b[^.;\n]{0,40}\b(?:first|before)\b"
    r"|\bI\s(?:have\snot|haven't|did\snot|didn't)\s(?:yet\s)?(?:look|read|see|seen|consider|finish|assess)(?:ed)?\b"
    r"|[;,.]\s(?:in\sfact\s|make\sit\s)?(?:much\s|far\s|slightly\s)?(?:higher|lower)\s{0,3}(?:[.!]|\Z)",
    re.IGNORECASE,
)
"""Says that the score in front of it does not hold, without another one."""
_REPLACED_BY: Final = re.compile(
    rf"\b(?:score|rating|grade|mark|verdict)\W{{1,6}}(?P<gone>{_DIGITS})\s{{0,3}}(?:->|=>|\u2192|\u21d2)\s{{0,3}}(?=[-+.]?\d)",
    re.IGNORECASE,
)
"""A score that an arrow replaces: "Score: 0.4 \u2192 0.7"."""
_SET_ASIDE: Final = re.compile(
    r"\b(?:ignor|disregard|dismiss|reject|resist|overlook)(?:e|es|ed|s|ing)?\s"
    r"(?:it|that|this|them|(?:the|this|that|its|such)\s[a-z ]{1,40}?)(?=\sand\s)"
    r"|\bI\s(?:\w{1,12}ly\s)?(?:disagree|beg\sto\sdiffer|(?:don['\u2019]t|do\snot)\sagree)(?=\s{0,2}[:;,\u2013\u2014-])",
    re.IGNORECASE,
)
"""What a judge does with a request in the work, before it scores: "I ignore that and give 0.7"."""
_TOO_MUCH: Final = re.compile(_EXCESSIVE.replace("NUMBER", _DIGITS), re.IGNORECASE)
_WORK: Final = r"(?:answers?|response|submission|solution|work|text|essay|reply|question)"
_REFUSAL: Final = re.compile(
    r"(?:\b(?:cannot|can't|can\snot|couldn't|could\snot|won't|will\snot|unable\sto|not\sable\sto|refuse\sto"
    r"|decline\sto|rather\snot)\s{1,3}(?:really\s|fairly\s|reliably\s|properly\s)?"
    r"(?:score|judge|grade|rate|assess|evaluate|mark|decide|choose|(?:give|assign|state)\s(?:it\s|this\s)?(?:an?y?\s)?"
    rf"(?:score|rating|grade|mark))(?:\s{{1,3}}(?:this|it|that|(?:the|this)\s{_WORK}))?\s{{0,3}}(?=[.,;:!)\n\u2013\u2014]|\Z)"
    r"|\b(?<!not )(?<!n't )abstain\b)",
    re.IGNORECASE,
)
_STATED: Final = re.compile(
    r"\b(?:score|rating|grade|verdict)[*_]{0,2}\s{0,3}[:=][*_]{0,2}\s{0,3}\Z", re.IGNORECASE
)
_LABEL: Final = re.compile(r"\b(?:score|rating|reward|grade|mark|verdict)s?\b", re.IGNORECASE)
_QUOTATION: Final = re.compile(r"[\"“«„][^\"“”«»„\n]{1,400}[\"”»“]")
_QUOTED_LINE: Final = re.compile(r"(?m)^[ \t]{0,3}>[^\n]*")
_FENCED: Final = re.compile(r"(?m)^[ \t]{0,3}```[^\n]{0,40}\n(?:(?!```).)*?^[ \t]{0,3}```", re.DOTALL)
_LEAD: Final = re.compile(
    r"(?i)\b(?:answer|response|author|student|text|prompt|solution|submission|candidate|he|she|they|it)\b[^\n]{0,80}:\s*\Z"
)
_TOO: Final = re.compile(r"(?i)\btoo\b")
_PAST: Final = re.compile(r"(?i)\b(?:would|could|should|might)\s+have\b")
_WOULD: Final = re.compile(r"(?i)[ \t]{1,3}(?:would|might|could)\b")
_SENTENCE: Final = re.compile(r"[.!?](?=\s)|\n")
_UNREAL: Final = re.compile(
    r"(?i)\b(?:if|had)\b.{0,80}\b(?:had|were|was|been|\w{2,20}ed)\b.{0,80}\bwould\b"
    r"|\A\s*were\b.{0,80}(?:\bwould|['\u2019]d)\b"
)
_REMARK_CHARS: Final = 40
_OF_WORK: Final = re.compile(
    r"\b(?:student|author|candidate|submission|text|essay|response|user|prompt)(?:['\u2019]s)?\s(?:\w{1,12}\s){0,3}?"
    r"(?:contains?|includes?|outputs?|wrote|writes|ends\swith|JSON|object|claims?|says?|reads?|states?)[\s:,]{0,4}"
    r"(?:```\w{0,8}\s{0,4})?\Z",
    re.IGNORECASE,
)
"""Says in front of an object that it is in the judged work: "The student's own JSON: {...}"."""
_NOT_MINE: Final = re.compile(
    r"\s{0,2}[,;(]?\s{0,2}(?:which|but|that)\s(?:I\s(?:\w{1,12}\s)?(?:ignore|disregard|reject|dismiss|discard)|is\snot\smine)",
    re.IGNORECASE,
)
GAP: Final = "\ufffc"
"""Replaces a number that is denied or taken back, so that its label goes to the next number."""
NO_SCORE: Final = "\ufffb"
"""Replaces a number that is not asserted for another reason."""
_REPLACED: Final = frozenset({Polarity.DENIED, Polarity.RETRACTED})
_LEAD_CHARS: Final = 160
_ITS_OWN: Final = words_of(
    "the answer answers response responses solution solutions result score scores rating grade mark overall"
)
"""Words for the judged work (that it is wrong does not deny the score), and for the score."""
_GONE: Final = frozenset(
    {
        *(Polarity.DENIED, Polarity.BOUNDED, Polarity.ASKED, Polarity.SUPPOSED),
        *(Polarity.QUOTED, Polarity.RETRACTED, Polarity.HEDGED),
    }
)


_PHRASES: Final[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("score_phrases.toml").read_text(encoding="utf-8")
)


def _compile(text: str) -> re.Pattern[str]:
    while (part := re.search(r"\{([a-z]+)\}", text)) is not None:
        text = text.replace(part[0], _PHRASES["parts"][part[1]])
    return re.compile(text.replace("<NUMBER>", f"(?P<gone>{_DIGITS})"), re.IGNORECASE | re.VERBOSE)


@cache
def phrases(table: str, key: str = "patterns") -> tuple[re.Pattern[str], ...]:
    """Return the patterns of a table of `score_phrases.toml`."""
    return tuple(_compile(text) for text in _PHRASES[table][key])


def asserted_reply(text: str) -> str:
    """Return a reply in plain text with a blank for every number that it does not assert."""
    text = visible(text)
    spans = [(match.start(), match.start() + len(match[0].rstrip(".,"))) for match in _NUMBER.finditer(text)]
    read = text
    for pattern in (_SET_ASIDE, *phrases("unread")):
        read = pattern.sub(lambda aside: " " * len(aside[0]), read)  # of the same length
    statements = read_statements(read, spans, neutral=_ITS_OWN)
    has_others = any(item.polarity is Polarity.ASSERTED for item in statements)
    remarks, *_ = phrases("remarks")
    gone = [
        item
        for item in statements
        if item.polarity in _GONE
        # "The proof is not complete" is about the work, and takes no number back.
        and not (item.polarity is Polarity.RETRACTED and remarks.match(text, item.end))
        and not (has_others and _is_rival(text, item))
    ]
    denied = [(item.start, item.end) for item in gone if item.polarity in _REPLACED]
    retracted = [(item.start, item.end) for item in gone if item.polarity not in _REPLACED]
    not_scores = (*_NOT_SCORES, *phrases("not_scores"))
    retracted += [match.span("gone") for pattern in not_scores for match in pattern.finditer(text)]
    taken_back = (_VOIDED, *phrases("taken_back"))
    voided = max((match.start() for pattern in taken_back for match in pattern.finditer(text)), default=0)
    retracted += [(start, end) for start, end in spans if start < voided]
    blanks = dict.fromkeys((*retracted, *_quotations(text), *_find_refused(text, spans)), NO_SCORE)
    denied += [
        match.span("gone")
        for pattern in (_TOO_MUCH, _REPLACED_BY, *phrases("replaced"))
        for match in pattern.finditer(text)
    ]
    return _blank_out(text, blanks | dict.fromkeys(denied, GAP))


def _find_refused(text: str, numbers: Sequence[Span]) -> Iterator[Span]:
    """Yield the numbers of a reply that refuses to score, but for a score that it states behind that."""
    refusal = next(iter(deque(_REFUSAL.finditer(text), 1)), None)
    if refusal is None:
        return
    for start, end in numbers:
        is_stated = _STATED.search(text[max(0, start - _REMARK_CHARS) : start]) is not None
        if start < refusal.start() or not is_stated:
            yield start, end


def is_asserted(text: str, span: Span) -> bool:
    """Return whether a reply asserts the object at a span."""
    if _OF_WORK.search(text[max(0, span[0] - _LEAD_CHARS) : span[0]]) or _NOT_MINE.match(text, span[1]):
        return False
    (statement,) = read_statements(text, [span], neutral=_ITS_OWN)
    return statement.polarity not in _GONE


def _is_rival(text: str, statement: Statement) -> bool:
    """Whether a number under a condition could be the score: "With sources it would be 0.9"."""
    is_past = _PAST.search(text, max(0, statement.start - _REMARK_CHARS), statement.start) is not None
    is_fault = _TOO.search(text, statement.end, statement.end + _REMARK_CHARS) is not None
    is_subject = _WOULD.match(text, statement.end) is not None
    sentence = _SENTENCE.split(text[max(0, statement.start - _LEAD_CHARS) : statement.start])[-1]
    is_unreal = _UNREAL.search(sentence) is not None
    is_open = not is_fault and not is_past and not is_subject and not is_unreal
    return statement.polarity is Polarity.SUPPOSED and is_open


def _quotations(text: str) -> Iterator[Span]:
    """Yield the parts of a reply that quote a labelled score, unless they are all of it."""
    parts = [*_QUOTATION.finditer(text), *_QUOTED_LINE.finditer(text)]
    parts += [
        part
        for part in _FENCED.finditer(text)
        if _LEAD.search(text[max(0, part.start() - _LEAD_CHARS) : part.start()])
    ]
    for part in parts:
        outside = text[: part.start()] + text[part.end() :]
        if _LABEL.search(part[0]) is not None and any(char.isalpha() for char in outside):
            yield part.span()


def _blank_out(text: str, blanks: Mapping[Span, str]) -> str:
    texts: list[str] = []
    position = 0
    for start, end in sorted(blanks):
        texts.append(text[position : max(position, start)])
        if end > position:
            # A full stop or a comma behind the number belongs to the sentence.
            number = text[start:end]
            texts.append(f" {blanks[start, end]} {number[len(number.rstrip('.,')) :]}")
        position = max(position, end)
    return "".join([*texts, text[position:]])
