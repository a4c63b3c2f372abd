"""What can go wrong with a resource, and whom it blames."""

from ors_server.errors import AuthorError, MachineryError


class ResourceError(MachineryError):
    """A resource could not be had, or gave way."""

    code = "resource_failed"


class ResourceStartError(ResourceError):
    """A resource did not start: what it wraps raised."""

    code = "resource_start"


class ResourceTimeoutError(ResourceError, TimeoutError):
    """A resource did not become free, or did not start, within its time."""

    code = "resource_timeout"


class ResourceClosedError(ResourceError):
    """The resource has ended, or the pool or the context that would hand it out is closed."""

    code = "resource_closed"


class ResourceUseError(AuthorError, ValueError):
    """A resource is asked for in a way that cannot be: its spec, scope, id or backend is wrong."""

    code = "resource_use"


class UnboundResourceError(ResourceUseError):
    """A spec that is only a name is asked for, and nobody has said what stands behind it."""

    code = "unbound_resource"
