"""Judges a git repository that an agent may have prepared, without letting git read its configuration.

Refs are read as files. Objects are read by `git cat-file` in a fresh program whose repository is an empty one
of the grader's, with the agent's objects as its store; each object's name is computed again here, so a forged
store cannot pass one content for another. The index is read by `git ls-files` likewise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ors_server import OverLimitError, run_offloaded
from ors_server_tasks.shell.object_store import ObjectStore, StoreError, empty_repository, git_environment
from ors_server_tasks.shell.observation import Observation
from ors_server_tasks.shell.repository import FILE_MODE, CommitState, RepositoryState, write_tree

if TYPE_CHECKING:
    from ors_server import Evidence

_UNSETTLED = (
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "BISECT_LOG",
    "rebase-merge",
    "rebase-apply",
    "index.lock",
)
_REF_BYTES = 200
_PACKED_BYTES = 1 << 16
_HEADER_BYTES = 1 << 16
"""Length of everything in a commit before its message."""
_MAX_FOLDERS = 200
"""Folders in one another; more than any exercise has."""
_PACKED_REF = re.compile(rb"([0-9a-f]{40}) (refs/\S+)")
_STAGED = re.compile(rb"(\d+) ([0-9a-f]{40}) (\d)\t(.+)", re.DOTALL)


def paths_to_see(states: Sequence[RepositoryState]) -> list[str]:
    """Return the paths that judging repositories needs to be looked at."""
    names = ("HEAD", "packed-refs", "index", "objects", "refs", *_UNSETTLED)
    return [f"{state.path}/.git{end}" for state in states for end in ("", *(f"/{name}" for name in names))]


def folders_to_see(states: Sequence[RepositoryState]) -> list[str]:
    """Return the folders below which everything needs to be looked at."""
    return [f"{state.path}/.git/{name}" for state in states for name in ("refs", "objects")]


async def find_repository_faults(evidence: Evidence, state: RepositoryState, seen: Observation) -> list[str]:
    """Return the faults of a repository; empty when all is right.

    Args:
        evidence: The work dir as the agent left it.
        state: The required state.
        seen: The entries at `paths_to_see` and below `folders_to_see`.

    Raises:
        UnjudgedError: It could not be found out.
    """
    faults = _find_shape_faults(state, seen)
    if faults:
        return faults
    inside = f"{state.path}/.git"
    head = await _read(evidence, seen, f"{inside}/HEAD", _REF_BYTES)
    if head.strip() != f"ref: {state.head}".encode():
        faults.append("the wrong branch is checked out")
    refs = await _read_refs(evidence, seen, inside)
    faults += [f"{ref}: should not be there" for ref in sorted(refs.keys() - state.refs.keys())]
    faults += [f"{ref}: missing" for ref in sorted(state.refs.keys() - refs.keys())]
    faults += await evidence.look_patiently(partial(_find_object_faults, evidence, state, refs))
    if await _staged_tree(evidence, inside) != state.index:
        faults.append("what is staged is not what was asked for")
    return faults


async def _find_object_faults(
    evidence: Evidence, state: RepositoryState, refs: Mapping[str, str]
) -> list[str]:
    faults: list[str] = []
    try:
        async with ObjectStore.open(evidence, f"{state.path}/.git/objects") as store:
            for ref in sorted(refs.keys() & state.refs.keys()):
                fault = await _Judge(store).commit(refs[ref], state.refs[ref])
                faults += [f"{ref}: {fault}"] if fault else []
    except StoreError as error:
        faults.append(f"the objects cannot be read: {error}")
    return faults


def _find_shape_faults(state: RepositoryState, seen: Observation) -> list[str]:
    inside = f"{state.path}/.git"
    shapes = {"": "d", "/HEAD": "f", "/index": "f", "/objects": "d", "/refs": "d"}
    faults = [
        f".git{name} is missing or something else"
        for name, kind in shapes.items()
        if (node := seen.nodes.get(inside + name)) is None or node.kind != kind
    ]
    odd = [
        path
        for path, node in seen.nodes.items()
        if path.startswith((f"{inside}/refs/", f"{inside}/objects/", f"{inside}/packed-refs"))
        and node.kind not in {"f", "d"}
    ]
    faults += [f"{path}: neither file nor folder" for path in odd]
    going_on = [name for name in _UNSETTLED if f"{inside}/{name}" in seen.nodes]
    return faults + [f".git/{name}: something is still going on" for name in going_on if state.is_settled]


async def _read(evidence: Evidence, seen: Observation, path: str, max_bytes: int) -> bytes:
    """Read a small file; nothing if it is longer than any sound one, or not there."""
    node = seen.nodes.get(path)
    if node is None or node.kind != "f" or not 0 < node.size <= max_bytes or not node.mode & 0o400:
        return b""
    return await evidence.read_file(path, most=max_bytes)


async def _read_refs(evidence: Evidence, seen: Observation, inside: str) -> dict[str, str]:
    """Branches and tags, with the names of the objects that they point to."""
    packed = await _read(evidence, seen, f"{inside}/packed-refs", _PACKED_BYTES)
    refs = {
        match[2].decode(errors="replace"): match[1].decode()
        for match in map(_PACKED_REF.fullmatch, packed.splitlines())
        if match
    }
    for path in sorted(seen.nodes):
        if path.startswith(f"{inside}/refs/") and seen.nodes[path].kind == "f":
            content = await _read(evidence, seen, path, _REF_BYTES)
            refs[path.removeprefix(f"{inside}/")] = content.decode(errors="replace").strip()
    return {ref: oid for ref, oid in refs.items() if ref.startswith(("refs/heads/", "refs/tags/"))}


async def _staged_tree(evidence: Evidence, inside: str) -> str | None:
    """The tree that the index holds; `None` when it is damaged, or holds conflicts or odd modes."""
    sandbox = evidence.sandbox
    run = await evidence.run(
        ["git", "ls-files", "--stage", "-z"],
        files=empty_repository(),
        environment={
            **git_environment(sandbox.fresh_dir),
            "GIT_INDEX_FILE": f"{sandbox.work_dir}/{inside}/index",
        },
    )
    if run.timed_out or run.exit_code != 0 or run.stdout.omitted:
        return None
    try:
        return await run_offloaded(read_index, run.stdout.kept)
    except OverLimitError:
        return None


def read_index(listed: bytes) -> str | None:
    """Return the tree that an index holds; `None` for conflicts, odd modes and folders without end.

    Args:
        listed: By `git ls-files --stage -z`.
    """
    blobs: dict[str, str] = {}
    for row in listed.split(b"\0")[:-1]:
        match = _STAGED.fullmatch(row)
        if match is None or match[1] != FILE_MODE.encode() or match[3] != b"0":
            return None
        path = match[4].decode(errors="replace")
        if path.count("/") > _MAX_FOLDERS:
            return None
        blobs[path] = match[2].decode()
    return write_tree(blobs)


@dataclass(slots=True)
class _Commit:
    tree: str
    parents: list[str]
    message: str


@dataclass(slots=True)
class _Judge:
    store: ObjectStore

    async def commit(self, oid: str, state: CommitState) -> str:
        """Return what is wrong with a commit, empty when nothing is."""
        if state.oid is not None:
            if oid != state.oid and await self._peeled(oid) != state.oid:
                return "not the required commit"
            await self._require_whole(state.oid)
            return ""
        commit = await self._read(await self._peeled(oid))
        wrong: Mapping[str, bool] = {
            "the files of a commit are not what was asked for": state.tree not in {None, commit.tree},
            "a commit's message is not what was asked for": state.message not in {None, commit.message},
            "a commit has other parents": state.parents is not None
            and len(state.parents) != len(commit.parents),
        }
        fault_found = next((fault for fault, is_so in wrong.items() if is_so), "")
        if fault_found:
            return fault_found
        if state.tree is not None:
            await self._require_tree(commit.tree)
        for parent, required in zip(commit.parents, state.parents or (), strict=state.parents is not None):
            fault = await self.commit(parent, required)
            if fault:
                return f"below it, {fault}"
        return ""

    async def _peeled(self, oid: str) -> str:
        """The commit to which an annotated tag points, or the name itself."""
        kind, content = await self.store.read(oid)
        first, _, _ = content.partition(b"\n")
        return first.removeprefix(b"object ").decode(errors="replace") if kind == "tag" else oid

    async def _read(self, oid: str) -> _Commit:
        kind, content = await self.store.read(oid)
        if kind != "commit":
            raise StoreError("a commit is something else")
        header, _, message = content.partition(b"\n\n")
        if len(header) > _HEADER_BYTES:
            raise StoreError("a commit has a header without end")
        lines = header.decode(errors="replace").split("\n")
        trees = [line.removeprefix("tree ") for line in lines if line.startswith("tree ")]
        parents = [line.removeprefix("parent ") for line in lines if line.startswith("parent ")]
        return _Commit((trees or [""])[0], parents, message.decode(errors="replace").strip())

    async def _require_whole(self, oid: str) -> None:
        """Read a given commit and its ancestors; that is bounded, since its name is known."""
        waiting, done = [oid], set[str]()
        while waiting:
            name = waiting.pop()
            if name not in done:
                done.add(name)
                commit = await self._read(name)
                await self._require_tree(commit.tree)
                waiting += commit.parents

    async def _require_tree(self, oid: str) -> None:
        """Read a tree and all that is in it."""
        _, content = await self.store.read(oid)
        while content:
            entry, _, rest = content.partition(b"\0")
            child, content = rest[:20].hex(), rest[20:]
            if entry.startswith(b"40000 "):
                await self._require_tree(child)
            else:
                await self.store.read(child)
