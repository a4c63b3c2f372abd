"""Errors of resources."""

from ors_server.model.errors import AuthorError, MachineryError


class ResourceError(MachineryError):
    """A resource could not be acquired, or failed."""

    code = "resource_failed"


class ResourceStartError(ResourceError):
    """A resource did not start, because its own code raised."""

    code = "resource_start"


class ResourceTimeoutError(ResourceError, TimeoutError):
    """A resource did not become free, did not start, or did not answer, within its time."""

    code = "resource_timeout"


class ResourceClosedError(ResourceError):
    """The resource has ended, or its pool or context is closed."""

    code = "resource_closed"


class ResourceCallError(AuthorError):
    """A method of a resource in another process raised, or its result cannot be sent."""

    code = "resource_call"

    def __init__(self, message: str, *, kind: str = "", remote_traceback: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.remote_traceback = remote_traceback


class ResourceUseError(AuthorError, ValueError):
    """A request for a resource is wrong: its spec, scope, id or backend."""

    code = "resource_use"


class UnboundResourceError(ResourceUseError):
    """The requested spec is a name, which is not bound to a spec."""

    code = "unbound_resource"


class MissingRequirementError(ResourceUseError):
    """A program, package or file is missing; the message has the command that installs it."""

    code = "missing_requirement"
