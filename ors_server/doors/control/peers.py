"""The other hosts of a server: what one host answers for all of them is asked of them here.

Every host has the same keys, so a caller's credential is passed on, and each host checks it itself.
"""

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from pydantic import TypeAdapter, ValidationError

from ors_server.client.bounded_http import AnswerBounds, BrokenAnswerError
from ors_server.client.event_reader import EventReader
from ors_server.doors.control.models import Health, HostHealth, SessionPage
from ors_server.doors.control.operations import LAST_EVENT
from ors_server.doors.labels import LABELS_HEADER
from ors_server.model.errors import MachineryError, StartingError
from ors_server.model.host_slot import HostSlot, host_name
from ors_server.model.wire import compact_json
from ors_server.supervisor.host_clients import HostClients

HOST_ONLY_HEADER = "x-ors-host-only"
"""A request with this header is answered for its host alone."""
ANSWER_SECONDS = 5.0
"""Seconds in which another host must answer."""
SILENT_SECONDS = 120.0
"""Seconds of silence after which a stream of another host is opened again: its comments come more often."""
BOUNDS = AnswerBounds(max_stream_bytes=None)
"""Bounds of another host's answer, whose longest is a page of sessions; a line of a stream has its own."""
_BATCH = TypeAdapter(dict[str, list[Any]])
_MAX_SHOWN_BYTES = 200
"""Bytes of another host's refusal that an error repeats."""
_PASSED_ON = ("authorization", "x-api-key", "host", LABELS_HEADER)


