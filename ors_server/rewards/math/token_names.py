"""The closed tables of names that the lexer knows. A command that is in none of them is refused."""

from collections.abc import Mapping
from typing import Final


def names_by_word(words_by_name: Mapping[str, str]) -> dict[str, str]:
    """Return each word with its name, of names with their words, which are separated by spaces."""
    return {word: name for name, words in words_by_name.items() for word in words.split()}


def _same(names: str) -> dict[str, str]:
    return {name: name for name in names.split()}


def _all(names: str) -> frozenset[str]:
    return frozenset(names.split())


FUNCTIONS: Final = _same(
    "frac binom sqrt root sin cos tan sec csc cot sinh cosh tanh sech csch coth asin acos atan acot asinh "
    "acosh atanh log ln lg exp abs sgn floor ceil round gcd lcm max min det conj arg re im cbrt"
) | names_by_word(
    {
        "frac": "dfrac tfrac cfrac",
        "binom": "dbinom tbinom",
        "asin": "arcsin",
        "acos": "arccos",
        "atan": "arctan",
        "acot": "arccot",
        "asec": "arcsec",
        "acsc": "arccsc",
        "asinh": "arsinh arcsinh",
        "acosh": "arcosh arccosh",
        "atanh": "artanh arctanh",
        "csc": "cosec",
        "cot": "ctg",
        "tan": "tg",
        "ceil": "ceiling",
        "sgn": "sign",
        "re": "Re",
        "im": "Im",
        "gcd": "GCD",
        "lcm": "LCM",
    }
)
SET_FUNCTIONS: Final = _all(
    "sin cos tan cot csc sinh cosh tanh ln log lg exp arcsin arccos arctan gcd lcm det"
)
"""Functions whose names may be set as text."""
CONSTANTS: Final = _same("pi e i inf reals") | names_by_word(
    {
        "i": "I",
        "inf": "infty infinity",
        "empty": "emptyset varnothing",
        "reals": "mathbbR",
        "integers": "mathbbZ",
        "naturals": "mathbbN",
        "rationals": "mathbbQ",
        "complexes": "mathbbC",
    }
)
GREEK: Final = _same(
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron rho sigma tau "
    "upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega ell hbar partial "
    "nabla forall exists varpi imath jmath"
) | names_by_word(
    {
        "epsilon": "varepsilon",
        "theta": "vartheta",
        "phi": "varphi",
        "rho": "varrho",
        "sigma": "varsigma",
        "…": "ldots dots cdots dotsc dotsb vdots ddots",
    }
)
COMMANDS: Final = names_by_word(
    {
        "*": "cdot times ast star",
        "/": "div",
        "±": "pm",
        "∓": "mp",
        "∪": "cup bigcup",
        "∩": "cap bigcap",
        "∖": "setminus backslash smallsetminus",
        "⌊": "lfloor",
        "⌋": "rfloor",
        "⌈": "lceil",
        "⌉": "rceil",
        "{set": "lbrace",
        "}set": "rbrace",
        "[": "lbrack",
        "]": "rbrack",
        "(": "lparen",
        ")": "rparen",
        "⟨": "langle",
        "⟩": "rangle",
        "lbar": "lvert",
        "rbar": "rvert",
        "|": "vert",
        "mid": "mid",
        "‖": "lVert rVert Vert",
        "°": "degree",
        "mod": "bmod mod",
        "over": "over",
        "'": "prime",
        "%": "percent",
        "choose": "choose",
        "∠": "angle measuredangle",
        "△": "triangle",
        "sqrt": "sqrtsign",
    }
)
RELATIONS: Final = names_by_word(
    {
        "≤": "le leq leqslant leqq",
        "≥": "ge geq geqslant geqq",
        "<": "lt",
        ">": "gt",
        "≠": "ne neq",
        "∈": "in",
        "∉": "notin",
        "≈": "approx approxeq simeq doteq",
        "≡": "equiv",
        "∼": "sim",
        "≅": "cong",
        "→": "to rightarrow longrightarrow mapsto",
        "⇒": "Rightarrow implies",
        "⇔": "iff Leftrightarrow",
        "⊂": "subset",
        "⊆": "subseteq",
        "∥": "parallel",
        "⊥": "perp",
        "∝": "propto",
        ":": "colon",
    }
)
BINDERS: Final = _same("sum prod int lim limits")
ACCENTS: Final = _same("overline bar hat tilde widehat dot")
SEPARATORS: Final = names_by_word({"and": "wedge land", "or": "vee lor"})
LAYOUT: Final = _all(
    "left right big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr displaystyle textstyle "
    "scriptstyle quad "
    "qquad nonumber notag hspace vspace phantom label tag color textcolor limits nolimits mathit "
    "mathsf mathnormal "
    "boxed fbox vec overrightarrow underline mathbf boldsymbol bm pmb thinspace space allowbreak "
    "hfill small large Large hline displaylines bf it noindent"
)
ENVIRONMENTS: Final = names_by_word(
    {"matrix": "matrix pmatrix bmatrix Bmatrix smallmatrix array", "det": "vmatrix", "cases": "cases"}
)
"""Environments with a meaning; all others (align, gather, equation, …) are only layout."""
TEXT_COMMANDS: Final = _all(
    "text textbf textit textrm textsf texttt textnormal mathrm mbox hbox operatorname rm emph mathtt textup"
)
SHORT_WORDS: Final = _all(
    "is are was the for all no yes of in to an at as if it we not but odd one two six ten per day "
    "only and any min max "
    "has so by be or on up sum red set yes his her its out non nor due top add mod deg sec hrs hr"
)
"""Words of two or three letters that are never a product of letters."""
DOUBLES: Final = {
    "**": ("operator", "^"),
    "<=": ("relation", "≤"),
    "=<": ("relation", "≤"),
    ">=": ("relation", "≥"),
    "!=": ("relation", "≠"),
    "==": ("relation", "="),
    ":=": ("relation", "="),
    "=>": ("relation", "⇒"),
    "->": ("relation", "→"),
    "||": ("operator", "|"),
}
ESCAPED: Final = {
    "\\{": "{set",
    "\\}": "}set",
    "\\%": "%",
    "\\$": "$",
    "\\&": "&",
    "\\_": "_",
    "\\|": "‖",
    "\\#": "#",
}
FOREIGN: Final = {
    "或": ("separator", "or"),
    "或者": ("separator", "or"),
    "且": ("separator", "and"),
    "和": ("separator", "and"),
    "与": ("separator", "and"),
}
OPERATOR_WORDS: Final = {"mod": "mod", "times": "*", "degree": "°", "degrees": "°"}
