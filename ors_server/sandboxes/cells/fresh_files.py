"""The files of fresh programs on the host: written once, readable for every program, writable for none."""

from collections.abc import Mapping
from pathlib import Path

import anyio

from ors_server.sandboxes.cells.server_state import remove_tree
from ors_server.sandboxes.sandbox_errors import SandboxStartError

_TURN_LIMIT = 10.0


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files (relative names to contents) into a new folder.

    Raises:
        SandboxStartError: They do not fit, or one's name is another's folder.
    """
    try:
        folder.mkdir(mode=0o755)
        for name, content in files.items():
            path = folder / name
            for above in reversed(path.relative_to(folder).parents[:-1]):
                (folder / above).mkdir(mode=0o755, exist_ok=True)
            path.write_bytes(content)
            path.chmod(0o444)
    except OSError as error:
        remove_tree(folder)
        raise SandboxStartError(f"the files of a fresh program cannot be written: {error}") from error


class SharedFolder:
    """One folder for all fresh programs of a sandbox, if they cannot have a folder each.

    Programs with the same files share it; one with others waits until those have ended.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files: Mapping[str, bytes] = {}
        self._users = 0
        self._is_free = anyio.Event()

    async def take(self, files: Mapping[str, bytes]) -> None:
        """Have these files in the folder until `leave`.

        Raises:
            SandboxStartError: Programs with other files did not end for 10 s, or writing failed.
        """
        if self._users and files != self._files:
            await self._wait_for_turn()
        if not self._users:
            remove_tree(self.path)
            write_files(self.path, files)
            self._files = dict(files)
        self._users += 1

    def leave(self) -> None:
        """Stop using the files; the last user removes them."""
        self._users -= 1
        if not self._users:
            remove_tree(self.path)
            self._is_free.set()
            self._is_free = anyio.Event()

    async def _wait_for_turn(self) -> None:
        with anyio.move_on_after(_TURN_LIMIT):
            while self._users:
                await self._is_free.wait()
            return
        raise SandboxStartError(
            f"fresh programs with other files have held {self.path} for {_TURN_LIMIT:g} s; end them first"
        )