class Peers:
    """Asks the other hosts of a server; a server with one host has no others."""

    def __init__(self, slot: HostSlot) -> None:
        self.slot = slot
        self._clients = HostClients()

    async def aclose(self) -> None:
        """Close the connections to the other hosts."""
        await self._clients.aclose()

    def are_asked(self, headers: Mapping[str, str]) -> bool:
        """Return whether a request with these headers is about all hosts, and there are others."""
        return not self.slot.is_alone and HOST_ONLY_HEADER not in headers

    def others(self) -> list[int]:
        """Return the other hosts that have sessions."""
        return sorted(set(self.slot.table.owners) - {self.slot.number})

    async def session_pages(self, query: str, headers: Mapping[str, str]) -> list[SessionPage]:
        """Return a page of live sessions of each other host.

        Raises:
            StartingError, MachineryError: If one does not answer; a list without its sessions would be wrong.
        """
        path = f"/_ors/sessions?{query}"
        answers = await asyncio.gather(*(self._ask(number, path, headers) for number in self.others()))
        try:
            return [SessionPage.model_validate_json(answer) for answer in answers]
        except ValidationError as error:
            raise MachineryError(f"a host answered with something else than its sessions: {error}") from error

    async def healths(self, headers: Mapping[str, str]) -> dict[str, HostHealth]:
        """Return the health of each other host by its name; of one that does not answer, why."""
        numbers = self.others()
        return dict(
            zip(
                map(host_name, numbers),
                await asyncio.gather(*(self._health(number, headers) for number in numbers)),
                strict=True,
            )
        )

    async def _health(self, number: int, headers: Mapping[str, str]) -> HostHealth:
        try:
            health = Health.model_validate_json(await self._ask(number, "/_ors/health", headers))
        except MachineryError as error:
            return HostHealth(error=str(error))
        except ValidationError as error:
            return HostHealth(error=f"it answered with something else than its health: {error}")
        return HostHealth(queues=health.queues, loop=health.loop)

    async def metrics(self, headers: Mapping[str, str]) -> dict[str, bytes | None]:
        """Return the metrics of each other host by its name; `None` for one that does not answer."""
        numbers = self.others()
        answers = await asyncio.gather(
            *(self._ask(number, "/metrics", headers) for number in numbers), return_exceptions=True
        )
        return {
            host_name(number): answer if isinstance(answer, bytes) else None
            for number, answer in zip(numbers, answers, strict=True)
        }

    async def post_to_all(self, path: str, headers: Mapping[str, str]) -> None:
        """Have each other host do what was done here; `StartingError`, `MachineryError` if one did not."""
        await asyncio.gather(*(self._ask(number, path, headers, b"{}") for number in self.others()))

    async def run_batch(
        self, number: int, path: str, items: Sequence[object], headers: Mapping[str, str]
    ) -> list[Any]:
        """Have another host run items of a batch, however long they take; return its results in their order.

        Args:
            path: Of the operation.

        Raises:
            StartingError, MachineryError: If it does not answer. Its calls may have run: a repeat of a call
                id runs nothing twice.
        """
        answer = await self._ask(number, path, headers, compact_json({"items": items}).encode())
        try:
            results = _BATCH.validate_json(answer)["items"]
        except (ValidationError, KeyError):
            results = []
        if len(results) != len(items):
            raise MachineryError(
                f"host {host_name(number)} answered with something else than {len(items)} results"
            )
        return results

    async def events(
        self, number: int, query: str, headers: Mapping[str, str]
    ) -> AsyncGenerator[tuple[str, str, str]]:
        """Yield name, id and data of each event of another host's sessions, until the stream ends.

        A name is empty where the stream only states an id.

        Raises:
            StartingError, MachineryError: If the host does not answer, or stops answering.
        """
        name, path = host_name(number), f"/_ors/events?{query}"
        passed_on = (*_PASSED_ON, LAST_EVENT)
        async with self._requesting(number, path, headers, passed_on, SILENT_SECONDS) as response:
            if not response.is_success:
                raise MachineryError(f"host {name} answered with {response.status_code}")
            reader, reported_id = EventReader(), ""
            async for piece in response.aiter_bytes():
                for sent_event in reader.feed(piece):
                    reported_id = reader.last_id
                    yield sent_event.name, reported_id, sent_event.data
                if reader.last_id != reported_id:
                    reported_id = reader.last_id
                    yield "", reported_id, ""

    async def _ask(
        self, number: int, path: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> bytes:
        """Send a GET, or a POST with a body, whose answer may take any time."""
        name, seconds = host_name(number), ANSWER_SECONDS if body is None else None
        try:
            async with (
                asyncio.timeout(seconds),
                self._requesting(number, path, headers, _PASSED_ON, seconds, body) as response,
            ):
                answer = await response.aread()
        except TimeoutError as error:
            raise MachineryError(f"host {name} does not answer within {ANSWER_SECONDS:g} s") from error
        if not response.is_success:
            text = answer[:_MAX_SHOWN_BYTES].decode(errors="replace")
            raise MachineryError(f"host {name} answered with {response.status_code}: {text}")
        return answer

    @asynccontextmanager
    async def _requesting(
        self,
        number: int,
        path: str,
        headers: Mapping[str, str],
        passed_on: Collection[str],
        silence: float | None,
        body: bytes | None = None,
    ) -> AsyncGenerator[httpx2.Response]:
        """Send a GET, or a POST with a body, to another host, and read its answer in a with block.

        Args:
            passed_on: Names of the headers that the other host gets.
            silence: Seconds for which the answer may pause; `None` for any time.
        """
        name = host_name(number)
        address = self.slot.address_of(number)
        if address is None:
            raise StartingError(f"host {name} has not started yet; repeat the request")
        passed = {key: headers[key] for key in passed_on if key in headers}
        if body is not None:
            passed["content-type"] = "application/json"
        try:
            client = await self._clients.client_of(number, address)
            async with client.stream(
                "GET" if body is None else "POST",
                path,
                content=body,
                headers={**passed, HOST_ONLY_HEADER: "1"},
                timeout=httpx2.Timeout(ANSWER_SECONDS, read=silence),
            ) as response:
                await BOUNDS.apply(response)
                yield response
        except httpx2.ConnectError as error:
            raise StartingError(
                f"host {name} does not listen ({error}), it is starting; repeat the request"
            ) from error
        except (httpx2.HTTPError, BrokenAnswerError) as error:
            raise MachineryError(
                f"host {name} does not answer: {str(error) or type(error).__name__}"
            ) from error
