"""Shared code of the exercises with a git repository: a project, its history, and the exercise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ors_server_tasks.shell.draw import Draw
from ors_server_tasks.shell.exercise import Exercise, File, Node, Tree
from ors_server_tasks.shell.repository import CommitState, Repository, RepositoryState
from ors_server_tasks.shell.vocabulary import SERVICES, WORDS, sentence

Files = dict[str, bytes]
"""Paths from the repository's folder to contents."""

FOLDER = "repo"
MAIN = "refs/heads/main"
NO_OTHER_FILES = "Leave no other files in repo than those that belong there."


@dataclass(slots=True)
class Bench:
    """A repository in the making and the files next to it."""

    repository: Repository
    beside: Tree = field(default_factory=dict[str, "Node"])
    """Files outside the repository that are given and stay."""
    written: Tree = field(default_factory=dict[str, "Node"])
    """Files outside the repository that are required."""

    def exercise(self, ask: str, before: Given, required: Required, gold: str) -> Exercise:
        """Finish an exercise."""
        repository = self.repository
        staged = before.staged if before.staged is not None else before.files
        index = repository.tree(required.staged if required.staged is not None else required.files)
        state = RepositoryState(FOLDER, required.head, required.refs, index)
        hidden = {path: File(content) for path, content in repository.files(staged).items()}
        hidden |= {f"{FOLDER}/.git/{path}": File(content) for path, content in before.raw.items()}
        return Exercise(
            f"The folder repo is a git repository. {ask} {NO_OTHER_FILES}",
            {**_placed(before.files), **self.beside},
            {**_placed(required.files), **self.beside, **self.written},
            f"cd {FOLDER}; {gold}",
            whole=(FOLDER,),
            hidden={**hidden},
            repositories=(state,),
        )


@dataclass(frozen=True, slots=True)
class Given:
    """The repository at the start."""

    files: Files
    """The work tree."""
    staged: Files | list[tuple[str, int, bytes]] | None = None
    """The index, (path, stage, content) with conflicts; `None`: the work tree."""
    raw: Files = field(default_factory=dict[str, bytes])
    """Files of `.git`, by path in it, that replace what would be there."""


@dataclass(frozen=True, slots=True)
class Required:
    """The repository at the end."""

    files: Files
    """The work tree."""
    refs: Mapping[str, CommitState]
    staged: Files | None = None
    """The index; `None`: the work tree."""
    head: str = MAIN


def _placed(files: Files) -> Tree:
    return {f"{FOLDER}/{path}": File(content) for path, content in files.items()}


def project(draw: Draw) -> Files:
    """Draw the files of a small project."""
    files: Files = {"README.md": f"# {draw.pick(WORDS)}\n\n{sentence(draw)}\n".encode()}
    for service in draw.pick_some(SERVICES, 3):
        files[f"src/{service}.py"] = "".join(
            f"{word} = {draw.between(1, 99)}\n" for word in draw.pick_some(WORDS, 12)
        ).encode()
    files["docs/guide.md"] = f"{sentence(draw)}\n{sentence(draw)}\n".encode()
    return files


def edited(draw: Draw, files: Files, path: str) -> Files:
    """Return the files with a line appended to one, which may be new."""
    return {
        **files,
        path: files.get(path, b"")
        + f"{draw.pick(WORDS)}_{draw.between(100, 999)} = {draw.between(1, 99)}\n".encode(),
    }


def subject(draw: Draw) -> str:
    """Draw a commit's message."""
    verb = draw.pick(("Add", "Change", "Improve", "Extend", "Rework", "Document", "Simplify", "Test"))
    return f"{verb} {' '.join(draw.pick_some(WORDS, 2))} {draw.between(10, 99)}"


def history(draw: Draw, count: int) -> list[tuple[Files, str]]:
    """Draw the states of a project, each with its message."""
    steps: list[tuple[Files, str]] = []
    files = project(draw)
    for _ in range(count):
        steps.append((files, subject(draw)))
        files = edited(draw, files, draw.pick(sorted(files)))
    return steps


def exactly(oid: str) -> CommitState:
    """The state that only one commit has."""
    return CommitState(oid=oid)


def quoted(text: str) -> str:
    """Quote a text for bash."""
    return "'" + text.replace("'", "'\\''") + "'"
