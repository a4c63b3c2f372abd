"""Where a record is: what may be written for it, and how it is shown without the password in it."""

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

from ors_server.errors import SettingsError

MEMORY = "memory"
"""The record that goes with the process."""
HIDDEN = "***"
_SQLITE = "sqlite:///"
_SCHEMES = frozenset({"postgresql", "postgres", "postgresql+psycopg"})


class PlaceKind(StrEnum):
    """What keeps a record."""

    MEMORY = "memory"
    SQLITE = "sqlite"
    POSTGRES = "postgresql"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record is."""

    kind: PlaceKind
    path: Path | None = None
    """The file, of SQLite."""
    url: str = ""
    """The URL of PostgreSQL, password and all."""

    def __repr__(self) -> str:
        """Show the place, never a password."""
        return f"Place({self.shown!r})"

    @property
    def shown(self) -> str:
        """How the place is told to people and logs."""
        if self.kind is PlaceKind.SQLITE:
            return str(self.path)
        return _without_password(self.url) if self.kind is PlaceKind.POSTGRES else MEMORY


def find_place(where: str) -> Place:
    """Find out what is meant by the text of a setting.

    Args:
        where: Path of a SQLite file, `sqlite:///PATH`, `postgresql://...`, or `memory`.

    Raises:
        SettingsError: If it is none of these.
    """
    text = where.strip()
    if text == MEMORY:
        return Place(PlaceKind.MEMORY)
    scheme, colon, _ = text.partition("://")
    if not colon:
        return Place(PlaceKind.SQLITE, path=_as_path(text))
    if text.startswith(_SQLITE):
        return Place(PlaceKind.SQLITE, path=_as_path(text.removeprefix(_SQLITE)))
    if scheme in _SCHEMES:
        return Place(PlaceKind.POSTGRES, url=f"postgresql+psycopg://{text.partition('://')[2]}")
    raise SettingsError(
        f"the record is kept in a SQLite file (PATH or sqlite:///PATH), in postgresql://..., or in {MEMORY}, "
        f"not in {scheme}://"
    )


def _as_path(text: str) -> Path:
    if not text:
        raise SettingsError(f"name the file that keeps the record, or {MEMORY}")
    return Path(text).expanduser().absolute()


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    place = re.sub(r":[^@]*@", f":{HIDDEN}@", parts.netloc)
    query = urlencode(
        [(name, HIDDEN if "pass" in name.lower() else value) for name, value in parse_qsl(parts.query)],
        safe="*/",
    )
    return f"postgresql://{place}{parts.path}{f'?{query}' if query else ''}"
