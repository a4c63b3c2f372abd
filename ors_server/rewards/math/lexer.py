r"""Tokens of LaTeX and plain mathematics.

A token is `(kind, value, is_spaced)`; `is_spaced` tells whether white space precedes it. Kinds: `number`,
`letter`, `function`, `constant`, `word`, `separator`, `relation`, `operator`, `binder` (sum, prod, int, lim),
`accent` and `environment`. Layout commands (`\left`, `\displaystyle`, `\quad`) leave nothing but a space.

What holds: each character is read once, from left to right, and a token depends only on the tokens before it
and on a short look ahead; only the contents of `\text{...}` are read again, as deep as the depth limit. A
command that no table knows is an error, never skipped: it could change the value.
"""

import re
from collections.abc import Callable
from typing import Final

from ors_server.rewards.math.letter_runs import is_in_formula, is_term_end, unit_pieces
from ors_server.rewards.math.limits import DEPTH, DIGITS, TOKENS, LimitError, SyntaxUnknownError
from ors_server.rewards.math.scanner import Scanner, Token
from ors_server.rewards.math.token_names import (
    ACCENTS,
    BINDERS,
    COMMANDS,
    CONSTANTS,
    DOUBLES,
    ENVIRONMENTS,
    ESCAPED,
    FOREIGN,
    FUNCTIONS,
    GREEK,
    LAYOUT,
    OPERATOR_WORDS,
    RELATIONS,
    SEPARATORS,
    SET_FUNCTIONS,
    SHORT_WORDS,
    TEXT_COMMANDS,
)
from ors_server.rewards.math.units import CURRENCIES, CURRENCY_CODES, LONE_LETTERS, MIXED, WORDS

# A number with groups of three digits; `%s` takes the gaps that may be between them. The digits of an index
# end at the gap: `\log_2 128`.
_GROUPED: Final = r"(?<![_^])\d{1,3}(?:(?:%s)\d{3})+(?!\d)(?:\.\d+)?"
_GAP: Final = r"\{,\}|\{,\\!\}|,\\!\s?|\\,|\\!|\\;|\\:|\\ |~|\ "
# The order matters: `coded` comes before `number`, or `0x1F` would be 0 and letters; `double` before
# `single`, or `<=` would be two signs.
_REST: Final = r"""
  |(?P<coded>0x[0-9a-fA-F]+(?!\w)|0b[01]+(?!\w)|0o[0-7]+(?!\w)|\d(?=\d{0,15}[A-F])[0-9A-F]{1,15}(?=_(?:1[1-6]|\{1[1-6]\})))
  |(?P<number>(?:\d+(?:_\d{3})+(?!\d)|\d+)(?:\.\d+|\.(?=\\(?:overline|bar|dot)))?(?:[eE][+-]?\d+(?![\w.]))?|\.\d+(?:[eE][+-]?\d+)?)
  |(?P<space>(?:\s|~|\\[ ,;:!>]|\\\n)+)
  |(?P<command>\\[A-Za-z]+)
  |(?P<row>\\\\(?:\[[^\]]*\])?)
  |(?P<escaped>\\[{}%$#&_|])
  |(?P<run>[A-Za-z]+|(?:(?![A-Za-z])[^\W\d_])+)
  |(?P<double>\*\*|<=|>=|=<|=>|!=|==|:=|->|\.\.\.+|\|\|)
  |(?P<single>.)
"""
# Both meanings of the comma are compiled: in `1,234` it groups digits or separates two values.
_PATTERNS: Final = tuple(
    re.compile("(?P<grouped>" + _GROUPED % gap + ")" + _REST, re.VERBOSE | re.DOTALL)
    for gap in (_GAP, _GAP + "|,")
)
_SINGLES: Final = frozenset("+-*/^_!%()[]{}|':&")
_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz"
_INNER: Final = re.compile(r"[\d\\()$^+=<>{]")
_OPERAND: Final = re.compile(r"\s*[\d(\\]")
_LONE: Final = re.compile(r"\s*[A-Za-z](?![A-Za-z])")
_ARGUMENT: Final = re.compile(r"\s*(?:[({^_]|\\(?!text|\)|\])|[A-Za-z](?![A-Za-z]))")
"""What follows the name of a function, and not a unit."""
_TIMES: Final = re.compile(r"(?:\s|\\[ ,;:])*\d")
_POWER_OF_TEN: Final = re.compile(r"\s*10\s*(?:\^|\*\*)")
_GLUED: Final = re.compile(r"([A-Za-z]{1,2})(sqrt|sin|cos|tan|ln|log|exp)")
"""Letters before the name of a function, `xsqrt(2)`."""
_SEPARATOR_WORDS: Final = frozenset({"and", "or"})


