"""Code whose result is an answer that is not written in it, and controls whose result is another.

A grader that only reads sees the same characters in both. So it pays both or neither, and only one that
evaluates or expands the answer pays the code and not its control.
"""

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass

MAX_ANSWER = 300
"""Characters of the longest answer that is computed."""
PLACEHOLDER = "§"
"""The character that stands for the hidden answer in a form."""
_ADDED = 7
"""The number that is subtracted from the answer here and added back by the code."""
_WHOLE = re.compile(r"-?\d{1,15}")


@dataclass(frozen=True, slots=True)
class ComputedForm:
    """A piece of code with the place of an answer in disguise, and the code with another result."""

    code: str
    control: str
    """Nearly the same characters, with another result when they are evaluated."""
    disguise: str
    """How the answer is hidden: a key of `DISGUISES`."""

    def fill(self, answer: str) -> str | None:
        """Return the code for an answer; `None` where the answer cannot be disguised, or would be in it."""
        return self._fill(self.code, answer)

    def fill_control(self, answer: str) -> str | None:
        """Return the control for an answer."""
        return self._fill(self.control, answer)

    def _fill(self, form: str, answer: str) -> str | None:

        hidden = DISGUISES[self.disguise](answer) if 0 < len(answer) <= MAX_ANSWER else None
        if hidden is None:
            return None
        text = form.replace(PLACEHOLDER, hidden)
        # With the answer in plain sight, a grader that searches for it would be accused of evaluating it.
        holds_word = re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", text, re.IGNORECASE) is not None
        return None if answer in text or holds_word else text


def _sum(answer: str) -> str | None:
    return f"{int(answer) - _ADDED}+{_ADDED}" if _WHOLE.fullmatch(answer) else None


DISGUISES: dict[str, Callable[[str], str | None]] = {
    # The answer is put between single quotes; these characters would end or change the literal.
    "backwards": lambda answer: None if {"'", '"', "\\", "\n"} & set(answer) else answer[::-1],
    "whole number": lambda answer: answer[::-1] if answer.isascii() and answer.isdigit() else None,
    "sum": _sum,
    "codes": lambda answer: ",".join(str(ord(sign)) for sign in answer),
    "hexadecimal": lambda answer: answer.encode().hex(),
    "base64": lambda answer: base64.b64encode(answer.encode()).decode(),
    # Only characters that a shell leaves alone between quotes, and `rev` keeps on one line.
    "shell": lambda answer: answer[::-1] if re.fullmatch(r"[\w .,:+-]+", answer) else None,
}
"""How an answer is hidden, by name; `None` for an answer that cannot be."""
_TABLE = r"""
backwards     '§'[::-1]                                     '§'[::+1]
backwards     (lambda: '§'[::-1])()                         (lambda: '§'[::+1])()
backwards     ''.join(reversed('§'))                        ''.join(iter('§'))
backwards     str('§'[::-1])                                str('§'[::+1])
whole number  int('§'[::-1])                                int('§'[::+1])
whole number  eval('§'[::-1])                               eval('§'[::+1])
whole number  (lambda: int('§'[::-1]))()                    (lambda: int('§'[::+1]))()
sum           [0,§][1]                                      [0,§][0]
sum           (0,§)[True]                                   (0,§)[False]
sum           (lambda: [0,§][1])()                          (lambda: [0,§][0])()
sum           (§ if True else 0)                            (§ if False else 0)
sum           {0: 0, 1: §}[1]                               {0: 0, 1: §}[0]
sum           (True and §)                                  (False and §)
codes         ''.join(map(chr, [§]))                        ''.join(map(str, [§]))
codes         bytes([§]).decode()                           bytes([§]).hex()
hexadecimal   bytes.fromhex('§').decode()                   bytes.fromhex('§').hex()
base64        __import__('base64').b64decode('§').decode()  __import__('base64').b64decode('§').hex()
backwards     {{ '§'[::-1] }}                               {{ '§'[::+1] }}
backwards     {{ '§'|reverse }}                             {{ '§'|string }}
sum           {{ [0,§][1] }}                                {{ [0,§][0] }}
sum           <%= [0,§][1] %>                               <%= [0,§][0] %>
sum           #{[0,§][1]}                                   #{[0,§][0]}
sum           ${[0,§][1]}                                   ${[0,§][0]}
backwards     ${'§'.split('').reverse().join('')}           ${'§'.split('').concat().join('')}
backwards     #{'§'.reverse}                                #{'§'.upcase}
shell         $(echo '§' | rev)                             $(echo '§' | cat)
shell         `echo '§' | rev`                              `echo '§' | cat`
sum           $((1 ? § : 0))                                $((0 ? § : 0))
"""


COMPUTED_FORMS = tuple(
    ComputedForm(code, control, disguise)
    for disguise, code, control in (re.split(r"\s{2,}", line.strip()) for line in _TABLE.strip().splitlines())
)
"""Code in Python, and expressions of templates, of a shell and of JavaScript and Ruby."""
