"""The hosts of a server: which of its processes a session belongs to, by the session's id and a table.

A session's slot is a function of its id. Which host has a slot is in the record, and changes only when a host
gives its slots up; each host and the front keep a copy, which they renew.
"""

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from zlib import crc32

from ors_server.model.errors import InvalidRequestError, SettingsError, ShuttingDownError

_PORTABLE_ID = re.compile(r"""(?! )[ !#-+\--.0-\[\]-~]{1,200}(?<! )""")
"""Ids that every place of a request carries: a header, a path, a token, a JSON text.

Spaces at the ends get lost in a header, and a comma separates values there; a slash separates parts of a
path, and quotation marks and backslashes have other forms in JSON.
"""

SLOTS = 1024
"""Slots of session ids: many more than hosts, so that a host's share can be divided among all others."""
SINGLE = 1
"""Hosts of a server that is a single process."""
SUSPEND_SIGNAL = signal.SIGUSR1
"""Asks a host to suspend its sessions and to end."""
RESTART_SIGNAL = signal.SIGUSR2
"""Asks the supervisor to start each host again, one after another."""
SHUTDOWN_STATUS = 3
"""Exit status with which a host asks that the whole server stops: an admin's request to one of them."""
REPLACED_STATUS = 4
"""Exit status of a host whose place another process has taken."""
DRAINED_STATUS = 5
"""Exit status of a host that has given its slots to the others, and is not started again."""
UNIX = "unix:"
"""Beginning of the address of a host on a Unix socket; other addresses are HOST:PORT."""


def slot_of(session_id: str) -> int:
    """Return the slot of a session's id, as the front computes it: CRC-32, modulo."""
    return crc32(session_id.encode("utf-8", "surrogatepass")) % SLOTS


def host_name(number: int) -> str:
    """Return the name of a host, in logs, in the front and in front of the ids of its MCP connections."""
    return f"h{number}"


def even_slots(hosts: Sequence[int]) -> list[int]:
    """Return the host of each slot if all of these hosts have equal shares."""
    return [*hosts] * (SLOTS // len(hosts)) + [*hosts[: SLOTS % len(hosts)]]


@dataclass(frozen=True, slots=True)
class HostRow:
    """A row of the record's table of hosts."""

    number: int
    epoch: int
    """Raised whenever a process takes its place or its slots: one with an older epoch writes nothing."""
    address: str
    """Where it listens: `unix:PATH` or HOST:PORT."""
    is_draining: bool = False
    """Whether it is to give its slots up."""


@dataclass(slots=True)
class HostTable:
    """A copy of the record's table of hosts."""

    owners: Sequence[int]
    """The host of each slot."""
    rows: dict[int, HostRow] = field(default_factory=dict[int, HostRow])
    """Hosts that have started, by number."""


@dataclass(frozen=True, slots=True)
class HostSlot:
    """Which of how many hosts a process is; a server that is a single process is host 0 of 1."""

    number: int = 0
    count: int = SINGLE
    descriptor: int | None = None
    """Descriptor of its listening socket, which the supervisor holds, too; `None` without a supervisor."""
    folder: Path | None = None
    """Folder of the hosts' sockets; `None` without a supervisor."""
    own_address: str = ""
    """HOST:PORT at which the front and the other hosts reach it; empty for a host on a Unix socket."""
    table: HostTable = field(default_factory=lambda: HostTable(even_slots((0,))), compare=False)
    """This process's copy of the record's table."""

    @classmethod
    def read(cls, text: str | None, folder: Path | None, own_address: str | None = None) -> "HostSlot":
        """Read `NUMBER/COUNT[/DESCRIPTOR]`, as the setting `host_slot` has it; host 0 of 1 for `None`.

        Raises:
            SettingsError: If there is no such host, or nothing says where it is reached.
        """
        if text is None:
            return cls()
        number, count, *descriptor = map(int, text.split("/"))
        if number >= count:
            raise SettingsError(
                f"host_slot counts from 0: expected a number below {count}, got {number}/{count}"
            )
        if count > SINGLE and folder is None and not own_address:
            raise SettingsError(
                "host_slot needs host_address: where do the front and the other hosts reach it?"
            )
        table = HostTable(even_slots(range(count)))
        return cls(number, count, descriptor[0] if descriptor else None, folder, own_address or "", table)

    @property
    def name(self) -> str:
        """Its name in logs, and the prefix of the ids of its MCP connections."""
        return host_name(self.number)

    @property
    def is_alone(self) -> bool:
        """Whether there are no other hosts."""
        return self.count == SINGLE

    @property
    def hosts_of_machine(self) -> int:
        """Number of hosts on this machine, of those that a supervisor started, which divide its limits."""
        return SINGLE if self.folder is None else self.count

    @property
    def group(self) -> str:
        """What the hosts of one server have in common, and no other server on the record; empty if alone."""
        if self.is_alone:
            return ""
        return f"{self.count} hosts of {'several machines' if self.folder is None else self.folder}"

    @property
    def address(self) -> str:
        """Where the front and the other hosts reach it."""
        return self.address_of(self.number) or ""

    def address_of(self, number: int) -> str | None:
        """Return where a host is reached; `None` if it is on another machine and has not started yet."""
        if self.folder is not None:
            return f"{UNIX}{socket_path(self.folder, number)}"
        if number == self.number:
            return self.own_address
        row = self.table.rows.get(number)
        return None if row is None else row.address

    def has(self, session_id: str) -> bool:
        """Return whether a session of this id belongs to this host."""
        return self.is_alone or self.host_of(session_id) == self.number

    def host_of(self, session_id: str) -> int:
        """Return the number of the host that a session belongs to."""
        return self.table.owners[slot_of(session_id)]

    def draw_session_id(self) -> str:
        """Draw an unguessable id of a session that belongs to this host.

        A host draws until an id falls into one of its slots, so that no table has to say where a session is.
        The expected number of draws is the number of hosts.

        Raises:
            ShuttingDownError: If this host has given its slots up.
        """
        if not self.is_alone and self.number not in self.table.owners:
            raise ShuttingDownError(f"host {self.name} has given its sessions to others; repeat the request")
        while True:
            session_id = token_hex(16)
            if self.has(session_id):
                return session_id

    def check(self, session_id: str) -> None:
        """Refuse the id of another host's session, and one that a front could not read from a request.

        Raises:
            InvalidRequestError: If it is not this host's.
        """
        if self.is_alone:
            return
        if _PORTABLE_ID.fullmatch(session_id) is None:
            raise InvalidRequestError(
                "a session id of a server with several hosts has 1 to 200 visible ASCII characters without "
                f'any of , / " \\, and spaces within: got {session_id!r:.80}'
            )
        if not self.has(session_id):
            raise InvalidRequestError(
                f"session {session_id!r:.80} belongs to host {host_name(self.host_of(session_id))}, and this "
                f"is {self.name}: send X-Session-ID, by which the front routes requests"
            )


SINGLE_HOST = HostSlot()
"""The slot of a server that is a single process."""


def socket_path(folder: Path, number: int) -> Path:
    """Return the path of a host's socket in the folder of all hosts."""
    return folder / f"{host_name(number)}.sock"