def lex(text: str, *, is_comma_in_numbers: bool = True, is_formula: bool = False) -> list[Token]:
    """Cut an answer, already unified, into tokens.

    `is_comma_in_numbers` makes `1,234` one number (else it is two); `is_formula` makes letters that may be a
    unit or a word factors.

    Raises:
        LimitError: The answer has more tokens or digits than the grader parses.
        SyntaxUnknownError: Something in it is not a token.
    """
    return _Lexer(text, is_comma_in_numbers=is_comma_in_numbers, is_formula=is_formula).run()


class _Lexer(Scanner):
    def __init__(self, text: str, *, is_comma_in_numbers: bool, is_formula: bool, depth: int = 0) -> None:
        super().__init__(text)
        self.pattern = _PATTERNS[is_comma_in_numbers]
        self.is_comma_in_numbers = is_comma_in_numbers
        self.is_formula = is_formula
        self.depth = depth
        self.scripts: list[bool] = []
        # A pair of dollar signs encloses a formula and is layout; a sign without a partner is a currency.
        self.has_lone_dollar = text.replace("\\$", "").count("$") % 2 == 1

    def run(self) -> list[Token]:
        while self.position < len(self.text):
            match = self.pattern.match(self.text, self.position)
            if match is None:
                raise SyntaxUnknownError(self.text[self.position])
            self.position = match.end()
            name = match.lastgroup or "single"
            if name == "space":
                self.is_spaced = True
                continue
            self.is_spaced_before, self.is_spaced = self.is_spaced, False
            _HANDLERS[name](self, match[0])
            # Checked at every token, so that a long text costs no more than the limit.
            if len(self.tokens) > TOKENS:
                raise LimitError(f"more than {TOKENS} tokens")
        return self.tokens

    def on_grouped(self, lexeme: str) -> None:
        whole, point, places = lexeme.rpartition(".") if "." in lexeme else (lexeme, "", "")
        self.on_number("".join(filter(str.isdecimal, whole)) + point + places)

    def on_number(self, lexeme: str) -> None:
        # Before the conversion: CPython refuses to read an integer of more than 4,300 digits.
        if len(lexeme) > DIGITS:
            raise LimitError(f"a number of more than {DIGITS} digits")
        self.add("number", lexeme.replace("_", ""))

    def on_coded(self, lexeme: str) -> None:
        if len(lexeme) > DIGITS:
            raise LimitError(f"a number of more than {DIGITS} digits")
        is_prefixed = lexeme[:2] in ("0x", "0b", "0o")
        self.add("number", str(int(lexeme, 0)) if is_prefixed else lexeme)

    def on_row(self, _: str) -> None:
        self.add("operator", "\\\\")

    def on_escaped(self, lexeme: str) -> None:
        value = ESCAPED[lexeme]
        self.add("word" if value == "$" else "operator", value)

    def on_double(self, lexeme: str) -> None:
        if lexeme.startswith("..."):
            self.add("letter", "…")
            return
        kind, value = DOUBLES[lexeme]
        self.add(kind, value)
        # Two absolute values that begin or end together.
        if lexeme == "||":
            self.add(kind, value)

    def on_single(self, lexeme: str) -> None:
        if lexeme == "$":
            if self.has_lone_dollar:
                self.add("word", "$")
            else:
                self.is_spaced = True
        elif lexeme in ",;":
            self.add("separator", lexeme)
        elif lexeme in "<>=":
            self.add("relation", lexeme)
        elif lexeme in CURRENCIES:
            self.add("word", lexeme)
        elif lexeme in _SINGLES:
            self._track_scripts(lexeme)
            self.add("operator", lexeme)
        else:
            raise SyntaxUnknownError(lexeme)

    def _track_scripts(self, lexeme: str) -> None:
        """Remember whether the text between braces is an exponent or an index."""
        if lexeme == "{":
            # Braces inside an exponent are inside it too: `x^{a_{it}}`.
            is_script = bool(self.tokens) and self.tokens[-1][1] in ("^", "_")
            self.scripts.append(is_script or self.is_in_script)
        elif lexeme == "}" and self.scripts:
            self.scripts.pop()

    @property
    def is_in_script(self) -> bool:
        """Whether an exponent or an index is being read."""
        return bool(self.scripts) and self.scripts[-1]

    def on_run(self, run: str) -> None:
        if not run.isascii():
            kind, value = FOREIGN.get(run, ("word", run))
            self.add(kind, value)
        elif len(run) == 1:
            self.add_letter(run)
        else:
            self._add_run(run)

    def _add_run(self, run: str) -> None:
        is_known = run in FUNCTIONS or run in CONSTANTS or run in GREEK
        is_known |= len(run) == 2 and run.lower() in GREEK  # noqa: PLR2004  (`Nu` is a product)
        # Names in capitals or with a capital (`Sin`, `LN`) are the functions; `Nu` and the like stay
        # products.
        name = run if is_known or not (run.isupper() or run.istitle()) else run.lower()
        # `5 min`, but not `min(5, 6)`.
        is_unit = (
            run in ("min", "sec")
            and bool(self.tokens)
            and self.tokens[-1][0] == "number"
            and _ARGUMENT.match(self.text, self.position) is None
        )
        # First match wins. Functions come before factors because `sin` is three letters that could be a
        # product; a unit comes before both.
        if name in FUNCTIONS and not is_unit:
            self.add("function", FUNCTIONS[name])
        elif self._is_factors(run):
            self._add_letters(run)
        elif name in CONSTANTS:
            self.add("constant", CONSTANTS[name])
        elif name in _SEPARATOR_WORDS:
            self.add("separator", name)
        # `plus`, `times` and the like are signs only between values; elsewhere they are words of a sentence.
        elif name in OPERATOR_WORDS and (name == "mod" or self._is_between()):
            self.add("operator", OPERATOR_WORDS[name])
        elif name in GREEK:
            self.add("letter", name)
        else:
            self._split_run(run)

    def _is_factors(self, run: str) -> bool:
        if run in CONSTANTS or run.lower() in GREEK:
            # `pi` is π, except in the reading in which all possible letters are factors.
            return self.is_formula and run == "pi"
        if self.is_in_script and len(run) <= 3:  # noqa: PLR2004  (longer ones are words)
            return True
        is_spaced = self.is_spaced_before
        return is_in_formula(
            run, self.tokens, self.text, self.position, is_spaced=is_spaced, is_formula=self.is_formula
        )

    def _is_between(self) -> bool:
        """Return whether a value precedes the word just read and, for a binary operator, follows it."""
        last = self.tokens[-1] if self.tokens else ("", "", False)
        is_after_value = last[0] in ("number", "constant") or last[1] in ")}"
        is_sign_of_one = self.text[: self.position].rstrip().lower().endswith(("degree", "degrees"))
        return is_after_value and (is_sign_of_one or _OPERAND.match(self.text, self.position) is not None)

    def add_letter(self, letter: str) -> None:
        is_times = False
        if letter in "xX" and self.tokens and self.tokens[-1][0] == "number":
            # `2 x 3`, or `3.2x10^5` without spaces.
            following = self.text[self.position : self.position + 1]
            is_spaced = self.is_spaced_before and following in (" ", "\\", "~")
            pattern = _TIMES if is_spaced else _POWER_OF_TEN
            is_times = pattern.match(self.text, self.position) is not None
        if is_times:
            self.add("operator", "*")
        # `5 m` is a quantity where the letter is alone; before another letter or at the end of a sum it is a
        # factor.
        elif letter in LONE_LETTERS and self._is_lone_unit():
            self.add("word", letter)
        elif letter in CONSTANTS:
            self.add("constant", CONSTANTS[letter])
        else:
            self.add("letter", letter)

    def _is_lone_unit(self) -> bool:
        # A LaTeX answer sets its units upright, so a lone letter is a variable there.
        if self.is_formula or self.is_in_script or not self.is_spaced_before or "\\" in self.text:
            return False
        last = self.tokens[-1] if self.tokens else ("", "", False)
        if last[0] != "number" and (last[0] != "word" or last[1].lower() not in WORDS):
            return False
        return _LONE.match(self.text, self.position) is None and not is_term_end(self.tokens)

    def _split_run(self, run: str) -> None:
        # `USD 5`: the code is in front of the amount.
        if run.lower() in CURRENCY_CODES and _OPERAND.match(self.text, self.position):
            self.add("word", run)
            return
        is_after_value = bool(self.tokens) and (
            self.tokens[-1][0] in ("number", "word")
            or (self.tokens[-1][0] == "constant" and self.is_spaced_before)
            or self.tokens[-1][1] in ")}/"
        )
        if is_after_value and run.lower() in WORDS and (run[0].isupper() or run.islower() or run in MIXED):
            self.add("word", run)
        elif run.endswith("pi") and len(run) <= 3:  # noqa: PLR2004  (`rpi` is a product, `Hopi` a word)
            self._add_letters(run[:-2])
            self.add("constant", "pi")
        # "93 red balls": a word, and no function `re` of d.
        elif run.islower() and run in SHORT_WORDS:
            self.add("word", run)
        # `sinx` and `lnx` are a function and one letter; with more letters it is a word (`single`).
        elif (stem := next((run[:size] for size in (4, 3, 2) if run[:size] in FUNCTIONS), "")) and len(
            run
        ) <= len(stem) + 1:
            self.add("function", FUNCTIONS[stem])
            self._add_letters(run[len(stem) :])
        elif (glued := _GLUED.fullmatch(run)) and self.text.startswith("(", self.position):
            self._add_letters(glued[1])
            self.add("function", FUNCTIONS[glued[2]])
        elif self._is_product(run):
            self._add_letters(run)
        else:
            self.add("word", run)

    def _is_product(self, run: str) -> bool:
        if run.isupper():
            return len(run) <= 6 and not set(run) <= set("IVX")  # noqa: PLR2004  (a polygon's corners; not a Roman numeral)
        return (len(run) <= 3 and run.lower() not in SHORT_WORDS) or run in _ALPHABET  # noqa: PLR2004  (longer ones are words)

    def _add_letters(self, run: str) -> None:
        for letter in run:
            is_constant = letter in CONSTANTS
            self.add("constant" if is_constant else "letter", CONSTANTS.get(letter, letter))

    def on_command(self, lexeme: str) -> None:
        name = lexeme[1:]
        if name in LAYOUT:
            self.lay_out(name)
        elif name in TEXT_COMMANDS:
            self._on_text(is_upright=name in ("mathrm", "operatorname", "rm"))
        elif name in ("begin", "end"):
            self._on_environment(name)
        elif name == "pmod":
            self.add("operator", "pmod")
        elif name in ("mathbb", "Bbb", "mathcal"):
            letter = self.argument()
            # `\mathcal{O}` is the O of an order of growth; other letters in this type are sets.
            if name == "mathcal" and letter == "O":
                self.add("letter", letter)
            else:
                self.add("constant", CONSTANTS.get(f"mathbb{letter}", letter))
        else:
            self._add_command(name)

    def _on_environment(self, edge: str) -> None:
        kind = self.argument().rstrip("*")
        if kind not in ENVIRONMENTS:
            self.is_spaced = True
            return
        self.add(edge, kind)
        # The columns of an array, `{cc|c}`, are layout.
        if kind == "array" and edge == "begin":
            self.argument()

    def _add_command(self, name: str) -> None:
        tables: tuple[tuple[str, dict[str, str]], ...] = (
            ("operator", COMMANDS),
            ("relation", RELATIONS),
            ("function", FUNCTIONS),
            ("constant", CONSTANTS),
            ("binder", BINDERS),
            ("accent", ACCENTS),
            ("letter", GREEK),
            ("separator", SEPARATORS),
        )
        # The first table that has the name wins.
        for kind, table in tables:
            if name in table:
                self.add(kind, table[name])
                return
        raise SyntaxUnknownError("\\" + name)

    def _on_text(self, *, is_upright: bool) -> None:
        content = self.argument()
        stripped = content.strip(" ~.\\,")
        self.is_spaced_before |= content[:1] in (" ", "~", "\\")
        if self.depth > DEPTH:
            raise LimitError(f"text nested deeper than {DEPTH}")
        # An upright text behind a value is its unit, even where it could be mathematics (`5\text{ m}`).
        unit = unit_pieces(content) if self._is_after_value(stripped) else None
        if unit is not None:
            self.tokens += unit
        # Texts with digits or signs, and single letters, are mathematics in upright type; all else are words.
        elif (
            len(stripped) <= 1
            or _INNER.search(stripped)
            or stripped in SET_FUNCTIONS
            or (is_upright and stripped.isalpha() and self.text.startswith("_", self.position))
            or (is_upright and (stripped in FUNCTIONS or stripped in CONSTANTS or stripped in GREEK))
        ):
            inner = _Lexer(
                content,
                is_comma_in_numbers=self.is_comma_in_numbers,
                is_formula=self.is_formula,
                depth=self.depth + 1,
            )
            # The white space in front of `\text{...}` is in front of its first token.
            inner.is_spaced = self.is_spaced_before
            self.tokens.extend(inner.run())
        else:
            self._add_words(content)
        self.is_spaced = content.endswith((" ", "~"))

    def _is_after_value(self, content: str) -> bool:
        """Return whether an upright text may be the unit of the value before it."""
        if not self.tokens or self.is_in_script:
            return False
        kind, value, _ = self.tokens[-1]
        if len(content) == 1 and self.is_formula and not self.is_spaced_before:
            return False
        is_value = kind in ("number", "word") or (kind == "operator" and value in ")}")
        return is_value or (kind in ("constant", "letter") and self.is_spaced_before)

    def _add_words(self, content: str) -> None:
        for piece in re.findall(r"[^\W\d_]+(?:\.[a-z]\.?)*|[,;/^%$€£-]", content.replace("~", " ")):
            if piece.lower() in _SEPARATOR_WORDS or piece in ",;":
                self.add("separator", piece.lower())
            elif piece in "/^":
                self.add("operator", piece)
            elif len(piece) == 1 and piece.isupper():
                self.add_letter(piece)
            elif piece != "-":
                self.add("word", piece)
            self.is_spaced_before = True


_HANDLERS: Final[dict[str, Callable[[_Lexer, str], None]]] = {
    "grouped": _Lexer.on_grouped,
    "coded": _Lexer.on_coded,
    "number": _Lexer.on_number,
    "row": _Lexer.on_row,
    "escaped": _Lexer.on_escaped,
    "double": _Lexer.on_double,
    "single": _Lexer.on_single,
    "run": _Lexer.on_run,
    "command": _Lexer.on_command,
}
