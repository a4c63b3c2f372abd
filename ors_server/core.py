"""What a rollout's tools and rewards share, under the module that AgentFly's pages import it from."""

from ors_server.resources import Context

__all__ = ["Context"]
