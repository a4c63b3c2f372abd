"""Puts text of strangers before a judge so that it stays text: cleaned, cut, escaped, in tagged blocks.

Sources: "One Token to Fool LLM-as-a-Judge" (arXiv 2507.08794) for the answers that need no judge;
"Optimization-based Prompt Injection Attack to LLM-as-a-Judge" (arXiv 2403.17710) for why data is fenced.
No fence is proof against a persuasive text; `check` and `probe` measure what is left.
"""

import hashlib
import re
import unicodedata
from collections.abc import Mapping

MOST_CHARACTERS = 20_000
"""Of one block."""
NONCE_CHARACTERS = 16
"""Hexadecimal digits in a block's tag: 64 bits of a hash of the very text that would have to contain it."""

MASTER_KEYS = (
    "",
    " ",
    ".",
    ",",
    ":",
    "Thought process:",
    "Let's solve this problem step by step.",
    "Solution",
    "解",
    "かいせつ",
    "Respuesta",
)
"""Answers without content that judges have been seen to pay (arXiv 2507.08794, table 1)."""

_OPENERS = frozenset(
    {
        "thought process",
        "thoughts",
        "reasoning",
        "lets solve this problem step by step",
        "lets think step by step",
        "solution",
        "answer",
        "final answer",
        "the answer is",
        "解",
        "かいせつ",
        "解答",
        "答案",
        "respuesta",
        "réponse",
        "lösung",
    }
)
_SELECTORS = re.compile("[\u034f\u115f\u1160\u3164\uffa0\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_TEMPLATES = re.compile(r"<(?=\|)|<(?=/?s>)|<(?=/?(?:start|end)_of_turn>)|<(?=<SYS>>)|\[(?=/?INST\])")
"""Where chat templates of open models begin and end a turn, if their tokenizer reads it in plain text."""
_BROKEN = {"<": "&lt;", "[": "&#91;"}


def clean(text: str) -> str:
    """Remove what a reader does not see: zero-width, bidirectional and other control characters.

    Args:
        text: Any text, lone surrogates included, which become U+FFFD.
    """
    return "".join(map(_seen, _SELECTORS.sub("", text)))


def shorten(text: str, most: int = MOST_CHARACTERS) -> str:
    """Cut a text in its middle, and say so there.

    Args:
        text: Any text.
        most: Characters that are kept: three quarters from the beginning, the rest from the end.
    """
    if len(text) <= most:
        return text
    tail = most // 4
    head = most - tail
    marker = f"[... {len(text) - most} characters are left out here ...]"
    return f"{text[:head]}\n{marker}\n{text[len(text) - tail :]}"


def fence(blocks: Mapping[str, str], most: int = MOST_CHARACTERS) -> str:
    """Put texts into blocks whose tags nobody can write who does not know all the texts.

    The tag has a hash of the texts in it, so that the same texts always give the same prompt (and the same
    key in a cache). Tags of blocks, and marks of chat templates, are escaped within the texts.

    Args:
        blocks: Text by the block's name, which is a word; in the order in which they are shown.
        most: Characters of each text that are kept.
    """
    texts = {name: shorten(clean(text), most) for name, text in blocks.items()}
    whole = "".join(f"{name}:{len(text)}:{text}" for name, text in texts.items())
    nonce = hashlib.sha256(whole.encode()).hexdigest()[:NONCE_CHARACTERS]
    tags = re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(map(re.escape, texts))})\b)", re.IGNORECASE)
    shown = [
        f"<{name}-{nonce}>\n{_escape(text, tags).replace(nonce, '')}\n</{name}-{nonce}>"
        for name, text in texts.items()
    ]
    return "\n\n".join(shown)


def is_degenerate(answer: str, min_characters: int = 1) -> bool:
    """Whether an answer has nothing in it that could be judged.

    Args:
        answer: What was answered.
        min_characters: Letters and digits that an answer has at least.
    """
    bare = "".join(letter for letter in clean(answer) if unicodedata.category(letter)[0] not in "PZC")
    said = "".join(letter for letter in clean(answer).lower() if unicodedata.category(letter)[0] not in "PC")
    return len(bare) < min_characters or " ".join(said.split()) in _OPENERS


def _seen(letter: str) -> str:
    category = unicodedata.category(letter)
    if category == "Cs":
        return "\ufffd"
    return letter if letter in "\n\t" or category not in {"Cf", "Cc"} else ""


def _escape(text: str, tags: re.Pattern[str]) -> str:
    return _TEMPLATES.sub(lambda found: _BROKEN[found[0]], tags.sub("&lt;", text))
