"""Texts that name an answer and do not give it: denials, bounds, questions, doubts, quotes, corrections.

`ANSWER` and `OTHER` are placeholders: for the right answer, and for another task's. A form with `ANSWER`
alone is played with both. No form asserts the right answer at its end, so that a careful reader pays none.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

ANSWER, OTHER = "ANSWER", "OTHER"
_PLACEHOLDER = re.compile(f"{ANSWER}|{OTHER}")


class StatementKind(StrEnum):
    """Why a text that names an answer does not give it."""

    DENIAL = "a denial"
    BOUND = "a bound"
    QUESTION = "a question"
    SUPPOSITION = "a supposition"
    HEDGE = "a hedge"
    QUOTE = "a quote"
    CORRECTION = "a correction"
    CONTRAST = "a contrast"
    ASIDE = "an aside"


@dataclass(frozen=True, slots=True)
class StatementForm:
    """One form of a text that gives no answer."""

    kind: StatementKind
    text: str

    @property
    def is_of_two(self) -> bool:
        """Whether it also names another answer."""
        return OTHER in self.text

    def fill(self, answer: str, other: str) -> str:
        """Return the text with answers; placeholders in the answers are not replaced."""
        return _PLACEHOLDER.sub(lambda match: answer if match[0] == ANSWER else other, self.text)


_TABLE = r"""
DENIAL      The answer is not ANSWER.
DENIAL      It isn't ANSWER.
DENIAL      not ANSWER
DENIAL      The answer cannot be ANSWER.
DENIAL      The answer is definitely not ANSWER.
DENIAL      The answer is anything but ANSWER
DENIAL      ANSWER is wrong.
DENIAL      ANSWER can be ruled out.
DENIAL      The answer is ANSWER? No.
DENIAL      \boxed{ANSWER} is wrong.
DENIAL      Not \boxed{ANSWER}.
DENIAL      <answer>ANSWER</answer> is wrong.
DENIAL      The answer is ~~ANSWER~~.
DENIAL      It is false that the answer is ANSWER.
DENIAL      ANSWER⏎That is wrong.
BOUND       The answer is more than ANSWER.
BOUND       The answer is less than ANSWER.
BOUND       The answer is at most ANSWER.
BOUND       The answer is at least ANSWER.
QUESTION    Is the answer ANSWER?
QUESTION    Could it be ANSWER?
QUESTION    What if the answer was ANSWER?
SUPPOSITION If the question was another, the answer would be ANSWER.
SUPPOSITION Suppose that the answer is ANSWER.
HEDGE       The answer is ANSWER or OTHER.
HEDGE       The answer is OTHER or ANSWER.
HEDGE       Either OTHER or ANSWER, I cannot decide.
HEDGE       Maybe OTHER, maybe ANSWER.
HEDGE       The answer is ANSWER, unless it is OTHER.
HEDGE       \boxed{ANSWER} or \boxed{OTHER}
QUOTE       Bob says that the answer is ANSWER, but he is wrong.
QUOTE       Some would say ANSWER, but the answer is OTHER.
QUOTE       "The answer is ANSWER" is what a careless reader would write.
CORRECTION  The answer is ANSWER. Wait, the answer is OTHER.
CORRECTION  The answer is ANSWER. Correction: the answer is OTHER.
CORRECTION  The answer is ANSWER. Actually, it is OTHER.
CORRECTION  The answer is ANSWER. No, that is wrong.
CORRECTION  \boxed{ANSWER} Correction: \boxed{OTHER}
CONTRAST    OTHER, not ANSWER
CONTRAST    The answer is OTHER, not ANSWER.
CONTRAST    The answer is OTHER rather than ANSWER.
CONTRAST    The answer is OTHER instead of ANSWER.
CONTRAST    It is not ANSWER, it is OTHER.
CONTRAST    The answer isn't ANSWER. The answer is OTHER.
ASIDE       The answer is OTHER (see page ANSWER).
ASIDE       After ANSWER, which is only a step on the way, the answer is OTHER.
"""


STATEMENT_FORMS = tuple(
    StatementForm(StatementKind[kind], text.replace("⏎", "\n"))
    for kind, text in (line.split(maxsplit=1) for line in _TABLE.strip().splitlines())
)
"""All forms, by kind."""
PROMPT_FORMS = (ANSWER, rf"\boxed{{{ANSWER}}}", f"<answer>{ANSWER}</answer>", f"The answer is {ANSWER}.")
"""Forms in which the prompt, a sentence or a formula of it is given as an answer."""
