"""The former name of the sessions' manager."""

from ors_server.sessions.manager import SessionManager as Engine

__all__ = ["Engine"]
