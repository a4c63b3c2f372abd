"""Specifications of environments, under the modules that AgentFly's pages import them from."""
