"""An open episode that several asyncio tasks use: a trainer opens, plays and closes it in different ones."""

import asyncio
from typing import Any

from ors_server.adapters.bridges import ServedEnvironment
from ors_server.client.async_client import AsyncClient
from ors_server.client.async_episode import AsyncEpisode
from ors_server.client.session_summary import Summary


class HeldEpisode:
    """An episode whose context is held open by a separate task."""

    def __init__(self, served: ServedEnvironment, index: int, seed: int | None = None) -> None:
        self._served = served
        self._request = served.request(index, seed)
        self._leave = asyncio.Event()
        self._task: asyncio.Task[Summary] | None = None

    async def open(self) -> AsyncEpisode:
        """Create the session and return the episode."""
        # An anyio context must be left by the task that entered it, so that one task holds it from the start
        # to the end.
        opened: asyncio.Future[AsyncEpisode] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold(opened))
        waiting: list[asyncio.Future[Any]] = [opened, self._task]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        # If the task ended first, it has raised; that error is what the trainer must see.
        return opened.result() if opened.done() else await self._failed(self._task)

    async def close(self) -> Summary | None:
        """Compare the rewards with the record, delete the session, and return its figures.

        Returns `None` if it was never opened.

        Raises:
            SumMismatchError: If the received rewards differ from the record.
            OrsServerError: If the figures cannot be read.
        """
        self._leave.set()
        return None if self._task is None else await self._task

    async def _hold(self, opened: "asyncio.Future[AsyncEpisode]") -> Summary:
        served = self._served
        async with (
            AsyncClient(served.url, served.api_key) as client,
            client.episode(served.environment, **self._request) as episode,
        ):
            opened.set_result(episode)
            await self._leave.wait()
            return await episode.check()

    @staticmethod
    async def _failed(task: "asyncio.Task[Summary]") -> AsyncEpisode:
        await task
        raise AssertionError("a task that ends without an episode has raised")  # pragma: no cover
