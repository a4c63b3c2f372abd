"""Where a replay is played: one interface, one file per place."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from ors_server.authoring.definition import Blocks
from ors_server.replaying.recorded import RecordedCall
from ors_server.trajectory import EpisodeOrigin, Step


class ReplaySession(Protocol):
    """A fresh session of a recorded episode's task."""

    @property
    def origin(self) -> EpisodeOrigin:
        """Where it comes from: what is otherwise than in the record is told."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the replay should know of the place, one sentence each."""
        ...

    @property
    def volatile(self) -> tuple[str, ...]:
        """Regular expressions of what its environment declares volatile."""
        ...

    async def prompt(self) -> Blocks:
        """Return the prompt, after setup.

        Raises:
            AuthorError: If setup or the environment's method failed.
            OrsServerError: If the place failed.
        """
        ...

    async def setup_error(self) -> str | None:
        """Say why setup failed, or `None` while it runs or if it did not."""
        ...

    async def call(self, call: RecordedCall) -> Step | None:
        """Make a call, and return the step that the session's own record has of it.

        Args:
            call: The call. Its id is used again, unless the session knows it already.

        Returns:
            The step; `None` if the episode is over, so that no call is a step any more.

        Raises:
            AuthorError: If setup failed.
            OrsServerError: If the place failed; then there is no step.
        """
        ...


class Stage(Protocol):
    """Makes sessions to replay in."""

    def open(
        self, origin: EpisodeOrigin, secrets: Mapping[str, str]
    ) -> AbstractAsyncContextManager[ReplaySession]:
        """Make a session of the same task, with the same seed, rules, toolset and visibility.

        Args:
            origin: Where the recorded episode came from.
            secrets: Secrets by name, which no record has.

        Returns:
            A context in which the session lives.

        Raises:
            AuthorError: If the environment's constructor failed.
            OrsServerError: If no such session can be made here.
        """
        ...
