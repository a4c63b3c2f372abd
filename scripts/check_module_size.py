"""Fails where a Python module is longer than the project allows (docs/decisions name the exceptions)."""

import subprocess
import sys
from pathlib import Path

LIMIT_LINES = 800


def main() -> int:
    """Prints each module over the limit and returns the exit status."""
    root = Path(__file__).resolve().parent.parent
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "*.py"],  # noqa: S607 - git from PATH
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    paths = [root / name for name in listed.split("\0") if name]
    sizes = {path: len(path.read_bytes().splitlines()) for path in paths if path.is_file()}
    too_long = {path: size for path, size in sizes.items() if size > LIMIT_LINES}
    for path, size in sorted(too_long.items()):
        print(f"{path.relative_to(root)}: {size} lines, at most {LIMIT_LINES} are allowed: split it")
    return 1 if too_long else 0


if __name__ == "__main__":
    sys.exit(main())
