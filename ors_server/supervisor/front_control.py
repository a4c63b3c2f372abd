"""Changes a running HAProxy over its admin socket: which host has which slot, and the certificate.

The front believes a host only about that host's own slots. So a slot moves in the front only after the host
that takes the slot knows that it has it.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import httpx2

from ors_server.model.host_slot import SLOTS, even_slots, host_name
from ors_server.model.logs import get_logger
from ors_server.supervisor.host_clients import HostClients

SOCKET = "admin.sock"
"""Name of the admin socket in the folder of the front."""
SLOT_MAP, HOST_MAP = "slots.map", "hosts.map"
"""Names of the front's tables: the host of each slot, and the hosts that still have slots."""
ANSWER_SECONDS = 5.0
"""Seconds that HAProxy, or a host, may take to answer."""
MAX_COMMANDS = 64
"""Commands in one line to HAProxy, whose buffer takes about three times as many."""
POLL_SECONDS = 1.0
"""Seconds between two requests to the hosts for their slots."""

log = get_logger("ors_server.supervisor")


class FrontControlError(Exception):
    """HAProxy did not carry out a command; the message is HAProxy's."""


@dataclass(slots=True)
class FrontControl:
    """Sends commands to the HAProxy of a folder, which may be restarted at any time."""

    folder: Path
    addresses: list[str]
    """Addresses of the hosts, in order: `unix:PATH` or HOST:PORT."""
    owners: list[int] = field(default_factory=list[int])
    """The host of each slot, as the front has it."""
    _clients: HostClients = field(default_factory=HostClients)

    def __post_init__(self) -> None:
        self.owners = even_slots(range(len(self.addresses)))
        self._write_maps()

    def _write_maps(self) -> None:
        """Write the tables to the disk, where a HAProxy that is started again reads them."""
        rows = [f"{slot} {host_name(owner)}\n" for slot, owner in enumerate(self.owners)]
        (self.folder / SLOT_MAP).write_text("".join(rows))
        # Each name leads to itself: a rule looks up whether the host in a session's id still has slots.
        hosts = [f"{host_name(number)} {host_name(number)}\n" for number in sorted(set(self.owners))]
        (self.folder / HOST_MAP).write_text("".join(hosts))

    async def send(self, command: str) -> str:
        """Send a command and return HAProxy's answer.

        Raises:
            FrontControlError: If HAProxy does not answer.
        """
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                reader, writer = await asyncio.open_unix_connection(str(self.folder / SOCKET))
                try:
                    writer.write(f"{command}\n".encode())
                    await writer.drain()
                    return (await reader.read()).decode().strip()
                finally:
                    writer.close()
        except (OSError, TimeoutError) as error:
            raise FrontControlError(f"HAProxy does not answer at its admin socket: {error}") from error

    async def set_traffic(self, number: int, *, is_open: bool) -> None:
        """Open or close a host to requests; a closed host's requests are answered with 503.

        Raises:
            FrontControlError: If HAProxy refuses the command.
        """
        name, state = host_name(number), "ready" if is_open else "maint"
        for backend in (name, "any"):
            answer = await self.send(f"set server {backend}/{name} state {state}")
            if answer:
                raise FrontControlError(answer)

    async def move_host(self, number: int, address: str) -> None:
        """Send a host's requests to another address from now on.

        Raises:
            FrontControlError: If HAProxy refuses the command.
        """
        self.addresses[number] = address
        machine, _, port = address.rpartition(":")
        name = host_name(number)
        for backend in (name, "any"):
            answer = await self.send(f"set server {backend}/{name} addr {machine.strip('[]')} port {port}")
            if "changed" not in answer and "no need to change" not in answer:
                raise FrontControlError(answer)

    async def renew_certificate(self, path: Path) -> None:
        """Use the certificate that is in a file now.

        Raises:
            FrontControlError: If HAProxy refuses it; the old one stays then.
        """
        lines = (await anyio.Path(path).read_text()).splitlines()
        text = "\n".join(line for line in lines if line.strip())  # a blank line would end the command
        answer = await self.send(f"set ssl cert {path} <<\n{text}\n")
        committed = await self.send(f"commit ssl cert {path}")
        if "Success" not in committed:
            with suppress(FrontControlError):
                await self.send(f"abort ssl cert {path}")
            raise FrontControlError(f"{answer} {committed}".strip())

    async def follow(self) -> None:
        """Update the front's table from the hosts every `POLL_SECONDS`, until cancelled."""
        while True:
            await anyio.sleep(POLL_SECONDS)
            try:
                await self.update_slots()
            except FrontControlError as error:
                log.warning("front_not_changed", error=str(error))

    async def aclose(self) -> None:
        """Close the connections to the hosts; the next request opens them again."""
        await self._clients.aclose()

    async def update_slots(self) -> None:
        """Ask each host once which slots it has, and change the front's table."""
        slots = await asyncio.gather(*(self._slots_of(number) for number in range(len(self.addresses))))
        new_owners = {
            slot: number
            for number, owned in enumerate(slots)
            for slot in owned
            if 0 <= slot < SLOTS and self.owners[slot] != number
        }
        if new_owners:
            await self._move(new_owners)
        for number in range(len(self.addresses)):
            if number not in self.owners:  # a HAProxy that was started again does not know it
                await self.set_traffic(number, is_open=False)

    async def _move(self, new_owners: Mapping[int, int]) -> None:
        before = set(self.owners)
        for slot, number in new_owners.items():
            self.owners[slot] = number
        self._write_maps()
        for number in before - set(self.owners):
            await self.send(f"del map {self.folder / HOST_MAP} {host_name(number)}")
        path = self.folder / SLOT_MAP
        commands = [f"set map {path} {slot} {host_name(number)}" for slot, number in new_owners.items()]
        for start in range(0, len(commands), MAX_COMMANDS):
            await self.send(";".join(commands[start : start + MAX_COMMANDS]))
        log.info("slots_moved", slots=len(new_owners), hosts=sorted(map(host_name, set(new_owners.values()))))

    async def _slots_of(self, number: int) -> Sequence[int]:
        """Return the slots that a host says it has; empty if it does not answer."""
        client = await self._clients.client_of(number, self.addresses[number])
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                # A Host that every server admits: the address may be a socket's, or a name it does not admit.
                answered = await client.get("/_ors/slots", headers={"host": "127.0.0.1"})
                return [int(slot) for slot in json.loads(answered.content)["slots"]]
        except (httpx2.HTTPError, TimeoutError, ValueError, KeyError, TypeError):
            return ()
