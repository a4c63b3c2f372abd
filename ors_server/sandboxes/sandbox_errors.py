"""Errors of sandboxes, and whom each blames.

A command that fails, is killed or runs out of time is a result and not an exception. An exception means that
the caller requested something that no sandbox does, or that the machinery failed.
"""

from ors_server.model.errors import ClientError, MachineryError, SettingsError


class SandboxError(MachineryError):
    """The sandbox or its backend failed; its files may be gone."""

    code = "sandbox_failed"


class SandboxUnavailableError(SandboxError):
    """The backend cannot isolate anything on this machine; the message says what refused."""

    code = "sandbox_unavailable"


class SandboxStartError(SandboxError):
    """A sandbox did not start within its time."""

    code = "sandbox_start"


class SandboxClosedError(SandboxError):
    """The sandbox was closed while the operation waited, or before it began."""

    code = "sandbox_closed"


class SandboxStarvedError(SandboxError):
    """A program got too little processor time to be judged by its time limit."""

    code = "sandbox_starved"


class SnapshotError(SandboxError):
    """The files could not be copied out of, or back into, the sandbox."""

    code = "sandbox_snapshot"


class FreshEndedError(SandboxError):
    """A fresh program was sent input after it had ended, or had closed its standard input."""

    code = "fresh_ended"


class SandboxCommandError(ClientError):
    """A command is not a text that a shell can be given (a NUL, a lone surrogate, too long)."""

    code = "sandbox_command"


class SandboxShellError(ClientError):
    """No shell starts over the session's files as its own programs have left them."""

    code = "sandbox_shell"


class SandboxFileError(ClientError):
    """A file operation was refused; the message has the file system's reason."""

    code = "sandbox_file"

    def __init__(self, path: str, reason: str) -> None:
        """Build the message from the path and the reason, such as "no such file"."""
        super().__init__(f"{path!r}: {reason}")
        self.path = path


class SandboxPathError(SandboxFileError):
    """The path leads out of the work dir, or through something that is not a plain file or folder.

    Attributes:
        is_never_valid: Whether no file can make the path right, because it names nothing in a work dir.
    """

    code = "sandbox_path"

    def __init__(self, path: str, reason: str, *, is_never_valid: bool = False) -> None:
        super().__init__(path, reason)
        self.is_never_valid = is_never_valid


class SandboxFileMissingError(SandboxFileError):
    """Nothing is at that path."""

    code = "sandbox_file_missing"


class SandboxFileTooLargeError(SandboxFileError):
    """The file is larger than the operation allows."""

    code = "sandbox_file_too_large"


class UnsandboxedRefusedError(SettingsError):
    """The only backend that is left isolates nothing, and the operator did not allow that."""

    code = "unsandboxed_refused"


class SandboxFrozenError(ClientError):
    """The sandbox is frozen; thaw it before a command can run."""

    code = "sandbox_frozen"
