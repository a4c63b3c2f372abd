"""Rewards for the files that an agent left behind, over grading evidence.

Paths are relative to the work dir; hashes are SHA-256, 64 hexadecimal digits, after `sha256:` or not. A file
that the sandbox cannot read raises its error.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Any

import anyio.to_thread

from ors_server.grading.evidence import Evidence
from ors_server.processes import offload
from ors_server.processes.offload import OverLimitError
from ors_server.rewards.define import reward
from ors_server.rewards.reading.bounded_pattern import (
    PatternBudget,
    PatternError,
    PatternTimeoutError,
    compile_pattern,
)
from ors_server.rewards.reading.option_words import Pays, check_words
from ors_server.rewards.result import RewardResult, RewardStatus
from ors_server.sandboxes.sandbox_errors import SandboxFileError

MAX_BYTES = 4_194_304
"""Bytes of a file that are read."""
MAX_FILES = 1_000
MAX_REPORTED = 50
MAX_PARTIAL = 0.99
_DIGITS = 64


@reward(range=(0.0, 1.0))
async def file_match_reward(
    evidence: Evidence,
    path: str,
    *,
    answer: str | None = None,
    sha256: str | None = None,
    pattern: str | None = None,
) -> RewardResult:
    """Pays 1 if a file of the work dir has the gold content, hash or a text that matches a pattern, else 0.

    Hazards: a content is compared to the last byte, a line break at the end included. A pattern is found
    anywhere (`^` and `$` are the ends of lines), and a file that holds every candidate has the right one.

    Source: file checks as task suites for agents write them.

    `answer` is the whole content, as UTF-8; a file that is not UTF-8 never matches a pattern. A file that is
    missing, is not a plain file or has more than 4 MiB is 0, with the reason; so is a search of more than a
    second of processor time, because the text is the agent's. Not exactly one of the three, an empty pattern
    and an invalid hash are `bad_gold`.
    """
    problem = _check_gold(answer, sha256, pattern)
    if problem:
        return RewardResult.without(RewardStatus.BAD_GOLD, problem)
    content, reason = await _read(evidence, path)
    if content is None:
        return RewardResult(0.0, reason=reason)
    if answer is not None:
        return RewardResult(float(content == answer.encode(errors="surrogatepass")))
    if sha256 is not None:
        return RewardResult(float(hash_content(content) == sha256.removeprefix("sha256:").lower()))
    try:
        return RewardResult(float(await anyio.to_thread.run_sync(_is_in, str(pattern), content)))
    except PatternTimeoutError as error:  # the text is the agent's
        return RewardResult(0.0, reason=str(error))


@reward(range=(0.0, 1.0))
async def files_unchanged_reward(evidence: Evidence, files: Mapping[str, str]) -> RewardResult:
    """Pays 1 if every named file still has the content that it had, else 0: tests, fixtures, settings.

    Hazard: doing nothing changes nothing. It is a gate for another reward (`GatedReward`), not one by itself.

    Source: the checks against edited tests that impossible-task and tampering suites make.

    `files` has 1 to 1,000 paths with their hashes; anything else is `bad_gold`. The result has `changed` and
    `missing`, up to 50 paths each.
    """
    if not 1 <= len(files) <= MAX_FILES:
        return RewardResult.without(
            RewardStatus.BAD_GOLD, f"expected 1 to {MAX_FILES} paths in files, each with its hash"
        )
    broken = [path for path, digest in files.items() if not _is_hash(digest)]
    if broken:
        return RewardResult.without(RewardStatus.BAD_GOLD, f"expected a SHA-256 hash for {broken[0]!r:.80}")
    changed: list[str] = []
    missing: list[str] = []
    for path, digest in files.items():
        content, _ = await _read(evidence, path)
        if content is None:
            missing.append(path)
        elif hash_content(content) != digest.removeprefix("sha256:").lower():
            changed.append(path)
    extras = {"changed": changed[:MAX_REPORTED], "missing": missing[:MAX_REPORTED]}
    return RewardResult(float(not changed and not missing), extras=extras)


@reward(range=(0.0, 1.0))
async def diff_reward(
    evidence: Evidence, path: str, start: str, answer: str, *, pays: Pays = "all"
) -> RewardResult:
    """Pays for changing a file as it should be changed, and nothing for leaving it as it was.

    Hazards: one right change among several is often enough for a program, and is not enough here; prefer
    tests where there are some. With `pays="fraction"` lines are counted without their places, so the right
    lines in a wrong order earn nearly all (0.99).

    Source: the comparison with an oracle's patch in SWE-RL (Wei et al. 2025), by lines in place of its
    similarity of texts, which pays much for a patch that changes nothing.

    Args:
        start: The file's text at the start; `answer` is its text as it should be, and differs.
        pays: `all`: 1 for exactly that text, else 0. `fraction`: else the F1 of the lines that were added and
            removed, at most 0.99.

    Returns:
        In [0, 1], with `f1`, `wanted` and `made`, the numbers of changed lines. A missing file is 0.
    """
    check_words(pays=(pays, Pays))
    problem = _check_goal(start, answer)
    if problem:
        return RewardResult.without(RewardStatus.BAD_GOLD, problem)
    content, reason = await _read(evidence, path)
    if content is None:
        return RewardResult(0.0, reason=reason)
    size = len(start) + len(answer) + len(content)
    try:
        extras, is_goal = await offload.run_sized(size, _changes, start, answer, content)
    except OverLimitError as error:
        return RewardResult(0.0, reason=str(error))
    nearly = min(MAX_PARTIAL, extras["f1"]) if pays == "fraction" else 0.0
    return RewardResult(1.0 if is_goal else nearly, extras=extras)


def hash_content(content: bytes) -> str:
    """Return the SHA-256 of a content, 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def _check_gold(answer: str | None, sha256: str | None, pattern: str | None) -> str | None:
    golds: list[object] = [gold for gold in (answer, sha256, pattern) if gold is not None]
    if len(golds) != 1 or not isinstance(golds[0], str):
        return "expected exactly one of answer, sha256 and pattern, as text"
    if sha256 is not None and not _is_hash(sha256):
        return "expected a SHA-256 as 64 hexadecimal digits"
    return None if pattern is None else _check_pattern(pattern)


