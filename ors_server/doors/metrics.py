"""Metrics of a server in the text format of Prometheus, at `GET /metrics`, for trainers' credentials.

Every figure is read when it is asked for; between two requests nothing runs.
"""

from importlib import import_module
from typing import Final

import anyio.to_thread

from ors_server.alarms.watched_runs import AlarmBook
from ors_server.doors.access import Keyring, Role, credential_from
from ors_server.doors.control.peers import Peers
from ors_server.doors.http import messages as http
from ors_server.doors.http.messages import HttpMeters
from ors_server.model.errors import OrsServerError
from ors_server.sessions.manager import SessionManager

METRICS_PATH: Final = "/metrics"
CONTENT_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"


class MetricsDoor:
    """Answers `GET /metrics`; of a server with several hosts, with the figures of all of them."""

    def __init__(
        self,
        manager: SessionManager,
        keyring: Keyring,
        http_meters: HttpMeters,
        alarms: AlarmBook,
        peers: Peers,
    ) -> None:
        self._manager = manager
        self._keyring = keyring
        self._http = http_meters
        self._alarms = alarms
        self._peers = peers
        self._started = manager.services.clock.now().timestamp()

    async def __call__(self, scope: http.Scope, receive: http.Receive, send: http.Send) -> None:
        """Serve one request."""
        del receive
        headers = http.read_headers(scope)
        try:
            self._keyring.identify(credential_from(headers)).require(Role.TRAINER)
        except OrsServerError as error:
            await http.send_fault(send, error)
            return
        # It takes 40 ms the first time, and a server without a scraper never needs it.
        await anyio.to_thread.run_sync(import_module, "ors_server.doors.metric_families")
        from ors_server.doors.metric_families import collect, merge, write  # noqa: PLC0415  (as above)

        families = list(collect(self._manager, self._http, self._alarms, self._started))
        text = await anyio.to_thread.run_sync(write, families)
        if self._peers.are_asked(headers):
            answers = {self._peers.slot.name: text, **await self._peers.metrics(headers)}
            text = await anyio.to_thread.run_sync(merge, answers)
        await http.send_pieces(send, 200, [text], CONTENT_TYPE)
