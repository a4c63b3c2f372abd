"""The closed tables of names that the lexer knows. A command that stands in none of them is refused."""

from typing import Final


def _same(names: str) -> dict[str, str]:
    return {name: name for name in names.split()}


def _all(names: str) -> frozenset[str]:
    return frozenset(names.split())


FUNCTIONS: Final = _same(
    "frac binom sqrt root sin cos tan sec csc cot sinh cosh tanh sech csch coth log ln exp abs floor "
    "ceil round gcd lcm "
    "max min det conj arg re im"
) | {
    "dfrac": "frac",
    "tfrac": "frac",
    "cfrac": "frac",
    "dbinom": "binom",
    "tbinom": "binom",
    "arcsin": "asin",
    "asin": "asin",
    "arccos": "acos",
    "acos": "acos",
    "arctan": "atan",
    "atan": "atan",
    "arccot": "acot",
    "acot": "acot",
    "arcsec": "asec",
    "arccsc": "acsc",
    "arsinh": "asinh",
    "asinh": "asinh",
    "arcsinh": "asinh",
    "arcosh": "acosh",
    "acosh": "acosh",
    "arccosh": "acosh",
    "artanh": "atanh",
    "atanh": "atanh",
    "arctanh": "atanh",
    "ceiling": "ceil",
    "lg": "lg",
    "cosec": "csc",
    "ctg": "cot",
    "tg": "tan",
    "cbrt": "cbrt",
    "sgn": "sgn",
    "sign": "sgn",
    "Re": "re",
    "Im": "im",
    "GCD": "gcd",
    "LCM": "lcm",
}
SET_FUNCTIONS: Final = _all(
    "sin cos tan cot csc sinh cosh tanh ln log lg exp arcsin arccos arctan gcd lcm det"
)
"""Functions whose names may be set as text."""
CONSTANTS: Final = {
    "pi": "pi",
    "e": "e",
    "i": "i",
    "I": "i",
    "infty": "inf",
    "infinity": "inf",
    "inf": "inf",
    "emptyset": "empty",
    "varnothing": "empty",
    "mathbbR": "reals",
    "reals": "reals",
    "mathbbZ": "integers",
    "mathbbN": "naturals",
    "mathbbQ": "rationals",
    "mathbbC": "complexes",
}
GREEK: Final = _same(
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron rho sigma tau "
    "upsilon phi chi psi "
    "omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega ell hbar partial nabla forall exists"
) | {
    "varepsilon": "epsilon",
    "vartheta": "theta",
    "varphi": "phi",
    "varrho": "rho",
    "varsigma": "sigma",
    "varpi": "varpi",
    "imath": "imath",
    "jmath": "jmath",
    "ldots": "…",
    "dots": "…",
    "cdots": "…",
    "dotsc": "…",
    "dotsb": "…",
    "vdots": "…",
    "ddots": "…",
}
COMMANDS: Final = {
    "cdot": "*",
    "times": "*",
    "ast": "*",
    "star": "*",
    "div": "/",
    "pm": "±",
    "mp": "∓",
    "cup": "∪",
    "bigcup": "∪",
    "cap": "∩",
    "bigcap": "∩",
    "setminus": "∖",
    "backslash": "∖",
    "smallsetminus": "∖",
    "lfloor": "⌊",
    "rfloor": "⌋",
    "lceil": "⌈",
    "rceil": "⌉",
    "lbrace": "{set",
    "rbrace": "}set",
    "lbrack": "[",
    "rbrack": "]",
    "lparen": "(",
    "rparen": ")",
    "langle": "⟨",
    "rangle": "⟩",
    "lvert": "lbar",
    "rvert": "rbar",
    "vert": "|",
    "mid": "mid",
    "lVert": "‖",
    "rVert": "‖",
    "Vert": "‖",
    "degree": "°",
    "bmod": "mod",
    "mod": "mod",
    "over": "over",
    "prime": "'",
    "percent": "%",
    "choose": "choose",
    "angle": "∠",
    "measuredangle": "∠",
    "triangle": "△",
    "sqrtsign": "sqrt",
}
RELATIONS: Final = {
    "le": "≤",
    "leq": "≤",
    "leqslant": "≤",
    "leqq": "≤",
    "ge": "≥",
    "geq": "≥",
    "geqslant": "≥",
    "geqq": "≥",
    "lt": "<",
    "gt": ">",
    "ne": "≠",
    "neq": "≠",
    "in": "∈",
    "notin": "∉",
    "approx": "≈",
    "approxeq": "≈",
    "simeq": "≈",
    "doteq": "≈",
    "equiv": "≡",
    "sim": "∼",
    "cong": "≅",
    "to": "→",
    "rightarrow": "→",
    "longrightarrow": "→",
    "mapsto": "→",
    "Rightarrow": "⇒",
    "implies": "⇒",
    "iff": "⇔",
    "Leftrightarrow": "⇔",
    "subset": "⊂",
    "subseteq": "⊆",
    "parallel": "∥",
    "perp": "⊥",
    "propto": "∝",
    "colon": ":",
}
BINDERS: Final = {"sum": "sum", "prod": "prod", "int": "int", "lim": "lim", "limits": "limits"}
ACCENTS: Final = _same("overline bar hat tilde widehat dot")
SEPARATORS: Final = {"wedge": "and", "land": "and", "vee": "or", "lor": "or"}
LAYOUT: Final = _all(
    "left right big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr displaystyle textstyle "
    "scriptstyle quad "
    "qquad nonumber notag hspace vspace phantom label tag color textcolor limits nolimits mathit "
    "mathsf mathnormal "
    "boxed fbox vec overrightarrow underline mathbf boldsymbol bm pmb thinspace space allowbreak "
    "hfill small large Large hline displaylines bf it noindent"
)
ENVIRONMENTS: Final = {
    "matrix": "matrix",
    "pmatrix": "matrix",
    "bmatrix": "matrix",
    "Bmatrix": "matrix",
    "smallmatrix": "matrix",
    "array": "matrix",
    "vmatrix": "det",
    "cases": "cases",
}
"""Environments that mean something; all others (align, gather, equation, …) only lay out."""
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
