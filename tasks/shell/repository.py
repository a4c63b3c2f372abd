"""Git repositories made and judged without git: objects, refs and an index as bytes.

A repository at the start is computed here, so that it is the same with every version of git.
Hashing follows git's object format (gitformat-pack(5), git-hash-object(1)), the index gitformat-index(5).
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

FILE_MODE = "100644"
FOLDER_MODE = "40000"
ZERO = "0" * 40
PERSON = "Robin Field <robin@example.org>"
"""Author and committer of every given commit, and of the agent's (through the repository's config)."""

_CONFIG = """\
[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tlogallrefupdates = true
[user]
\tname = Robin Field
\temail = robin@example.org
[gc]
\tauto = 0
"""
_INDEX_ENTRY = struct.Struct(">10I20sH")
_NAME_LENGTH_LIMIT = 0xFFF
_STAGE_SHIFT = 12


@dataclass(frozen=True, slots=True)
class CommitState:
    """What a commit must be; what is `None` does not matter."""

    oid: str | None = None
    """Exactly this commit."""
    tree: str | None = None
    message: str | None = None
    """Without the white space at its ends."""
    parents: tuple[CommitState, ...] | None = None
    """In order."""


@dataclass(frozen=True, slots=True)
class RepositoryState:
    """What a repository must hold."""

    path: str
    """Of the folder that holds `.git`, relative to the work dir."""
    head: str
    """The ref that HEAD points to."""
    refs: Mapping[str, CommitState]
    """All branches and tags; there are no others. A tag may be annotated."""
    index: str
    """The tree that the index must hold, without conflicts."""
    is_settled: bool = True
    """Whether no merge, cherry-pick, revert or rebase may be going on."""


def oid_of(kind: str, content: bytes) -> str:
    """Return an object's name, 40 hexadecimal digits."""
    return hashlib.sha1(
        b"%s %d\0%s" % (kind.encode(), len(content), content), usedforsecurity=False
    ).hexdigest()


def write_tree(blobs: Mapping[str, str], add: Callable[[str, bytes], str] = oid_of) -> str:
    """Return the name of the tree that holds plain files.

    Args:
        blobs: Paths to names of contents.
        add: Takes the kind and content of each tree, and returns its name.
    """
    here: dict[str, str] = {}
    below: dict[str, dict[str, str]] = {}
    for path, oid in blobs.items():
        top, slash, rest = path.partition("/")
        if slash:
            below.setdefault(top, {})[rest] = oid
        else:
            here[top] = oid
    rows = [(name, FILE_MODE, name, oid) for name, oid in here.items()]
    # git sorts a folder as if its name ended in a slash
    rows += [(f"{name}/", FOLDER_MODE, name, write_tree(inner, add)) for name, inner in below.items()]
    rows.sort(key=lambda row: row[0].encode())
    return add(
        "tree", b"".join(f"{mode} {name}\0".encode() + bytes.fromhex(oid) for _, mode, name, oid in rows)
    )


@dataclass(slots=True)
class Repository:
    """A repository in the making."""

    path: str
    objects: dict[str, tuple[str, bytes]] = field(default_factory=dict[str, "tuple[str, bytes]"])
    """Name to kind and content."""
    refs: dict[str, str] = field(default_factory=dict[str, str])
    head: str = "refs/heads/main"
    reflog: list[str] = field(default_factory=list[str])
    """Lines of HEAD's reflog, without newlines."""
    extra: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """Further files of `.git`."""
    when: int = 1_767_600_000
    """Time of the next commit in Unix seconds."""

    def add(self, kind: str, content: bytes) -> str:
        """Store an object and return its name."""
        oid = oid_of(kind, content)
        self.objects[oid] = (kind, content)
        return oid

    def tree(self, files: Mapping[str, bytes]) -> str:
        """Store files, by path, as a tree of plain files and return its name."""
        blobs = {path: self.add("blob", content) for path, content in files.items()}
        return write_tree(blobs, self.add)

    def commit(self, files: Mapping[str, bytes], message: str, parents: Sequence[str] = ()) -> str:
        """Store a commit of files, by path, and return its name; an hour passes."""
        lines = [f"tree {self.tree(files)}", *(f"parent {parent}" for parent in parents)]
        lines += [f"{role} {PERSON} {self.when} +0000" for role in ("author", "committer")]
        self.when += 3600
        return self.add("commit", ("\n".join(lines) + f"\n\n{message}\n").encode())

    def moved(self, old: str, new: str, why: str) -> None:
        """Note in HEAD's reflog that it moved."""
        self.reflog.append(f"{old} {new} {PERSON} {self.when} +0000\t{why}")

    def chain(self, steps: Sequence[tuple[Mapping[str, bytes], str]], start: str | None = None) -> list[str]:
        """Store commits one upon the other, each with its files and message, and return their names."""
        oids: list[str] = []
        parent = start
        for files, message in steps:
            oid = self.commit(files, message, [parent] if parent else [])
            self.moved(parent or ZERO, oid, f"commit{'' if parent else ' (initial)'}: {message}")
            oids.append(oid)
            parent = oid
        return oids

    def files(self, staged: Mapping[str, bytes] | Sequence[tuple[str, int, bytes]]) -> dict[str, bytes]:
        """Return the files of `.git`, by path from the work dir.

        Args:
            staged: What the index holds: files by path, or (path, stage, content) with conflicts.
        """
        rows = (
            [(path, 0, content) for path, content in staged.items()]
            if isinstance(staged, Mapping)
            else staged
        )
        inside = {
            "HEAD": f"ref: {self.head}\n".encode(),
            "config": _CONFIG.encode(),
            "index": self._index(rows),
            "info/exclude": b"",
            **{ref: f"{oid}\n".encode() for ref, oid in self.refs.items()},
            **{f"objects/{oid[:2]}/{oid[2:]}": _loose(*content) for oid, content in self.objects.items()},
            **self.extra,
        }
        if self.reflog:
            inside["logs/HEAD"] = "".join(f"{line}\n" for line in self.reflog).encode()
        return {f"{self.path}/.git/{name}": content for name, content in inside.items()}

    def _index(self, rows: Sequence[tuple[str, int, bytes]]) -> bytes:
        entries = b"".join(
            _index_entry(path, stage, self.add("blob", content), len(content))
            for path, stage, content in sorted(rows, key=lambda row: (row[0].encode(), row[1]))
        )
        body = b"DIRC" + struct.pack(">II", 2, len(rows)) + entries
        return body + hashlib.sha1(body, usedforsecurity=False).digest()


def _index_entry(path: str, stage: int, oid: str, size: int) -> bytes:
    """An entry whose times are 0, so that git looks at the file itself."""
    name = path.encode()
    flags = min(len(name), _NAME_LENGTH_LIMIT) | stage << _STAGE_SHIFT
    mode = int(FILE_MODE, 8)
    entry = _INDEX_ENTRY.pack(0, 0, 0, 0, 0, 0, mode, 0, 0, size, bytes.fromhex(oid), flags) + name
    return entry + b"\0" * (8 - len(entry) % 8)


def _loose(kind: str, content: bytes) -> bytes:
    return zlib.compress(b"%s %d\0%s" % (kind.encode(), len(content), content))
