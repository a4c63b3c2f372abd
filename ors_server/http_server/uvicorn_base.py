"""uvicorn as this server extends it: the only module that imports uvicorn.

uvicorn documents its settings, not how to derive from its classes. `bounded_protocol` and `bounded_server`
derive from the classes below. They were checked against uvicorn 0.54.0, so `pyproject.toml` admits 0.54 only;
`tests/contract/test_uvicorn.py` lists each inherited name that is used, and names what a release changed.
"""

from uvicorn import Config, Server
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

__all__ = ["STATUS_LINE", "BaseProtocol", "Config", "RequestResponseCycle", "Server", "ServerState"]


class BaseProtocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 over httptools, with a public name for what is used of its private ones."""

    def stop_idle_timer(self) -> None:
        """Stop the timer that closes an idle connection; without one, do nothing."""
        self._unset_keepalive_if_required()
