"""The closed tables of names that the lexer knows. A command that is in none of them is refused.

Names with other spellings stand in `vocabulary.toml`.
"""

import tomllib
from pathlib import Path
from typing import Any, Final

VOCABULARY: Final[dict[str, dict[str, Any]]] = tomllib.loads(
    Path(__file__).with_name("vocabulary.toml").read_text(encoding="utf-8")
)


def names_by_word(table: str) -> dict[str, str]:
    """Return each word of a table of the vocabulary with its name."""
    return {word: name for name, words in VOCABULARY[table].items() for word in words.split()}


def _same(names: str) -> dict[str, str]:
    return {name: name for name in names.split()}


def _all(names: str) -> frozenset[str]:
    return frozenset(names.split())


def _tokens(table: str) -> dict[str, tuple[str, str]]:
    return {sign: (kind, value) for sign, (kind, value) in VOCABULARY[table].items()}


FUNCTIONS: Final = _same(
    "frac binom sqrt root sin cos tan sec csc cot sinh cosh tanh sech csch coth asin acos atan acot asinh "
    "acosh atanh log ln lg exp abs sgn floor ceil round gcd lcm max min det conj arg re im cbrt"
) | names_by_word("functions")
SET_FUNCTIONS: Final = _all(
    "sin cos tan cot csc sinh cosh tanh ln log lg exp arcsin arccos arctan gcd lcm det"
)
"""Functions whose names may be set as text."""
CONSTANTS: Final = _same("pi e i inf reals") | names_by_word("constants")
GREEK: Final = _same(
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron rho sigma tau "
    "upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega ell hbar partial "
    "nabla forall exists varpi imath jmath"
) | names_by_word("greek")
COMMANDS: Final = names_by_word("commands")
RELATIONS: Final = names_by_word("relations")
BINDERS: Final = _same("sum prod int lim limits")
ACCENTS: Final = _same("overline bar hat tilde widehat dot")
SEPARATORS: Final = names_by_word("separators")
LAYOUT: Final = _all(
    "left right big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr displaystyle textstyle "
    "scriptstyle quad "
    "qquad nonumber notag hspace vspace phantom label tag color textcolor limits nolimits mathit "
    "mathsf mathnormal "
    "boxed fbox vec overrightarrow underline mathbf boldsymbol bm pmb thinspace space allowbreak "
    "hfill small large Large hline displaylines bf it noindent"
)
ENVIRONMENTS: Final = names_by_word("environments")
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
DOUBLES: Final = _tokens("doubles")
ESCAPED: Final[dict[str, str]] = VOCABULARY["escaped"]
FOREIGN: Final = _tokens("foreign")
OPERATOR_WORDS: Final = {"mod": "mod", "times": "*", "degree": "°", "degrees": "°"}
