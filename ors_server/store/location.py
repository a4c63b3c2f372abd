"""Parses the location of an episode store, and shows it without its password."""

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

from ors_server.model.errors import SettingsError
from ors_server.model.user_folders import home_folder

MEMORY = "memory"
"""The location of a store that ends with the process."""
HIDDEN = "***"
_SQLITE = "sqlite:///"
_SCHEMES = frozenset({"postgresql", "postgres", "postgresql+psycopg"})


class StoreKind(StrEnum):
    """Kinds of stores."""

    MEMORY = "memory"
    SQLITE = "sqlite"
    POSTGRES = "postgresql"


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """The location of an episode store."""

    kind: StoreKind
    path: Path | None = None
    """The file of a SQLite store."""
    url: str = ""
    """The URL of a PostgreSQL store, with its password."""

    @property
    def is_in_memory(self) -> bool:
        """Whether the store ends with the process."""
        return self.kind is StoreKind.MEMORY

    def __repr__(self) -> str:
        """Show the location without its password."""
        return f"StoreLocation({self.display_name!r})"

    @property
    def display_name(self) -> str:
        """The location for people and logs, without its password."""
        if self.kind is StoreKind.SQLITE:
            return str(self.path)
        return _without_password(self.url) if self.kind is StoreKind.POSTGRES else MEMORY


def parse_location(where: str) -> StoreLocation:
    """Parse the setting `store`.

    Args:
        where: Path of a SQLite file, `sqlite:///PATH`, `postgresql://...`, or `memory`.

    Raises:
        SettingsError: If it is something else.
    """
    text = where.strip()
    if text == MEMORY:
        return StoreLocation(StoreKind.MEMORY)
    scheme, colon, _ = text.partition("://")
    if not colon:
        return StoreLocation(StoreKind.SQLITE, path=_as_path(text))
    if text.startswith(_SQLITE):
        return StoreLocation(StoreKind.SQLITE, path=_as_path(text.removeprefix(_SQLITE)))
    if scheme in _SCHEMES:
        return StoreLocation(StoreKind.POSTGRES, url=f"postgresql+psycopg://{text.partition('://')[2]}")
    raise SettingsError(
        f"unknown kind of episode store {scheme}://; expected the PATH of a SQLite file, sqlite:///PATH, "
        f"postgresql://..., or {MEMORY}"
    )


def _as_path(text: str) -> Path:
    if not text:
        raise SettingsError(f"the episode store has no location; give the PATH of a SQLite file, or {MEMORY}")
    if text.startswith("~/"):
        text = str(home_folder()) + text.removeprefix("~")
    return Path(text).expanduser().absolute()


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    host = re.sub(r":[^@]*@", f":{HIDDEN}@", parts.netloc)
    query = urlencode(
        [(name, HIDDEN if "pass" in name.lower() else value) for name, value in parse_qsl(parts.query)],
        safe="*/",
    )
    return f"postgresql://{host}{parts.path}{f'?{query}' if query else ''}"
