"""Compares what an agent left with what an exercise wants, and names faults without giving answers away."""

from __future__ import annotations

import io
import json
import tarfile
import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from ors_server_tasks.shell.exercise import Archive, Exercise, File, Folder, Json, Link, Node
from ors_server_tasks.shell.observation import Observation, Seen, observe
from ors_server_tasks.shell.repository_grading import find_repository_faults, folders_to_see, paths_to_see

if TYPE_CHECKING:
    from ors_server import Evidence

_OWNER_READS = 0o400
_OWNER_ENTERS = 0o500
_JSON_BYTES = 1 << 20
"""Longest JSON that is read."""
_ARCHIVE_BYTES = 1 << 22
"""Longest archive that is read, packed and unpacked."""
_FROM_GZIP = 31
"""Window bits with which zlib reads gzip."""


async def find_faults(evidence: Evidence, exercise: Exercise) -> list[str]:
    """Return what is otherwise than an exercise wants it; empty when all is right.

    Args:
        evidence: The work dir as the agent left it, with nothing of the agent's running.
        exercise: What was asked for.

    Raises:
        UnjudgedError: It could not be found out.
    """
    repositories = exercise.repositories
    asked = _with_ancestors([*exercise.after, *exercise.before]).union(paths_to_see(repositories))
    folders = [*exercise.whole, *folders_to_see(repositories)]
    seen = await observe(evidence, asked, folders, [f"{state.path}/.git" for state in repositories])
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
    found: set[str] = set()
    for path in paths:
        parts = path.split("/")
        found |= {"/".join(parts[:depth]) for depth in range(1, len(parts) + 1)}
    return found


def _misplaced(exercise: Exercise, seen: Observation) -> list[str]:
    """What should not be there, and folders that are something else or cannot be looked into."""
    faults = [
        f"{path}: still there"
        for path in exercise.before
        if path not in exercise.after and path in seen.nodes
    ]
    wanted = _with_ancestors(exercise.after)
    folders = (wanted - exercise.after.keys()) | {
        path for path in _with_ancestors(exercise.before) - exercise.before.keys() if path in seen.nodes
    }
    faults += [
        f"{path}: not a folder that can be looked into"
        for path in sorted(folders)
        if (node := seen.nodes.get(path)) is None or not _is_open_folder(node)
    ]
    allowed = wanted | folders
    for path in seen.nodes:
        if path not in allowed and path not in exercise.before and _is_inside(path, exercise):
            faults.append(f"{path}: not asked for")
    return faults


def _is_inside(path: str, exercise: Exercise) -> bool:
    """Whether a path is below a folder in which nothing else may stand, and in no `.git` judged elsewhere."""
    is_git = any(f"{path}/".startswith(f"{state.path}/.git/") for state in exercise.repositories)
    return not is_git and any(path.startswith(f"{folder}/") for folder in exercise.whole)


def _is_open_folder(node: Seen) -> bool:
    return node.kind == "d" and node.mode & _OWNER_ENTERS == _OWNER_ENTERS


async def _judge(evidence: Evidence, path: str, node: Node, seen: Seen | None) -> str:
    """Return what is wrong with one path, empty when nothing is."""
    if seen is None:
        return "missing"
    match node:
        case Link():
            return "" if seen.kind == "l" and seen.target == node.target else "not the wanted link"
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
    most = _JSON_BYTES if isinstance(node, Json) else _ARCHIVE_BYTES
    if seen.size > most:
        return "too long"
    content = await evidence.read_file(path, most=most)
    if isinstance(node, Json):
        return "" if is_json(content, node.value) else "not the wanted JSON"
    return "" if is_archive(content, node) else "not the wanted archive"


def is_json(content: bytes, value: Any) -> bool:
    """Tell whether a text is JSON for a value: no key twice, numbers and truth values told apart."""
    try:
        found = json.loads(content.decode(), object_pairs_hook=_unique, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return _is_same(found, value)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key stands twice")
    return made


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _is_same(found: Any, value: Any) -> bool:
    if isinstance(value, dict):
        return isinstance(found, dict) and _same_items(
            cast("dict[str, Any]", found), cast("dict[str, Any]", value)
        )
    if isinstance(value, list):
        return isinstance(found, list) and _same_rows(
            [*cast("Iterable[Any]", found)], [*cast("Iterable[Any]", value)]
        )
    is_alike = isinstance(found, bool) == isinstance(value, bool)
    return bool(is_alike and found == value)


def _same_items(found: dict[str, Any], value: dict[str, Any]) -> bool:
    return found.keys() == value.keys() and all(_is_same(found[key], value[key]) for key in value)


def _same_rows(found: list[Any], value: list[Any]) -> bool:
    return len(found) == len(value) and all(map(_is_same, found, value))


def is_archive(content: bytes, wanted: Archive) -> bool:
    """Tell whether bytes are a tar archive of exactly the wanted files."""
    try:
        plain = _unzipped(content) if wanted.gzipped else content
        with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as archive:
            return _holds(archive, wanted)
    except (tarfile.TarError, zlib.error, OSError, ValueError, EOFError, OverflowError, RecursionError):
        return False


def _unzipped(content: bytes) -> bytes:
    reader = zlib.decompressobj(_FROM_GZIP)
    plain = reader.decompress(content, _ARCHIVE_BYTES)
    if not reader.eof or reader.unused_data:
        raise ValueError("not one whole gzip stream of bounded length")
    return plain


def _holds(archive: tarfile.TarFile, wanted: Archive) -> bool:
    found: dict[str, bytes] = {}
    for member in archive:
        if member.isdir():
            continue
        name = member.name.removeprefix("./")
        expected = wanted.members.get(name)
        is_plain = member.isreg() and not member.issparse()
        if not is_plain or expected is None or name in found or member.size != len(expected):
            return False
        body = archive.extractfile(member)
        found[name] = body.read() if body is not None else b""
    return found == wanted.members
