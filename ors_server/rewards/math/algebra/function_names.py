"""Names of special functions in answers."""

from typing import Final

from ors_server.rewards.math.token_names import names_by_word

CALLED: Final = {
    **{name: (function, 1) for name, function in names_by_word("called").items()},
    **{name: (function, 2) for name, function in names_by_word("called_with_two").items()},
}
"""Names before a bracket, with the number of arguments that make them these functions."""
INDEXED: Final = names_by_word("indexed")
"""Names whose index is the first argument: `J_0(x)`."""
SPELLED: Final = ("erfc", "erfi", "erf", "Si", "Ci", "Ei", "Li", "li", "sinc", "digamma", "trace", "Tr", "tr")
"""Names of several letters, which the lexer must not take for a word, a unit or a product."""
SIGNS: Final = {chr(0x1200 + index): name for index, name in enumerate(SPELLED)}
"""One sign for each of them, which replaces it before the text is cut into tokens."""
SPECIAL: Final = frozenset(
    {name for name, _ in CALLED.values()} | set(INDEXED.values()) | {"harmonic", "factorial2"}
) - {"binom"}
"""The functions that the fast comparison does not know."""
