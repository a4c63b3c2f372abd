"""Takes a prompt apart: its sentences and its formulas, which an agent can give back as an answer."""

import re

MAX_SENTENCES = 3
MAX_FORMULAS = 3
_MAX_CHARACTERS = 20_000
"""Of a prompt that is read."""
_SENTENCE_END = re.compile(r"(?<=[.!?:])\s+|\n+")
_LATEX = re.compile(
    r"\$\$([^$]{1,400})\$\$|\$([^$\n]{1,400})\$|\\\(([^\n]{1,400}?)\\\)|\\\[(.{1,400}?)\\\]", re.DOTALL
)
_PLAIN = re.compile(r"[\w.()]{1,40}(?: ?(?:[-+*/^\u00d7\u00f7\u00b7=]|\*\*) ?[\w.()]{1,40}){1,20}")
"""Terms with operators between them, such as `17 + 26` or `x^2 - 1`."""


def sentences_of(prompt: str) -> list[str]:
    """Return the first sentences of a prompt with more than one word, without the white space around them."""
    parts = (part.strip() for part in _SENTENCE_END.split(prompt[:_MAX_CHARACTERS]))
    return list(dict.fromkeys(part for part in parts if " " in part))[:MAX_SENTENCES]


def formulas_of(prompt: str) -> list[str]:
    """Return formulas of a prompt, in order: those in LaTeX, else terms with a digit and an operator."""
    # The patterns are bounded, so that no prompt can keep them busy.
    text = prompt[:_MAX_CHARACTERS]
    formulas = [
        next(group for group in match.groups() if group is not None) for match in _LATEX.finditer(text)
    ]
    # Terms only where the prompt has no LaTeX: parts of its formulas would match as terms.
    if not formulas:
        formulas = [match[0] for match in _PLAIN.finditer(text) if any(sign.isdigit() for sign in match[0])]
    stripped = (formula.strip().rstrip(".=?").strip() for formula in formulas)
    return list(dict.fromkeys(formula for formula in stripped if formula))[:MAX_FORMULAS]
