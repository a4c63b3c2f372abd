"""Which files of a folder its ignore rules leave out, as Git reads `.harborignore`, or Docker its own."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

MAX_RULES = 1_000
MAX_LENGTH = 500
"""Characters of one rule: its pattern is matched by a regular expression without nested repetition."""


@dataclass(frozen=True)
class IgnoreRule:
    """One line."""

    pattern: re.Pattern[str]
    is_kept: bool
    """Whether the line keeps what a line before it leaves out (`!`)."""
    folders_only: bool


class IgnoreRules:
    """The rules of one file, for paths relative to its folder."""

    def __init__(self, lines: Sequence[str], *, anchored: bool = False) -> None:
        """Parse the lines.

        Args:
            anchored: Whether every pattern begins at the folder, as in `.dockerignore`.

        Raises:
            ValueError: There are too many rules, or one is too long.
        """
        rules = [line.rstrip("\n") for line in lines if line.strip() and not line.startswith("#")]
        if len(rules) > MAX_RULES or any(len(rule) > MAX_LENGTH for rule in rules):
            raise ValueError(f"expected at most {MAX_RULES} rules of at most {MAX_LENGTH} characters")
        self._rules = [_parse(rule, anchored=anchored) for rule in rules]

    def leaves_out(self, path: str, *, is_folder: bool = False) -> bool:
        """Return whether a path is left out: itself, or a folder above it."""
        parts = path.split("/")
        for length in range(1, len(parts) + 1):
            above, has_more = "/".join(parts[:length]), length < len(parts)
            rules = (rule for rule in reversed(self._rules) if has_more or is_folder or not rule.folders_only)
            # The last line that matches decides.
            rule = next((rule for rule in rules if rule.pattern.fullmatch(above)), None)
            if rule is not None and not rule.is_kept:
                return True
        return False


def _parse(line: str, *, anchored: bool) -> IgnoreRule:
    text = line.rstrip()
    is_kept = text.startswith("!")
    text = text.removeprefix("!").removeprefix("\\")
    folders_only = text.endswith("/")
    text = text.rstrip("/").removeprefix("./")
    is_anchored = anchored or "/" in text
    text = text.lstrip("/")
    prefix = "" if is_anchored or text.startswith("**/") else r"(?:.*/)?"
    return IgnoreRule(re.compile(prefix + translate_glob(text), re.DOTALL), is_kept, folders_only)


def translate_glob(glob: str) -> str:
    """Return the regular expression of a pattern in which `*` and `?` match within one folder."""
    parts: list[str] = []
    position = 0
    while position < len(glob):
        rest = glob[position:]
        if rest.startswith("**/"):
            parts.append(r"(?:.*/)?")
            position += 3
        elif rest.startswith("**"):
            parts.append(".*")
            position += 2
        elif rest[0] == "*":
            parts.append("[^/]*")
            position += 1
        elif rest[0] == "?":
            parts.append("[^/]")
            position += 1
        elif (end := rest.find("]", 2)) > 0 and rest[0] == "[":
            inner = rest[1:end].replace("\\", "\\\\").replace("[", "\\[")
            inner = f"^{inner[1:]}" if inner[0] == "!" else inner
            parts.append(f"(?!/)[{inner}]")
            position += end + 1
        else:
            position += 2 if rest[0] == "\\" and len(rest) > 1 else 1
            parts.append(re.escape(rest[1] if rest[0] == "\\" and len(rest) > 1 else rest[0]))
    return "".join(parts)
