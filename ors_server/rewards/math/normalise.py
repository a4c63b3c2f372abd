"""Normalises text before it is parsed: one spelling for variants of Unicode, markdown and broken escapes.

Everything here keeps the meaning. Conventions (percent signs, units, prefixes) are left to the comparison.
"""

import re
import unicodedata
from typing import Final

from ors_server.rewards.math.token_names import VOCABULARY

_SUPERSCRIPTS: Final = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱˣʸᵃᵇᵏᵐ", "0123456789+-=()nixyabkm", strict=True))
_SUBSCRIPTS: Final = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₒₓₙₖₘᵢⱼ", "0123456789+-=()aeoxnkmij", strict=True))


def _pair(key: str) -> dict[int, str]:
    """Read `sign command sign command …`."""
    words = VOCABULARY["plain"][key].split()
    return {ord(sign): f"\\{name} " for sign, name in zip(words[::2], words[1::2], strict=True)}


_TABLE: Final[dict[int, str]] = (
    _pair("greek_signs")
    | _pair("signs")
    | dict.fromkeys(map(ord, "−–—‐‑‒﹣－⁃"), "-")
    | dict.fromkeys(map(ord, "÷⁄∕／"), "/")
    | dict.fromkeys(map(ord, "∗＊"), "*")
    | dict.fromkeys(map(ord, "“”„‟«»"), '"')
    | dict.fromkeys(map(ord, "‘’‛′ʹ´"), "'")
    | dict.fromkeys(
        map(
            ord, "\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
        ),
        " ",
    )
    | dict.fromkeys(
        map(
            ord,
            "\u00ad\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2061\u2062\u2063\u2066\u2067\u2068\u2069\ufeff",
        ),
        "",
    )
    | {
        ord("∛"): "\\sqrt[3]",
        ord("∜"): "\\sqrt[4]",
        ord("″"): "''",
        ord("。"): ". ",
        ord("、"): ", ",
        ord("ℝ"): "\\mathbb{R}",
        ord("ℤ"): "\\mathbb{Z}",
        ord("ℕ"): "\\mathbb{N}",
        ord("ℚ"): "\\mathbb{Q}",
        ord("ℂ"): "\\mathbb{C}",
    }
)
_RUNS: Final = re.compile(f"([{''.join(_SUPERSCRIPTS)}]+)|([{''.join(_SUBSCRIPTS)}]+)")
_CIRCLED: Final = re.compile("[①-⑳]{2,}")
"""Numbers of statements side by side, which are a list."""
_EATEN: Final = (
    ("\x0crac", "\\frac"),
    ("\x0c", " "),
    ("\x08oxed", "\\boxed"),
    ("\x08egin", "\\begin"),
    ("\x08inom", "\\binom"),
    ("\text{", "\\text{"),
    ("\times", "\\times"),
    ("\tfrac", "\\tfrac"),
    ("\rightarrow", "\\rightarrow"),
)
"""Commands whose first letter became an escape in a string literal: a form feed for that of `frac`."""
_DOUBLED: Final = re.compile(r"\\\\(?=[A-Za-z({\[|,;!)}\]%$])")
_DEGREES: Final = re.compile(r"\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![A-Za-z])|o(?![A-Za-z]))")
_GAPPED: Final = re.compile(r"(?<=\d)[ ]?\{[ ]?,[ ]?\}[ ]?(?=\d{3}(?!\d))")
"""The comma that groups digits, between braces and spaces."""
_BASES: Final = {
    name: number
    for number, name in enumerate(("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"), 2)
} | {"twelve": 12, "sixteen": 16}
_NAMES: Final = "|".join(_BASES)
_NAME: Final = rf"(?:in )?base[\s~-]*(\d{{1,2}}|{_NAMES})"
_BASE: Final = re.compile(
    rf"(?<=[\dA-F])(?:\s|\\[ ,;])*(?:\\(?:text|mathrm)\s*\{{[\s~]*\(?{_NAME}\)?[\s~]*\}}|"
    rf"\({_NAME}\)|{_NAME})(?=\s*(?:[.,;$}}\\)]|\Z))"
)
"""The base after a numeral: `204 (base 5)`."""
_BRACKETED: Final = re.compile(
    r"(?<![A-Za-z\\\d.}\])])(?:\\left ?)?\( ?([A-F]{0,8}\d[\dA-F]{0,63}) ?(?:\\right ?)?\)"
    r" ?_ ?(\{ ?\d{1,2} ?\}|\d)"
)
"""A numeral in brackets with its base: `(204)_5`."""
_SPELLED_BASE: Final = re.compile(rf"(?<=\d)_\{{\\(?:text|mathrm)\{{({_NAMES})()()\}}\}}", re.IGNORECASE)
_UNIT_FRACTION: Final = re.compile(
    r"\\[dt]?frac\{(\\(?:text|mathrm)\{[^{}]*\}(?:\^\{?\d\}?)?)\}\{(\\(?:text|mathrm)\{[^{}]*\}(?:\^\{?\d\}?)?)\}"
)
"""A unit that is set as a fraction of two."""
_MOD: Final = re.compile(r"\\(?:mathrm|text|operatorname)\s*\{[\s~]*mod[\s~]*\}(?:\s|~|\\[ ,;])*")
_IN_MODULUS: Final = re.compile(r"\(\s*(?:\\b?mod|mod)(?![A-Za-z])\s*([^()]{1,20})\)")
_US: Final = re.compile(r"\bUS(?=\s?\\?\$\s?\d)")
_ORDINAL: Final = re.compile(
    r"(\d(?<![\w.]\d)\d{0,3})(?:(?:st|nd|rd|th)\b|\^\{?(?:\\(?:text|mathrm)\{)?(?:st|nd|rd|th)\b\}{0,2})"
)
_OPEN_SYSTEM: Final = re.compile(r"\\left\s*(?:\\\{|\\lbrace)\s*(?=\\begin)")
_ROW_END: Final = re.compile(r"(?<=[\s\w)}])[.;]\s*(?=\\\\|\\end)")
"""Punctuation at the end of a row."""
_NEGATED: Final = re.compile(r"\\not\s*(=|\\in(?![A-Za-z]))")
_UNION: Final = re.compile(r"(?<=[)\]}])(\s*)U\s*(?=\\left|\\\{|[(\[{])")
"""The letter U as the sign of a union between two brackets."""
_LOOSE: Final = re.compile(r"(?<![a-z0-9]) | (?![a-z0-9])")
"""A space that separates no words."""
_CLOSING_MARK: Final = re.compile(r"[.,;:? ]+\Z")
_EXCLAIMED: Final = re.compile(r"[a-z][a-z ,'.-]{2,}[!']+")
"""Punctuation after an answer; not a factorial, a prime or the point of `.5`."""
_FENCES: Final = (
    ("$$", "$$"),
    ("$", "$"),
    ("\\(", "\\)"),
    ("\\[", "\\]"),
    ("**", "**"),
    ("`", "`"),
    ('"', '"'),
    ("__", "__"),
)
_EDGE: Final = " \t\r\n.,;:"


