"""The former names of the sessions' manager and its options."""

from ors_server.sessions.manager import SessionManager as LocalEngine
from ors_server.sessions.manager import open_manager as open_local_engine
from ors_server.sessions.session_services import SessionOptions as EngineOptions

__all__ = ["EngineOptions", "LocalEngine", "open_local_engine"]
