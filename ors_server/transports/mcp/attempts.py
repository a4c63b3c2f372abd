"""How often one agent-role key may start the same task. The record counts: a restart forgets nothing."""

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
"""Label of an episode's record: which of its key's episodes of that task it is, from 1."""

TEST_ATTEMPTS = 1
"""Episodes of one task of a test split that a key may start where no setting says otherwise."""

Start: TypeAlias = Callable[[SessionRequest], Awaitable[str]]
_Task: TypeAlias = tuple[str, str, str, int]


class Attempts:
    """Counts what agent-role keys start, and refuses what is too much; trainers are not limited."""

    def __init__(self, engine: SessionManager, limit: int | None) -> None:
        """Start to count.

        Args:
            engine: Knows the record.
            limit: Episodes of one task for each key, on every split; 0 for any number; `None` for one on test
                splits and any number elsewhere.
        """
        self._engine = engine
        self._limit = limit
        self._locks: WeakValueDictionary[_Task, anyio.Lock] = WeakValueDictionary()

    async def start(self, caller: Caller, order: SessionRequest, start: Start) -> str:
        """Start an episode, unless the caller has started that task often enough.

        Args:
            caller: Who asks.
            order: A task by split and index.
            start: Makes the session.

        Returns:
            The session's id.

        Raises:
            ForbiddenError: If the caller has no attempt left.
        """
        if caller.role > Role.AGENT or caller.credential_id is None:
            return await start(order)
        definition = self._engine.environment(order.environment)
        split, index = order.split or "", order.index or 0
        task = (caller.credential_id, definition.name, split, index)
        lock = self._locks.setdefault(task, anyio.Lock())
        async with lock:
            wanted = EpisodeFilter(
                environment=definition.name, split=split, index=index, credential_id=caller.credential_id
            )
            count = await self._engine.count_episodes(wanted)
            limit = self._limit_of(definition.name, split)
            if limit is not None and count >= limit:
                raise ForbiddenError(
                    f"this key has started {definition.name}/{split}/{index} {count} times, and may do so "
                    f"{limit} times (setting attempts_per_task); start another task"
                )
            labels = {**order.labels, ATTEMPT_LABEL: str(count + 1)}
            return await start(replace(order, labels=labels))

    def _limit_of(self, environment: str, split: str) -> int | None:
        if self._limit is not None:
            return self._limit or None
        splits = self._engine.environment(environment).splits
        is_test = any(one.name == split and one.type == "test" for one in splits)
        return TEST_ATTEMPTS if is_test else None