def unify(text: str) -> str:
    """Spell Unicode as the LaTeX and ASCII that the lexer reads, and repair escapes."""
    if not text.isascii():
        text = _CIRCLED.sub(
            lambda run: ", ".join(unicodedata.normalize("NFKC", sign) for sign in run[0]), text
        )
        text = _RUNS.sub(_script, text)
        text = text.translate(_TABLE)
        text = text.translate({ord(char): _fold(char) for char in set(text)})
    if "\x08" in text or "\x0c" in text or "\t" in text or "\r" in text:
        for eaten, command in _EATEN:
            text = text.replace(eaten, command)
    if "\\\\" in text:
        # In an environment, a double backslash ends a row, unless the environment itself has one.
        if "\\\\begin" in text:
            text = text.replace("\\\\", "\\")
        elif "\\begin" not in text:
            text = _DOUBLED.sub(lambda _: "\\", text)
    if "\\n" in text:
        text = re.sub(r"\\n(?![A-Za-z])", "\n", text.replace("\\n\\n", "\n\n"))
    return _unify_commands(_unify_words(text))


def _subscribe(base: re.Match[str]) -> str:
    number = base[1] or base[2] or base[3]
    return f"_{{{_BASES.get(number.casefold(), number)}}}"


def _unify_words(text: str) -> str:
    if "{mod" in text or "{ mod" in text:
        text = _MOD.sub(r"\\bmod ", text)
    if "mod" in text:
        text = _IN_MODULUS.sub(r"\\pmod{\1}", text)
    if "_{\\" in text:
        text = _SPELLED_BASE.sub(_subscribe, text)
    if "base" in text:
        text = _BASE.sub(_subscribe, text)
    if ")_" in text or ") _" in text:
        text = _BRACKETED.sub(r"\1_\2", text)
    if "US" in text:
        text = _US.sub("", text)
    if "frac{\\" in text:
        text = _UNIT_FRACTION.sub(r"\1/\2", text)
    text = _ORDINAL.sub(r"\1", text)
    return _GAPPED.sub("{,}", text) if "{" in text else text


