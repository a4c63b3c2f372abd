r"""Removes the decoration of an answer: markdown, HTML, marks, rows of equations. Pure.

`*129*`, `<b>129</b>`, `# 129`, `129 ✓`, `\begin{align*} T &= 129 \end{align*}` and "one hundred twenty-nine
(129)" are all 129. Text that is struck through (`~~129~~`, `<del>`, `\cancel{129}`) is removed with what it
holds.
"""

import re
from typing import Final

from ors_server.rewards.math.everyday import spelled_number
from ors_server.rewards.reading.struck_text import struck_regions

_STRUCK_NOTE: Final = re.compile(
    r"(?m)^[^\n]{0,200}\n{0,2}[ \t]{0,4}[(\[](?:struck|crossed|scratched)(?: out| through| off)?[)\]][ "
    r"\t.]{0,4}$",
    re.IGNORECASE,
)
_HTML: Final = re.compile(
    r"</?(?:b|i|u|em|strong|p|div|span|mark|ins|code|center|big|small|tt|sup|font|li|ul|ol|"
    r"h[1-6])(?:\s[^<>\n]{0,80})?>",
    re.IGNORECASE,
)
_TEXT_COMMAND: Final = re.compile(
    r"\\(?:textbf|textit|textrm|textsc|emph|underline|(?:sub){0,2}section\*?|paragraph\*?)"
    r"\{([A-Za-z][A-Za-z .:,-]{0,60})\}"
)
"""A heading or emphasised words, which are read as a line or a part of one."""
_BREAK: Final = re.compile(r"<br\s{0,2}/?>", re.IGNORECASE)
_COMMENT: Final = re.compile(r"<!--.{0,2000}?-->", re.DOTALL)
_UNCHECKED: Final = re.compile(r"(?m)^[ \t]*(?:[-*+]|\d{1,3}[.)])?[ \t]*(?:\[ \]|\u2610)[^\n]*$")
"""A choice that is not ticked: "- [ ] 41"."""
_CHECKED: Final = re.compile(r"(?m)^[ \t]*(?:[-*+]|\d{1,3}[.)])?[ \t]*(?:\[[xX]\]|[\u2611\u2612])[ \t]*")
_RULE: Final = re.compile(r"(?m)^[ \t]*[-=~*]{3,}[ \t]*$")
_BULLET: Final = re.compile(r"(?m)^[ \t]{0,8}- (?=[\d$\\][^\n:]{0,40}: [a-z])")
"""The mark of an item with a verdict: "- 42: correct"."""
_HASH_HEADING: Final = re.compile(
    r"(?im)^[ \t]{0,4}#{4,6}[ \t]{1,4}(?=(?:the )?(?:final )?(?:answer|result|solution|value):?[ \t]*\n)"
)
"""A heading of the fourth level, which is not GSM8K's mark of an answer."""
_INVISIBLE: Final = re.compile(
    r"\\verb\|[^|\n]{0,200}\||\\[vh]space\*?\{[^{}\n]{0,40}\}|\\href\{[^{}\n]{0,300}\}"
)
_THEREFORE: Final = re.compile(
    r"(\\boxed\{|\\\[|\\\(|\$|\A)\s*(?:\\therefore(?![A-Za-z])|\u2234)\s*(?:\\[;:,! ])?\s*"
)
_FORMULA_TEXT: Final = re.compile(
    r"\$\s*\\text\s?\{([^{}$]{0,80}[A-Za-z]{2}[^{}$]{0,80})\}\s*([^$\s?][^$?]{0,200})\$"
)
"""A formula that begins with words: `$\\text{The total is } 42$`."""
_FORMULA_REMARK: Final = re.compile(r"\\q?quad\s*\\text\s?\{([^{}$]{1,80})\}\s*(?=\$|\\\])")
_FORMULA_END: Final = re.compile(r"(\$\$[^$]{1,400}?)\s*[.,;]\s*(?=\$\$)|\s*[.,;]\s*(?=\\\])")
"""Punctuation at the end of a displayed formula."""
_SPOKEN_DASH: Final = re.compile(
    r"\s?[\u2013\u2014]\s?(?=[A-Za-z]{2})|(?<=[a-z]{2})\s?[\u2013\u2014]\s?(?=[\w$])"
)
"""A dash next to a word, which is not a minus sign."""
_LONG_DASH: Final = re.compile(r"(?<=[\w$.)]) (?:--|\u2014) (?=[\d$])")
_CALCULATION: Final = re.compile(r"<<[^<>\n]{0,200}>>")
"""The calculator's annotations of GSM8K: `<<2*3=6>>6`."""
_EMPHASIS: Final = re.compile(
    r"(?<![\w*\\])(\*{1,3}|_{1,3}|={2,3})(?=[^\s*_=])([^*_=\n]{1,200}?|[^*\n]{1,200}?)(?<=[^\s*_])\1(?![\w*])"
)
_HEADING: Final = re.compile(r"(?m)^[ \t]{0,4}(?:#{1,3}(?!#)[ \t]{1,4}|>[ \t]{1,4}(?=\D))")
_QUOTE_MARK: Final = re.compile(r"(?<=\n)[ \t]{0,4}>[ \t]{1,4}(?=\S)")
"""The mark of a quoted line behind another one; alone it may be a relation."""
_ARROW: Final = re.compile(
    r"(?m)^[ \t$]{0,4}(?:=>|->|→|⇒|\\to\b|\\(?:R|r|Longr)ightarrow\b|\\implies\b|\\therefore\b|∴)[ "
    r"\t$]{0,4}(?=\S)"
)
_MARKS: Final = re.compile(
    "(?![👎🚫⛔❌❎✖✗✘])[\u2705\u2713\u2714\ufe0f\u25a0\u25a1\u220e\U0001f300-\U0001faff\u2600-\u26ff]|"
    "\\$?\\\\(?:blacksquare|square|qed|checkmark)(?![A-Za-z])\\$?"
)
"""Check marks, ends of proofs, pictures."""
_MARK_COMMANDS: Final = ("\\blacksquare", "\\square", "\\qed", "\\checkmark")
_ALIGNED: Final = re.compile(
    r"\\begin\{(align|aligned|eqnarray|gather|gathered|split|multline|"
    r"equation)(\*?)\}(.{0,4000}?)\\end\{\1\2\}",
    re.DOTALL,
)
_ROW: Final = re.compile(r"\\\\(?:\[[^\]\n]{0,10}\])?|\\(?=\s*&)")
_WITH_NUMERAL: Final = re.compile(
    r"\b((?:[A-Za-z]+[- ]){0,8}[A-Za-z]+)\s?\((-?\d[\d,]*)\)|(?<![\w.])(-?\d[\d,]*)\s?\(((?:[A-Za-z]+[- "
    r"]){0,8}[A-Za-z]+)\)"
)
_IN_BRACKETS: Final = re.compile(r"\((?:-?\d[\d,]*|(?:[A-Za-z]+[- ]){0,8}[A-Za-z]+)\)")
_MINUS: Final = re.compile(r"\b(?:minus|negative)\s(?=\$?\d)", re.IGNORECASE)
_LEAD: Final = re.compile(
    r"\A\s*(?:(?:so|thus|hence|therefore|then|finally|ok|okay|well|yes)\b[,:.]?\s+)?(?:"
    r"(?:the\s+)?(?:final\s+|correct\s+)?answer\s+(?:is|would be|must be)|"
    r"(?:say|choose|take|pick|answer|write)(?=\s+[-\d$\\])|"
    r"(?:it|that|this|there|here)(?:'s| is| are| equals| makes| gives| comes to)|"
    r"(?:i\.?e\.?|namely|viz\.?),?|"
    r"(?:i|we)(?:'ve| have| will| would|'d|'ll)?\s+(?:get|got|gets|have|had|find|found|obtain|obtained|"
    r"say|choose|chose|"
    r"pick|answer|conclude|compute|computed))"
    r"(?:\s+(?:that|the answer is|exactly|just|precisely|indeed|then|now|therefore|thus|simply|equal to|"
    r"it is|it's)\b)*"
    r"\s+(?=\S)",
    re.IGNORECASE,
)
_LABELLED: Final = re.compile(
    r"\A\s*\*{0,2}(?:i\.e\.?|namely|in words|in figures|in digits|a|ans|answer|result|final answer|"
    r"solution|final|"
    r"total|right|correct|yes)\s?\*{0,2}\s?[:=]\s?\*{0,2}\s*(?=\S)",
    re.IGNORECASE,
)
_QUOTED: Final = re.compile(r"(?<![\w'])'(?=[-\d$\\(])([^'\n]{1,80})'(?![\w'])")
_ANSWERED: Final = re.compile(
    r"(?i)\b((?:the )?(?:final )?answer)(?:'s|\s{0,2}(?:->|=>|\\to\b|\\(?:R|r)ightarrow\b|-(?=\s)))\s{0,2}"
)
_DENIAL: Final = (
    r"not|never|no|wrong|false|incorrect|isn['’]t|cannot|can['’]t|anything but|more than|less than|at most|"
    r"at least|over|under"
)
_MARKED_DENIAL: Final = re.compile(rf"(\*{{1,3}}|_{{1,3}})((?:is )?(?:{_DENIAL}))\1", re.IGNORECASE)
"""A denial that is emphasised."""
_CALLED_DENIAL: Final = re.compile(r"\b(not|false|wrong)\((?=[-$\d\\])", re.IGNORECASE)
"""A denial that is written as a function."""
_DASH: Final = re.compile(
    r"(?<![\w\\])((?!(?:sin|cos|tan|log|ln|exp|times|plus|minus)\b)[A-Za-z]{2,}) - (?=[$\d])"
)
_EMPTY: Final = re.compile(r"\$[ \t]+\$[ ,;]*(?=\$)")
"""What is left of a formula that was struck out."""
_TEXT_LEAD: Final = re.compile(
    r"\\(?:text|mathrm|textbf)\s?\{\s*(?:(?:the|final|answer|is|so|result)[ :]*){1,5}\}", re.IGNORECASE
)
_ROUNDS: Final = 3