def _check_pattern(pattern: str) -> str | None:
    if not pattern:
        return "an empty pattern is found everywhere"
    try:
        compile_pattern(pattern)
    except PatternError as error:
        return str(error)
    return None


def _is_hash(text: object) -> bool:
    if not isinstance(text, str):
        return False
    digits = text.removeprefix("sha256:")
    return len(digits) == _DIGITS and not set(digits) - set("0123456789abcdefABCDEF")


async def _read(evidence: Evidence, path: str) -> tuple[bytes | None, str | None]:
    """Return a file's content, or why its content cannot be compared."""
    try:
        return await evidence.read_file(path, most=MAX_BYTES), None
    except SandboxFileError as error:
        return None, str(error)


def _is_in(pattern: str, content: bytes) -> bool:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return False
    return PatternBudget().is_found(compile_pattern(pattern), text)


def _check_goal(start: object, goal: object) -> str | None:
    if not isinstance(start, str) or not isinstance(goal, str):
        return "start and answer are texts"
    if start == goal:
        return "the goal is the start: doing nothing would be paid"
    return f"a text has more than {MAX_BYTES} characters" if max(len(start), len(goal)) > MAX_BYTES else None


def _changes(start: str, goal: str, content: bytes) -> tuple[dict[str, Any], bool]:
    """Return the figures of a change, and whether the goal is reached."""
    text = content.decode(errors="surrogateescape")
    before = Counter(start.split("\n"))
    needed, changed = _changed_lines(before, goal), _changed_lines(before, text)
    shared = sum((needed & changed).values())
    needed_count, changed_count = needed.total(), changed.total()
    f1 = 2 * shared / (needed_count + changed_count) if needed_count + changed_count else 0.0
    return {"f1": f1, "wanted": needed_count, "made": changed_count}, text == goal


def _changed_lines(before: Counter[str], text: str) -> Counter[tuple[str, str]]:
    after = Counter(text.split("\n"))
    changes = {("+", line): count for line, count in (after - before).items()}
    changes |= {("-", line): count for line, count in (before - after).items()}
    return Counter(changes)
