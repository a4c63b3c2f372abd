"""Playing one episode from a test that is not async."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal

from ors_server.authoring.definition import EnvironmentDefinition
from ors_server.testing.local_client import LocalSession, open_environment
from ors_server.trajectory import EpisodeSummary, Step
from ors_server.wire import JSONObject, ToolListing, ToolOutput


class Episode:
    """One episode that is being played; use it as made by `play`."""

    def __init__(self, portal: BlockingPortal, session: LocalSession) -> None:
        """Speak to a session over a portal.

        Args:
            portal: Leads to the event loop of the session.
            session: The session.
        """
        self._portal = portal
        self._session = session

    @property
    def prompt(self) -> str:
        """The prompt's text."""
        return self._portal.call(self._session.prompt)

    @property
    def tools(self) -> ToolListing:
        """Everything that the session offers."""
        return self._portal.call(self._session.tools)

    def call(self, tool: str, /, **arguments: Any) -> ToolOutput:
        """Call a tool and return its output.

        Args:
            tool: The tool's name.
            **arguments: As the agent would send them.

        Raises:
            CallRefusedError: If the call was not run.
            OrsServerError: If it failed through no fault of the agent's.
        """
        return self._portal.call(self._session.submit, tool, arguments)

    @property
    def summary(self) -> EpisodeSummary:
        """The episode's figures."""
        return self._portal.call(self._session.summary)

    @property
    def steps(self) -> Sequence[Step]:
        """The episode's steps."""
        return self._portal.call(self._session.steps)


@contextmanager
def play(
    environment: type | str | EnvironmentDefinition,
    *,
    split: str | None = None,
    index: int | None = None,
    task_spec: JSONObject | None = None,
    **wishes: Any,
) -> Generator[Episode]:
    """Play one task of an environment in this process; leaving the context ends the session.

    Args:
        environment: A class, a reference, or a definition.
        split: Name of the task's split; the first one by default.
        index: The task's index in it; 0 by default.
        task_spec: Or the task itself.
        **wishes: Further fields of a session's order: `secrets`, `policy`, `toolset`, `visibility`.
    """
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(open_environment(environment)) as client,
    ):
        if task_spec is None:
            split = split or portal.call(client.client.splits)[0].name
            wishes |= {"split": split, "index": index or 0}
        else:
            wishes |= {"task_spec": task_spec}
        yield Episode(portal, portal.call(lambda: client.create(**wishes)))
