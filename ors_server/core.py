"""The `Context` of resources, under the module from which AgentFly's pages import it."""

from ors_server.resources import Context

__all__ = ["Context"]
