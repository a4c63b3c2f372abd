"""The other hosts of a server: what one host answers for all of them is asked of them here.

Every host has the same keys, so a caller's credential is passed on, and each host checks it itself.
"""

import asyncio
from collections.abc import Mapping

import httpx2
from pydantic import ValidationError

from ors_server.client.bounded_http import AnswerBounds, BrokenAnswerError
from ors_server.doors.control.models import Health, HostHealth, SessionPage
from ors_server.model.errors import StartingError
from ors_server.model.host_slot import HostSlot, host_name

ALONE = "x-ors-host-only"
"""A request with this header is answered for its host alone."""
SECONDS = 5.0
"""Seconds in which another host must answer."""
BOUNDS = AnswerBounds()
"""Bounds of another host's answer, whose longest is a page of sessions."""
_PASSED_ON = ("authorization", "x-api-key", "host")


class Peers:
    """Asks the other hosts of a server; a server with one host has no others."""

    def __init__(self, slot: HostSlot) -> None:
        self.slot = slot
        self._others = [number for number in range(slot.count) if number != slot.number]

    def are_asked(self, headers: Mapping[str, str]) -> bool:
        """Return whether a request with these headers is about all hosts, and there are others."""
        return bool(self._others) and ALONE not in headers

    async def session_pages(self, query: str, headers: Mapping[str, str]) -> list[SessionPage]:
        """Return a page of live sessions of each other host.

        Raises:
            StartingError: If one does not answer; a list without its sessions would be wrong.
        """
        path = f"/_ors/sessions?{query}"
        answers = await asyncio.gather(*(self._ask(number, path, headers) for number in self._others))
        try:
            return [SessionPage.model_validate_json(answer) for answer in answers]
        except ValidationError as error:
            raise StartingError(f"a host answered with something else than its sessions: {error}") from error

    async def healths(self, headers: Mapping[str, str]) -> dict[str, HostHealth | None]:
        """Return the health of each other host by its name; `None` for one that does not answer."""
        answers = await asyncio.gather(
            *(self._ask(number, "/_ors/health", headers) for number in self._others), return_exceptions=True
        )
        healths: dict[str, HostHealth | None] = {}
        for number, answer in zip(self._others, answers, strict=True):
            name = host_name(number)
            if isinstance(answer, bytes):
                health = Health.model_validate_json(answer)
                healths[name] = HostHealth(queues=health.queues, loop=health.loop)
            else:
                healths[name] = None
        return healths

    async def metrics(self, headers: Mapping[str, str]) -> dict[str, bytes | None]:
        """Return the metrics of each other host by its name; `None` for one that does not answer."""
        answers = await asyncio.gather(
            *(self._ask(number, "/metrics", headers) for number in self._others), return_exceptions=True
        )
        return {
            host_name(number): answer if isinstance(answer, bytes) else None
            for number, answer in zip(self._others, answers, strict=True)
        }

    async def _ask(self, number: int, path: str, headers: Mapping[str, str]) -> bytes:
        transport = httpx2.AsyncHTTPTransport(uds=str(self.slot.socket_of(number)))
        passed = {name: headers[name] for name in _PASSED_ON if name in headers}
        try:
            async with (
                asyncio.timeout(SECONDS),
                httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
                client.stream("GET", path, headers={**passed, ALONE: "1"}) as response,
            ):
                await BOUNDS.apply(response)
                answer = await response.aread()
                response.raise_for_status()
                return answer
        except (httpx2.HTTPError, TimeoutError) as error:
            raise StartingError(
                f"host {host_name(number)} does not answer, it is starting; repeat the request"
            ) from error
        except BrokenAnswerError as error:
            raise StartingError(f"host {host_name(number)}: {error}") from error
