"""Searches the files of the work dir; a separate program, since a pattern may never end.

Reads a request from standard input and prints one answer, both JSON.
"""

import fnmatch
import json
import os
import re
import stat
import sys

_MAX_MATCHES = 200
_MAX_CHARACTERS = 300
_MAX_BYTES = 16 << 20
_LOOK_BYTES = 8192


def search(request: dict[str, str]) -> dict[str, object]:
    """Return the matches, or an error.

    Args:
        request: `pattern`, `path` relative to the current folder, `meant` if there is no such path, and
            `glob`, empty for all files.
    """
    try:
        pattern = re.compile(request["pattern"])
    except (re.error, OverflowError, RecursionError) as error:
        return {"error": f"the pattern is not a Python regular expression: {error}"}
    root = os.path.realpath(".")
    start = os.path.realpath(request["path"] if os.path.lexists(request["path"]) else request["meant"])
    if start != root and not start.startswith(root + "/"):
        return {"error": "the path leads out of the work dir"}
    if not os.path.exists(start):
        return {"error": "no such file or folder"}
    matches: list[tuple[str, int, str]] = []
    for path in walk(start):
        name = os.path.relpath(path, root)
        if request["glob"] and not is_named(name, request["glob"]):
            continue
        for number, line in matching_lines(pattern, path):
            if len(matches) >= _MAX_MATCHES:
                return {"matches": matches, "cut": True}
            matches.append((name, number, line[:_MAX_CHARACTERS]))
    return {"matches": matches, "cut": False}


def walk(start: str) -> "list[str]":
    """Return the plain files at or below a path, sorted; links are not followed."""
    if not os.path.isdir(start):
        return [start]
    files: list[str] = []
    for folder, _, names in os.walk(start):
        files += [os.path.join(folder, name) for name in names]
    return sorted(files)


def is_named(name: str, glob: str) -> bool:
    """Return whether a glob matches: the whole path if it has a slash, else the last component."""
    return fnmatch.fnmatchcase(name if "/" in glob else os.path.basename(name), glob)


def matching_lines(pattern: "re.Pattern[str]", path: str) -> "list[tuple[int, str]]":
    """Return the lines of a text file in which the pattern is found, with their numbers from 1."""
    try:
        # Without following links or waiting: the file may have become a link or a pipe since the folder was
        # read.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return []
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_BYTES:
            return []
        content = file.read()
    if b"\0" in content[:_LOOK_BYTES]:
        return []
    lines = content.decode(errors="replace").split("\n")
    return [(number, line.rstrip("\r")) for number, line in enumerate(lines, 1) if pattern.search(line)]


if __name__ == "__main__":
    json.dump(search(json.load(sys.stdin)), sys.stdout)
