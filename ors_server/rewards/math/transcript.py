"""The answerer's text in a transcript: one turn, without reasoning and programs.

Conventions: the turn ends at a token that ends turns, or where the transcript continues with a next question
after an answer; reasoning is removed as for every reward (`reading/answer_text.py`); the source of a program
(a fenced block of a programming language, `[asy]`) is not searched for an answer, its output (a fenced block
of `output`) is if there is nothing else.
"""

import re
from typing import Final

from ors_server.rewards.math.limits import RESPONSE_CHARS
from ors_server.rewards.reading.answer_text import cut_reasoning

_NEXT: Final = re.compile(
    r"\n[ \t]{0,8}(?:#{1,4} ?|\*\*)?(?:Human|User|Question|Problem|Q|Instruction|Exercise)"
    r"(?: ?\d{1,3})?(?:\*\*)? ?[:：]"
)
_ANSWERED: Final = re.compile(r"\\boxed ?\{|####|\banswer(?: is|\*{0,2}:)", re.IGNORECASE)
_FENCE: Final = re.compile(r"(?m)^[ \t]{0,8}```[ \t]*([A-Za-z+]*)[^\n]{0,80}$")
_LANGUAGES: Final = frozenset(
    {"python", "py", "python3", "sage", "sympy", "asy", "asymptote", "c", "cpp", "java", "javascript", "js"}
    | {"matlab", "r", "julia"}
)
_OUTPUTS: Final = frozenset({"output", "stdout"})
_DRAWING: Final = re.compile(r"\[asy\]")
_DRAWING_END: Final = "[/asy]"


def clean(response: str) -> str:
    """Cut a response at the end of the answerer's turn and remove its reasoning."""
    response = (cut_reasoning(response) or "")[-2 * RESPONSE_CHARS :]
    answered = _ANSWERED.search(response)
    following = None if answered is None else _NEXT.search(response, answered.end())
    return response if following is None else response[: following.start()]


def without_programs(text: str) -> tuple[str, str]:
    """Return a text without its programs, and the output of the last one."""
    text, printed = _split_fences(text) if "```" in text else (text, "")
    return _without_drawings(text), printed


def _split_fences(text: str) -> tuple[str, str]:
    blocks: list[str] = []
    printed = kind = ""
    position = 0
    is_inside = False
    for fence in _FENCE.finditer(text):
        block = text[position : fence.start()]
        position = fence.end()
        printed, is_kept = _sort(kind, block, printed) if is_inside else (printed, True)
        blocks += [block] if is_kept else []
        is_inside = not is_inside or bool(fence[1])
        kind = fence[1].lower() if is_inside else ""
    printed, is_kept = _sort(kind, text[position:], printed) if is_inside else (printed, True)
    blocks += [text[position:]] if is_kept else []
    return "\n".join(blocks), printed


def _sort(kind: str, block: str, printed: str) -> tuple[str, bool]:
    """Return the last output, and whether a fenced block is the answerer's text."""
    if kind in _OUTPUTS:
        return block.strip(), False
    return printed, kind not in _LANGUAGES


def _without_drawings(text: str) -> str:
    if "[asy]" not in text:
        return text
    texts: list[str] = []
    position = 0
    while (opening := _DRAWING.search(text, position)) is not None:
        texts.append(text[position : opening.start()])
        end = text.find(_DRAWING_END, opening.end())
        position = len(text) if end < 0 else end + len(_DRAWING_END)
    return " ".join([*texts, text[position:]])