def without_struck(text: str) -> str:
    """Remove what is struck through, with its marks."""
    regions = struck_regions(text)
    if regions:
        ends = [0, *(end for _, end in regions)]
        starts = [*(start for start, _ in regions), len(text)]
        text = " ".join(text[end:start] for end, start in zip(ends, starts, strict=True))
    return _STRUCK_NOTE.sub("", text) if "out)" in text or "out]" in text or "through" in text else text


_ANSWER_TAG: Final = re.compile(r"\[answer\](?=.{1,400}\[/answer\])|\[(/)answer\]", re.IGNORECASE | re.DOTALL)


_STEPS: Final = (
    (("$",), _EMPTY, " "),
    (("<!--",), _COMMENT, ""),
    (("<<",), _CALCULATION, ""),
    (("<",), _BREAK, "\n"),
    (("<",), _HTML, ""),
    (("\\verb", "space{", "\\href"), _INVISIBLE, ""),
    (("\\",), _TEXT_COMMAND, r"\1: "),
    (("\\therefore", "\u2234"), _THEREFORE, r"\1"),
    (("$$", "\\]"), _FORMULA_END, r"\1"),
    (("\\text",), _FORMULA_REMARK, ""),
    (("\\text",), _FORMULA_TEXT, r"\1 $\2$"),
    (("[ ]", "\u2610"), _UNCHECKED, ""),
    (("[x]", "[X]", "\u2611", "\u2612"), _CHECKED, ""),
    (("---", "===", "***", "~~~"), _RULE, ""),
    (("####",), _HASH_HEADING, ""),
    (("#", ">"), _HEADING, ""),
    ((">",), _QUOTE_MARK, ""),
)
"""Signs of which a text has one, the pattern that removes them, and what takes their place; in order."""


