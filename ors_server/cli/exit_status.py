"""The exit statuses of every command; docs/reference/cli.md and `--help` show this table."""

from enum import IntEnum


class ExitStatus(IntEnum):
    """The exit status of a command."""

    SUCCESS = 0
    FAILED = 1
    MISUSED = 2
    INTERRUPTED = 130
    CUT_OFF = 141


MEANINGS = {
    ExitStatus.SUCCESS: "success",
    ExitStatus.FAILED: "something that the command ran or looked at failed",
    ExitStatus.MISUSED: "the command line or a setting is wrong; nothing was done",
    ExitStatus.INTERRUPTED: "ended by Ctrl-C",
    ExitStatus.CUT_OFF: "the reader of the output closed it",
}
"""The meaning of each status, as `--help` and the reference show it."""
EPILOG = "Exit status: " + "; ".join(f"{status.value} {words}" for status, words in MEANINGS.items()) + "."
