"""Finds the episode that somebody means by a whole id, by the beginning of one, or by its session."""

import re

from ors_server.errors import AmbiguousEpisodeError, EpisodeNotFoundError
from ors_server.store.base import RecordReader
from ors_server.trajectory import EpisodeRecord

SHORTEST_PREFIX = 6
"""Least digits that stand for an episode."""

_PREFIX = re.compile(f"[0-9a-f]{{{SHORTEST_PREFIX},}}")


async def find_episode(reader: RecordReader, name: str) -> EpisodeRecord:
    """Return the record that a name stands for.

    Args:
        reader: Where to look.
        name: An episode's id, a session's id (which stands for its newest episode), or at least 6 digits with
            which the id of one episode begins.

    Raises:
        EpisodeNotFoundError: If nothing on record has that name.
        AmbiguousEpisodeError: If the ids of several episodes begin with it.
        StoreError: If the store failed.
    """
    record = await reader.find(name)
    if record is not None:
        return record
    ids = await reader.resolve(name, limit=3) if _PREFIX.fullmatch(name) else ()
    if len(ids) > 1:
        some = ", ".join(ids[:2]) + (" and others" if len(ids) > len(ids[:2]) else "")
        raise AmbiguousEpisodeError(f"{name!r} fits several episodes, {some}; give more digits of the id")
    found = await reader.find(ids[0]) if ids else None
    if found is None:
        raise EpisodeNotFoundError(
            f"no episode {name!r} is on record; expected an episode's id, at least {SHORTEST_PREFIX} digits "
            "of its beginning, or a session's id"
        )
    return found