def space_dashes(text: str) -> str:
    """Set dashes between words apart from minus signs, which have the same form later."""
    if not text.isascii():
        text = _SPOKEN_DASH.sub(" - ", text)
    return _LONG_DASH.sub("; ", text) if " -- " in text or "\u2014" in text else text


def undress(text: str) -> str:
    """Remove markdown, HTML, marks, and environments of equations around answers."""
    text = without_struck(text)
    if "[/" in text:
        text = _ANSWER_TAG.sub(lambda tag: "</answer>" if tag[1] else "<answer>", text)
    if "nswer" in text or "&nbsp" in text:
        text = _ANSWERED.sub(r"\1: ", text.replace("&nbsp;", " "))
    if "\\begin" in text:
        text = _ALIGNED.sub(_join_rows, text)
    for signs, pattern, replacement in _STEPS:
        for sign in signs:
            if sign in text:
                text = pattern.sub(replacement, text)
                break
    if not text.isascii() or any(map(text.__contains__, _MARK_COMMANDS)):
        text = _MARKS.sub(" ", text)
    if text.count("\n- ") + text.startswith("- ") > 1:
        text = _BULLET.sub("", text)
    if "*" in text or "_" in text or "==" in text:
        text = _without_emphasis(_MARKED_DENIAL.sub(r"\2", text))
    if not text.isascii() or ">" in text or "\\" in text:
        text = _ARROW.sub("", text)
    return _undress_values(text)


