"""The slot of a host: which of a server's processes a session belongs to, by its id alone."""

import re
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from zlib import crc32

from ors_server.model.errors import InvalidRequestError

_READABLE = re.compile(r"[A-Za-z0-9._~:-]{1,200}")
"""Ids that every place of a request carries as they are: a header, a path, a token, a JSON text."""

_STARTED = "started"
"""File that says that a host has started."""
ALL = 1
"""Hosts of a server without `--workers`."""


def slot_of(session_id: str, count: int) -> int:
    """Return the slot of a session's id among `count` slots, as the front computes it: CRC-32, modulo."""
    return crc32(session_id.encode("utf-8", "surrogatepass")) % count


def host_name(number: int) -> str:
    """Return the name of a host, in logs, in the front and in front of the ids of its MCP connections."""
    return f"h{number}"


@dataclass(frozen=True, slots=True)
class HostSlot:
    """Which of how many hosts a process is; a server without `--workers` is host 0 of 1."""

    number: int = 0
    count: int = ALL
    descriptor: int | None = None
    """Descriptor of its listening socket, which the supervisor holds, too; `None` without other hosts."""
    folder: Path | None = None
    """Folder of the hosts' sockets; `None` without other hosts."""

    @classmethod
    def read(cls, text: str | None, folder: Path | None) -> "HostSlot":
        """Read `NUMBER/COUNT/DESCRIPTOR`, as the setting `host_slot` has it; host 0 of 1 for `None`."""
        if text is None:
            return cls()
        number, count, descriptor = map(int, text.split("/"))
        return cls(number, count, descriptor, folder)

    @property
    def name(self) -> str:
        """Its name in logs, and the prefix of the ids of its MCP connections."""
        return host_name(self.number)

    @property
    def is_alone(self) -> bool:
        """Whether there are no other hosts."""
        return self.count == ALL

    @property
    def is_first_start(self) -> bool:
        """Whether no host of several has started yet: the supervisor starts the first one alone."""
        return self.folder is not None and not (self.folder / _STARTED).exists()

    def note_start(self) -> None:
        """Note that a host has started; those that start now share the record with it."""
        if self.folder is not None:
            (self.folder / _STARTED).touch()

    def has(self, session_id: str) -> bool:
        """Return whether a session of this id belongs to this host."""
        return self.is_alone or slot_of(session_id, self.count) == self.number

    def draw_session_id(self) -> str:
        """Draw an unguessable id of a session that belongs to this host.

        A host draws until an id falls into its own slot, so that no table has to say where a session is. The
        expected number of draws is the number of hosts.
        """
        while True:
            session_id = token_hex(16)
            if slot_of(session_id, self.count) == self.number:
                return session_id

    def check(self, session_id: str) -> None:
        """Refuse the id of another host's session, and one that a front could not read from a request.

        Raises:
            InvalidRequestError: If it is not this host's.
        """
        if self.is_alone:
            return
        if _READABLE.fullmatch(session_id) is None:
            raise InvalidRequestError(
                f"a session id of a server with several hosts has 1 to 200 letters, digits and characters of "
                f"._~:-, got {session_id!r:.80}"
            )
        slot = slot_of(session_id, self.count)
        if slot != self.number:
            raise InvalidRequestError(
                f"session {session_id!r:.80} belongs to host {host_name(slot)}, and this is {self.name}: "
                "send X-Session-ID, by which the front routes requests"
            )

    def socket_of(self, number: int) -> Path:
        """Return the path of a host's socket."""
        return socket_path(self.folder or Path(), number)


ALONE = HostSlot()
"""The slot of a server without other hosts."""


def socket_path(folder: Path, number: int) -> Path:
    """Return the path of a host's socket in the folder of all hosts."""
    return folder / f"{host_name(number)}.sock"