def _unify_commands(text: str) -> str:
    if "\\left" in text:
        text = _OPEN_SYSTEM.sub(" ", text)
    if "\\begin" in text:
        text = _ROW_END.sub(" ", text)
    if "\\not" in text:
        text = _NEGATED.sub(lambda sign: "\\ne " if sign[1] == "=" else "\\notin ", text)
    if "U" in text:
        text = _UNION.sub(r"\1\\cup ", text)
    if "\\circ" in text or "^o" in text:
        text = _DEGREES.sub(r"\\degree ", text)
    return text


def unfence(text: str) -> str:
    """Remove what surrounds a whole answer: delimiters, emphasis, quotes, a full stop."""
    before = ""
    while before != text:
        before = text
        text = _strip_edges(text)
        for opening, closing in _FENCES:
            if not (text.startswith(opening) and text.endswith(closing)):
                continue
            inner = text[len(opening) : len(text) - len(closing)]
            if len(text) > len(opening + closing) and closing not in inner:
                text = inner
                break
    return text


def plain(text: str) -> str:
    """Reduce an answer in words to lower case, single spaces, no quotes, no closing punctuation."""
    text = re.sub(
        r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox|textnormal|operatorname)\s*\{", "{", text
    )
    text = re.sub(r"\\(?:left|right|displaystyle|[ ,;:!]|quad|qquad)(?![A-Za-z])", " ", text)
    text = re.sub(r"[{}$\"*`\\]", "", text)
    text = " ".join(text.replace("dfrac", "frac").replace("tfrac", "frac").casefold().split())
    text = _LOOSE.sub("", text).strip(" ,;:?")
    text = _CLOSING_MARK.sub("", text).lstrip("' ")
    return text.rstrip("!'") if _EXCLAIMED.fullmatch(text) else text


def _strip_edges(text: str) -> str:
    bare = text.strip()
    is_decimal = bare.startswith(".") and bare[1:2].isdigit()
    text = (
        bare.rstrip(_EDGE) if is_decimal else bare.strip(_EDGE if not bare.startswith(".") else " \t\r\n,;:")
    )
    return text[:-1] if text.endswith("\\") and not text.endswith("\\\\") else text


def _script(match: re.Match[str]) -> str:
    if match[1]:
        return "^{" + "".join(_SUPERSCRIPTS[char] for char in match[1]) + "}"
    return "_{" + "".join(_SUBSCRIPTS[char] for char in match[2]) + "}"


def _fold(char: str) -> str:
    if char.isascii():
        return char
    digit = unicodedata.digit(char, None)
    if digit is not None and unicodedata.category(char) == "Nd":
        return str(digit)
    if unicodedata.category(char) == "No" and "⁄" in (folded := unicodedata.normalize("NFKC", char)):
        top, bottom = folded.split("⁄")
        return f"\\frac{{{top}}}{{{bottom}}}"
    folded = unicodedata.normalize("NFKC", char)
    return folded if folded.isascii() else char
