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
_REACH = 2
"""So many times the characters that are kept are looked at from either end of a text: what is removed from
them is not seen, and without a bound a long text would hold up others."""
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
    text = _SELECTORS.sub("", text)
    return text.translate({ord(letter): _seen(letter) for letter in set(text) if _seen(letter) != letter})


def shorten(text: str, most: int = MOST_CHARACTERS) -> str:
    """Cut a text in its middle, and say so there.

    Args:
        text: Any text.
        most: Characters that are kept: three quarters from the beginning, the rest from the end.
    """
    if len(text) <= most:
        return text
    tail = most // 4
    return _cut(text[: most - tail], text[len(text) - tail :], len(text) - most)


def _cut(head: str, tail: str, left_out: int) -> str:
    return f"{head}\n[... {left_out} characters are left out here ...]\n{tail}"


def fence(blocks: Mapping[str, str], most: int = MOST_CHARACTERS) -> str:
    """Put texts into blocks whose tags nobody can write who does not know all the texts.

    The tag has a hash of the texts in it, so that the same texts always give the same prompt (and the same
    key in a cache). Tags of blocks, and marks of chat templates, are escaped within the texts.

    Args:
        blocks: Text by the block's name, which is a word; in the order in which they are shown.
        most: Characters of each text that are kept.
    """
    texts = {name: _shown(text, most) for name, text in blocks.items()}
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
    reach = _REACH * max(MOST_CHARACTERS, min_characters)
    seen = clean(answer if len(answer) <= 2 * reach else answer[:reach] + answer[-reach:])
    bare, said = _without(seen, "PZC"), _without(seen.lower(), "PC")
    return len(bare) < min_characters or " ".join(said.split()) in _OPENERS


def _shown(text: str, most: int) -> str:
    """A text as `shorten` cuts it when it is clean; of a very long one, only the ends are cleaned."""
    reach, tail = _REACH * most, most // 4
    if len(text) <= 2 * reach:
        return shorten(clean(text), most)
    first, last = clean(text[:reach])[: most - tail], clean(text[len(text) - reach :])
    last = last[max(0, len(last) - tail) :]
    return _cut(first, last, len(text) - len(first) - len(last))


def _without(text: str, categories: str) -> str:
    """A text without the letters of some of Unicode's major categories."""
    return text.translate(
        {ord(each): None for each in set(text) if unicodedata.category(each)[0] in categories}
    )


def _seen(letter: str) -> str:
    category = unicodedata.category(letter)
    if category == "Cs":
        return "\ufffd"
    return letter if letter in "\n\t" or category not in {"Cf", "Cc"} else ""


def _escape(text: str, tags: re.Pattern[str]) -> str:
    return _TEMPLATES.sub(lambda found: _BROKEN[found[0]], tags.sub("&lt;", text))
