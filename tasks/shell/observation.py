"""Lists the work dir, without following links and without running anything of the agent's.

The list is made by `find` of the system, in a fresh program over a read-only view of the work dir.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ors_server import Evidence

_FORMAT = r"%y\0%m\0%n\0%s\0%l\0%p\0"
_FIELDS = 6
_MAX_NODES = 5_000
"""Far more than any exercise has."""
_FOUND_ALL = (0, 1)
"""Exit codes of find: 1 says that some path was not there."""


class UnjudgedError(RuntimeError):
    """The grader could not check the work dir, so there is no grade."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The file, folder or link at a path."""

    kind: str
    """As find writes it: f, d, l, p, s, b or c."""
    mode: int
    links: int
    """Names that the file has."""
    size: int
    """Bytes."""
    target: str
    """Of a link."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The requested part of the work dir."""

    nodes: dict[str, Seen]
    """By path relative to the work dir; what is not there has no entry."""
    is_complete: bool
    """Whether the list is complete; otherwise there is far more than any exercise has."""


async def observe(
    evidence: Evidence, paths: Iterable[str], folders: Sequence[str], left_out: Sequence[str] = ()
) -> Observation:
    """Look at paths, and at everything below folders.

    Args:
        evidence: The work dir as the agent left it.
        paths: Relative to the work dir.
        folders: Likewise; they need not exist.
        left_out: What is passed over below the folders, with everything in it.

    Raises:
        UnjudgedError: The program that looks does not work.
    """
    starts = [f"./{path}" for path in sorted({*paths, *folders})]
    inside = [pattern for folder in folders for pattern in (f"./{folder}", f"./{folder}/*")]
    # Find prints every path that it reaches, and descends into these folders only.
    going_on = [*_any_of(inside), "!", *_any_of([f"./{path}" for path in left_out])]
    run = await evidence.run(["find", *starts, "-printf", _FORMAT, *going_on, "-o", "-prune"])
    is_flooded = run.output_limit or run.stdout.omitted or run.timed_out
    if is_flooded or run.stdout.kept.count(b"\0") > _FIELDS * _MAX_NODES:
        return Observation({}, is_complete=False)
    if run.exit_code not in _FOUND_ALL:
        raise UnjudgedError(f"find ended with {run.exit_code}: {run.stderr.text.strip()[:500]}")
    fields = [field.decode(errors="surrogateescape") for field in run.stdout.kept.split(b"\0")]
    nodes = {
        path.removeprefix("./"): Seen(kind, int(mode, 8), int(links), int(size), target)
        for kind, mode, links, size, target, path in zip(
            *(fields[at:-1:_FIELDS] for at in range(_FIELDS)), strict=True
        )
    }
    return Observation(nodes, is_complete=True)


def _any_of(patterns: Sequence[str]) -> list[str]:
    """The words with which find tells whether a path matches one of the patterns."""
    words = [word for pattern in patterns for word in ("-o", "-path", pattern)]
    return ["(", *(words[1:] or ["-false"]), ")"]
