"""What is known of sessions that expired."""

import pytest

from ors_server.errors import SessionExpiredError, SessionNotFoundError
from ors_server.sessions.quotas import IDS_KEPT, RecentIds


async def test_what_expired_is_told_apart_from_what_never_was(player, session, clock):
    for _ in range(3):
        await clock.advance(1000.0)
    with pytest.raises(SessionExpiredError, match="expired after 900 s idle"):
        player.engine.find(session)
    with pytest.raises(SessionNotFoundError) as unknown:
        player.engine.find("nobody")
    assert type(unknown.value) is SessionNotFoundError
    await player.create(session_id=session)
    player.engine.find(session)
    assert await player.delete(session)
    with pytest.raises(SessionNotFoundError) as deleted:
        player.engine.find(session)
    assert type(deleted.value) is SessionNotFoundError


async def test_only_the_latest_ids_are_remembered():
    ids = RecentIds()
    for number in range(IDS_KEPT + 1):
        ids.add(str(number))
    ids.discard("5")
    ids.discard("never")
    assert ("0" in ids, "1" in ids, "5" in ids, str(IDS_KEPT) in ids) == (False, True, False, True)
