"""What the group that the engine made for a container says of its processes; nothing is written to it."""

import os
from contextlib import suppress
from pathlib import Path


class ContainerGroup:
    """What the engine's group for a container counts of its processes, as far as that can be read."""

    def __init__(self, pid: int, mounts: Path = Path("/sys/fs/cgroup")) -> None:
        """Find the group.

        Args:
            pid: A process of the container, as the server sees it.
            mounts: Where cgroup file systems are mounted.
        """
        rows = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
        found = {name: path for _, names, path in rows for name in names.split(",")}
        if "pids" in found:
            folder = mounts / "pids" / found["pids"].lstrip("/")
        else:
            folder = mounts / found.get("", "/").lstrip("/")
        self._current = _open(folder / "pids.current")
        self._events = _open(folder / "pids.events")

    def alive(self) -> int:
        """Return how many processes and threads live; 0 where nobody says."""
        with suppress(OSError, ValueError):
            return int(os.pread(self._current, 64, 0))
        return 0

    def denials(self) -> int:
        """Return how often the process limit refused somebody; 0 where nobody says."""
        with suppress(OSError, ValueError, IndexError):
            return int(os.pread(self._events, 256, 0).split()[1])
        return 0

    def close(self) -> None:
        """Let the files go."""
        for descriptor in (self._current, self._events):
            if descriptor >= 0:
                os.close(descriptor)
        self._current = self._events = -1


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1
