"""The exit statuses of every command; docs/reference/cli.md and `--help` show this table."""

from enum import IntEnum


class ExitStatus(IntEnum):
    """What a command came to."""

    SUCCESS = 0
    """The command did what it was asked to."""
    FAILED = 1
    """It ran, and something failed: a check, a call, an attempt, a comparison, a connection."""
    MISUSED = 2
    """The command line, a setting or a settings file makes no sense; nothing was done."""
    INTERRUPTED = 130
    """Ctrl-C ended it."""
    CUT_OFF = 141
    """Whoever read the output closed it."""


MEANINGS = {
    ExitStatus.SUCCESS: "success",
    ExitStatus.FAILED: "something that the command ran or looked at failed",
    ExitStatus.MISUSED: "the command line or a setting makes no sense; nothing was done",
    ExitStatus.INTERRUPTED: "ended by Ctrl-C",
    ExitStatus.CUT_OFF: "the reader of the output closed it",
}
"""The meaning of each status, as `--help` and the reference show it."""
EPILOG = "Exit status: " + "; ".join(f"{status.value} {words}" for status, words in MEANINGS.items()) + "."
