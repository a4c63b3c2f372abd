"""Paths that agents must not read: the source of environments and of this server.

This matters if they are installed under `/usr`, which sandboxes show. Backends hide them where they can; a
probe from inside a sandbox checks it.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import cache_from_source
from itertools import islice
from pathlib import Path

from ors_server.sandboxes.base import Sandbox

_LOOK_LIMIT = 20.0
_SAMPLES = 40
"""Files of each hidden path that the probe tries to read."""
_LOOK = """\
import importlib.util, json, sys
names, files = json.loads(sys.argv[1])
for name in names:
    try:
        found = importlib.util.find_spec(name)
    except Exception:
        continue
    if found is not None and found.origin:
        files.append(found.origin)
for file in files:
    try:
        with open(file, "rb") as opened:
            if not opened.read(1):
                continue
    except OSError:
        continue
    print(file)
    break
"""


@dataclass(frozen=True)
class HiddenPaths:
    """Paths on this host that hold answers, or the programs that judge them."""

    places: tuple[Path, ...] = ()
    """Folders and files, resolved."""
    modules: tuple[str, ...] = ()
    """Names under which they can be imported."""
    further: tuple[Path, ...] = ()
    """Folders that are hidden where possible, and that the probe does not check."""

    def below(self, folder: Path) -> list[Path]:
        """Return the existing hidden paths at or below a resolved folder."""
        places = (*self.places, *self.further)
        return [path for path in places if path.is_relative_to(folder) and path.exists()]

    def covers(self, path: Path) -> bool:
        """Return whether a resolved path is hidden, or is in a hidden folder."""
        return any(path.is_relative_to(hidden_path) for hidden_path in (*self.places, *self.further))


def source_paths(file: str, package_folders: Sequence[str] = ()) -> list[Path]:
    """Return the paths of a module's source and of its compiled files."""
    if package_folders:
        return [Path(folder).resolve() for folder in package_folders]
    source = Path(file).resolve()
    try:
        compiled = Path(cache_from_source(str(source)))
    except NotImplementedError:
        return [source]
    return [source, *sorted(compiled.parent.glob(f"{source.stem}.*"))]


async def find_visible(sandbox: Sandbox, hidden: HiddenPaths) -> str | None:
    """Return a hidden file that can be read inside a sandbox; None if all are hidden."""
    files: list[str] = []
    for hidden_path in hidden.places:
        below = (str(Path(folder, name)) for folder, _, names in os.walk(hidden_path) for name in names)
        files += [str(hidden_path)] if hidden_path.is_file() else islice(below, _SAMPLES)
    names = json.dumps([list(hidden.modules), files])
    run = await sandbox.run_fresh(["python3", "-I", "-c", _LOOK, names], time_limit=_LOOK_LIMIT)
    if run.exit_code == 0:
        return run.stdout.text.strip() or None
    # An image without Python has no import system to ask: the shell tries the known paths only.
    script = 'for f; do [ -n "$(head -c 1 "$f" 2>/dev/null | tr "\\0" x)" ] && echo "$f" && break; done'
    run = await sandbox.run_fresh(["/bin/sh", "-c", script, "sh", *files], time_limit=_LOOK_LIMIT)
    return run.stdout.text.strip() or None


def readable_around(roots: Sequence[str], hidden: HiddenPaths) -> tuple[list[str], list[str]]:
    """Return paths that may be read whole, and folders that may only be listed, without hidden files.

    For isolations that can allow but not forbid: a folder that contains a hidden path is replaced by its
    other content.

    Args:
        roots: What may be read except the hidden paths; a path that does not exist is returned as it is.
    """
    readable: list[str] = []
    listed: list[str] = []
    waiting, seen = list(roots), set[Path]()
    while waiting:
        path = waiting.pop()
        real = Path(path).resolve()
        if hidden.covers(real) or (real in seen and path not in roots):
            continue
        seen.add(real)
        if not hidden.below(real):
            readable.append(path)
        else:
            listed.append(str(real))
            waiting += [str(child) for child in real.iterdir()]
    return readable, listed