def _undress_values(text: str) -> str:
    """Remove quotation marks, words and signs around values."""
    if "'" in text:
        text = _QUOTED.sub(r"\1", text)
    if "\\t" in text or "\\m" in text:
        text = _TEXT_LEAD.sub("", text)
    if "(" in text:
        if _IN_BRACKETS.search(text) is not None:
            text = _WITH_NUMERAL.sub(_digits_if_agreeing, text)
        text = _CALLED_DENIAL.sub(r"\1 (", text)
    if " - " in text:
        text = _DASH.sub(r"\1 – ", text)
    return _MINUS.sub("-", text) if "minus" in text or "egative" in text else text


def _without_emphasis(text: str) -> str:
    for _ in range(_ROUNDS):
        text, count = _EMPHASIS.subn(_unemphasise, text)
        if not count:
            break
    return text


def without_lead(text: str) -> str:
    """Remove the words in front of a bare answer: "It's 96", "I get 96", "Answer: 96"."""
    return _LEAD.sub("", _LABELLED.sub("", text, count=1), count=1)


def _unemphasise(match: re.Match[str]) -> str:
    # Two asterisks mark the answer for the search in running text, which reads them.
    marks, content = match[1], match[2]
    if marks == "**" or (marks == "*" and not (content[0].isalnum() or content[0] in "$-\\(.")):
        return match[0]
    return (
        f"**{content}**"
        if marks in ("***", "___", "__", "==", "===") and len(match.string) > len(match[0]) + 2
        else content
    )


def _join_rows(match: re.Match[str]) -> str:
    rows = [row.replace("&", " ").strip(" \n\t,.") for row in _ROW.split(match[3])]
    joined = ""
    for row in filter(None, rows):
        joined += f" {row}" if row.startswith("=") or not joined else f", {row}"
    return f"${joined.strip()}$"


def _digits_if_agreeing(match: re.Match[str]) -> str:
    """Return the digits of a number that is written in words and in digits, if both agree."""
    words, digits = (match[1], match[2]) if match[2] is not None else (match[4], match[3])
    parts = words.split(" ")
    for start in range(len(parts)):
        if spelled_number(" ".join(parts[start:])) == int(digits.replace(",", "")):
            before = " ".join(parts[:start])
            return f"{before} {digits}".strip()
    return match[0]
