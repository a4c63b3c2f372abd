"""Finds an episode by its id, the beginning of its id, or its session's id."""

import re

from ors_server.model.errors import AmbiguousEpisodeError, EpisodeNotFoundError
from ors_server.model.trajectory import EpisodeRecord
from ors_server.store.base import RecordReader

MIN_PREFIX = 6
"""Fewest characters of an id that identify an episode."""

_PREFIX = re.compile(f"[0-9a-f]{{{MIN_PREFIX},}}")


async def find_episode(reader: RecordReader, name: str) -> EpisodeRecord:
    """Return the record that a name identifies.

    Args:
        name: An episode's id, a session's id (which stands for its newest episode), or at least 6 hex digits
            with which the id of exactly one episode begins.

    Raises:
        EpisodeNotFoundError: If no record has that name.
        AmbiguousEpisodeError: If the ids of several episodes begin with it.
        StoreError: If the store failed.
    """
    record = await reader.find(name)
    if record is not None:
        return record
    ids = await reader.resolve(name, limit=3) if _PREFIX.fullmatch(name) else ()
    if len(ids) > 1:
        some = ", ".join(ids[:2]) + (" and others" if len(ids) > len(ids[:2]) else "")
        raise AmbiguousEpisodeError(f"several episode ids begin with {name!r}: {some}; give more digits")
    found = await reader.find(ids[0]) if ids else None
    if found is None:
        raise EpisodeNotFoundError(
            f"the store has no episode {name!r}; expected an episode's id, at least its first "
            f"{MIN_PREFIX} digits, or a session's id"
        )
    return found
