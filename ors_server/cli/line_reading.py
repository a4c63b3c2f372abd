"""Reads lines: with editing, history and completion at a terminal, as they are from a pipe."""

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

from ors_server.errors import SettingsError
from ors_server.user_folders import user_folder

Read: TypeAlias = Callable[[str], str | None]
"""Reads a line after a prompt; `None` at the end of the input."""
MAX_LINES = 1000
"""Most lines of the history."""


def read_line(prompt: str) -> str | None:
    """Read a line, with a prompt at a terminal; `None` at the end of the input."""
    if sys.stdin.isatty():
        try:
            return input(prompt)
        except EOFError:
            return None
    line = sys.stdin.readline()
    return line.rstrip("\n") if line else None


@contextmanager
def editing(words: Callable[[], Sequence[str]]) -> Generator[None]:
    """Edit lines at a terminal: arrow keys, a lasting history, completion of the first word by Tab."""
    readline = _readline() if sys.stdin.isatty() else None
    if readline is None:
        yield
        return
    with suppress(OSError, SettingsError):  # without a home folder, the history ends with the command
        readline.read_history_file(history_file())
    is_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
    readline.set_completer_delims(" ")
    readline.set_completer(partial(_offer, words))
    try:
        yield
    finally:
        readline.set_completer(None)
        readline.set_history_length(MAX_LINES)
        with suppress(OSError, SettingsError):
            history = history_file()
            history.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(history)


def history_file() -> Path:
    """Return the file of the history, in the user's state folder (XDG Base Directory)."""
    return user_folder("XDG_STATE_HOME", ".local", "state") / "ors-server" / "play_history"


def _offer(words: Callable[[], Sequence[str]], typed: str, number: int) -> str | None:
    found = [word for word in words() if word.startswith(typed)]
    return f"{found[number]} " if number < len(found) else None


def _readline() -> ModuleType | None:
    try:
        import readline
    except ImportError:  # Python was built without it
        return None
    return readline
