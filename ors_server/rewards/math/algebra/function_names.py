"""Names of special functions in answers."""

from typing import Final

CALLED: Final = {
    "Gamma": ("gamma", 1),
    "zeta": ("zeta", 1),
    "psi": ("digamma", 1),
    "Psi": ("digamma", 1),
    "digamma": ("digamma", 1),
    "B": ("beta", 2),
    "Beta": ("beta", 2),
    "beta": ("beta", 2),
    "W": ("lambertw", 1),
    "eta": ("altzeta", 1),
    "C": ("binom", 2),
    "P": ("permutations", 2),
    "erf": ("erf", 1),
    "erfc": ("erfc", 1),
    "erfi": ("erfi", 1),
    "Si": ("si", 1),
    "Ci": ("ci", 1),
    "Ei": ("ei", 1),
    "li": ("li", 1),
    "sinc": ("sinc", 1),
    "tr": ("trace", 1),
    "trace": ("trace", 1),
    "Tr": ("trace", 1),
}
"""Names before a bracket, with the number of arguments that make them these functions."""
INDEXED: Final = {
    "J": "besselj",
    "Y": "bessely",
    "I": "besseli",
    "K": "besselk",
    "Li": "polylog",
    "P": "legendre",
    "T": "chebyt",
    "U": "chebyu",
    "psi": "polygamma",
}
"""Names whose index is the first argument: `J_0(x)`."""
SPELLED: Final = ("erfc", "erfi", "erf", "Si", "Ci", "Ei", "Li", "li", "sinc", "digamma", "trace", "Tr", "tr")
"""Names of several letters, which the lexer must not take for a word, a unit or a product."""
SIGNS: Final = {chr(0x1200 + index): name for index, name in enumerate(SPELLED)}
"""One sign for each of them, which replaces it before the text is cut into tokens."""
SPECIAL: Final = frozenset(
    {name for name, _ in CALLED.values()} | set(INDEXED.values()) | {"harmonic", "factorial2"}
) - {"binom"}
"""The functions that the fast comparison does not know."""
