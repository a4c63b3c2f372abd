"""Compares the work dir with the required state, and names faults without revealing answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ors_server import OffloadLimits, OverLimitError, run_offloaded
from ors_server_tasks.shell.documents import ARCHIVE_BYTES, is_archive, is_json
from ors_server_tasks.shell.exercise import Archive, Exercise, File, Folder, Json, Link, Node
from ors_server_tasks.shell.observation import Observation, Seen, observe
from ors_server_tasks.shell.repository_grading import find_repository_faults, folders_to_see, paths_to_see

if TYPE_CHECKING:
    from ors_server import Evidence

_OWNER_READS = 0o400
_OWNER_ENTERS = 0o500
_JSON_BYTES = 1 << 20
"""Longest JSON that is read."""
_JSON_IN_PLACE = 1 << 16
"""Length up to which JSON is read on the event loop; an archive never is: its headers can be made slow."""
_LIMITS = OffloadLimits(cpu_seconds=1.0)
"""A sound document takes some milliseconds."""


async def find_faults(evidence: Evidence, exercise: Exercise) -> list[str]:
    """Return the faults of the work dir; empty when all is right.

    Args:
        evidence: The work dir as the agent left it, while none of its processes runs.
        exercise: The exercise.

    Raises:
        UnjudgedError: It could not be found out.
    """
    repositories = exercise.repositories
    paths = _with_ancestors([*exercise.after, *exercise.before]).union(paths_to_see(repositories))
    folders = [*exercise.whole, *folders_to_see(repositories)]
    seen = await observe(evidence, paths, folders, [f"{state.path}/.git" for state in repositories])
    if not seen.is_complete:
        return ["the work dir holds far more than was asked for"]
    faults = _misplaced(exercise, seen)
    for path in sorted(exercise.after):
        fault = await _judge(evidence, path, exercise.after[path], seen.nodes.get(path))
        if fault:
            faults.append(f"{path}: {fault}")
    for repository in repositories:
        faults += await find_repository_faults(evidence, repository, seen)
    return faults


def _with_ancestors(paths: Iterable[str]) -> set[str]:
    paths_and_parents: set[str] = set()
    for path in paths:
        parts = path.split("/")
        paths_and_parents |= {"/".join(parts[:depth]) for depth in range(1, len(parts) + 1)}
    return paths_and_parents


def _misplaced(exercise: Exercise, seen: Observation) -> list[str]:
    """Return faults of paths that should not exist, and of folders that cannot be listed."""
    faults = [
        f"{path}: still there"
        for path in exercise.before
        if path not in exercise.after and path in seen.nodes
    ]
    required = _with_ancestors(exercise.after)
    folders = (required - exercise.after.keys()) | {
        path for path in _with_ancestors(exercise.before) - exercise.before.keys() if path in seen.nodes
    }
    faults += [
        f"{path}: not a folder that can be looked into"
        for path in sorted(folders)
        if (node := seen.nodes.get(path)) is None or not _is_open_folder(node)
    ]
    allowed = required | folders
    for path in seen.nodes:
        if path not in allowed and path not in exercise.before and _is_inside(path, exercise):
            faults.append(f"{path}: not asked for")
    return faults


def _is_inside(path: str, exercise: Exercise) -> bool:
    """Return whether a path is in a folder of `whole`, and not in a `.git`, which is graded elsewhere."""
    is_git = any(f"{path}/".startswith(f"{state.path}/.git/") for state in exercise.repositories)
    return not is_git and any(path.startswith(f"{folder}/") for folder in exercise.whole)


def _is_open_folder(node: Seen) -> bool:
    return node.kind == "d" and node.mode & _OWNER_ENTERS == _OWNER_ENTERS


async def _judge(evidence: Evidence, path: str, node: Node, seen: Seen | None) -> str:
    """Return the fault of one path; empty for a right path."""
    if seen is None:
        return "missing"
    match node:
        case Link():
            return "" if seen.kind == "l" and seen.target == node.target else "not the required link"
        case Folder():
            return _judge_folder(node, seen)
        case File():
            return _judge_mode(node, seen) or await _judge_content(evidence, path, node, seen)
        case _:
            return _judge_plain(seen) or await _judge_document(evidence, path, node, seen)


def _judge_folder(node: Folder, seen: Seen) -> str:
    if not _is_open_folder(seen):
        return "not a folder that can be looked into"
    return "" if node.mode in {None, seen.mode} else "wrong mode"


def _judge_plain(seen: Seen) -> str:
    if seen.kind != "f":
        return "not a plain file"
    if seen.links != 1:
        return "has a second name (hard link)"
    return "" if seen.mode & _OWNER_READS else "not readable for its owner"


def _judge_mode(node: File, seen: Seen) -> str:
    return _judge_plain(seen) or ("" if node.mode in {None, seen.mode} else "wrong mode")


async def _judge_content(evidence: Evidence, path: str, node: File, seen: Seen) -> str:
    if seen.size != len(node.content):
        return "wrong content"
    return "" if await evidence.read_file(path, most=seen.size or 1) == node.content else "wrong content"


async def _judge_document(evidence: Evidence, path: str, node: Json | Archive, seen: Seen) -> str:
    max_bytes = _JSON_BYTES if isinstance(node, Json) else ARCHIVE_BYTES
    if seen.size > max_bytes:
        return "too long"
    content = await evidence.read_file(path, most=max_bytes)
    try:
        if isinstance(node, Json):
            return "" if await _is_json(content, node) else "not the required JSON"
        return (
            ""
            if await run_offloaded(is_archive, content, node, limits=_LIMITS)
            else "not the required archive"
        )
    except OverLimitError as error:
        return f"cannot be read: {error}"


async def _is_json(content: bytes, node: Json) -> bool:
    if len(content) <= _JSON_IN_PLACE:
        return is_json(content, node.value)
    return await run_offloaded(is_json, content, node.value, limits=_LIMITS)
