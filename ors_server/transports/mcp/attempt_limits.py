"""Limits how often one agent-role key starts the same task, counted in the store, so also over restarts."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias
from weakref import WeakValueDictionary

import anyio

from ors_server.errors import ForbiddenError
from ors_server.sessions.manager import SessionManager
from ors_server.sessions.session_request import SessionRequest
from ors_server.store.base import EpisodeFilter
from ors_server.transports.access import Caller, Role

ATTEMPT_LABEL = "attempt"
"""Label of a recorded episode: its number among the key's episodes of that task, from 1."""

TEST_ATTEMPTS = 1
"""Episodes of one task of a test split that a key may start where no setting says otherwise."""

Start: TypeAlias = Callable[[SessionRequest], Awaitable[str]]
_Task: TypeAlias = tuple[str, str, str, int]


class AttemptLimits:
    """Counts the episodes that agent-role keys start, and refuses more than the limit; trainers have none."""

    def __init__(self, sessions: SessionManager, limit: int | None) -> None:
        """Use one limit for every task.

        Args:
            limit: Episodes of one task for each key, on every split; 0 for any number; `None` for one on test
                splits and any number elsewhere.
        """
        self._sessions = sessions
        self._limit = limit
        self._locks: WeakValueDictionary[_Task, anyio.Lock] = WeakValueDictionary()

    async def start(self, caller: Caller, request: SessionRequest, start: Start) -> str:
        """Start an episode of a task given by split and index; return the session's id.

        Raises:
            ForbiddenError: If the caller has no attempt left.
        """
        if caller.role > Role.AGENT or caller.credential_id is None:
            return await start(request)
        definition = self._sessions.environment(request.environment)
        split, index = request.split or "", request.index or 0
        task = (caller.credential_id, definition.name, split, index)
        lock = self._locks.setdefault(task, anyio.Lock())
        async with lock:
            earlier = EpisodeFilter(
                environment=definition.name, split=split, index=index, credential_id=caller.credential_id
            )
            count = await self._sessions.count_episodes(earlier)
            limit = self._limit_of(definition.name, split)
            if limit is not None and count >= limit:
                raise ForbiddenError(
                    f"this key has started {definition.name}/{split}/{index} {count} times, and may do so "
                    f"{limit} times (setting attempts_per_task); start another task"
                )
            labels = {**request.labels, ATTEMPT_LABEL: str(count + 1)}
            return await start(replace(request, labels=labels))

    def _limit_of(self, environment: str, split: str) -> int | None:
        if self._limit is not None:
            return self._limit or None
        splits = self._sessions.environment(environment).splits
        is_test = any(one.name == split and one.type == "test" for one in splits)
        return TEST_ATTEMPTS if is_test else None
