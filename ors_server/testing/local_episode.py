"""One episode of an environment in this process, for tests that are not async."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from anyio.lowlevel import checkpoint

from ors_server.client.blocking import Episode
from ors_server.client.loop_thread import LoopThread
from ors_server.environments.definition import EnvironmentDefinition
from ors_server.model.trajectory import EpisodeSummary, Step
from ors_server.model.wire import JSONObject, ToolListing, ToolOutput
from ors_server.testing.local_client import figures_of, open_environment, output_of, steps_of, text_of


class LocalEpisode:
    """An episode that `play` opened: the client's `Episode`, in the types of the server."""

    def __init__(self, episode: Episode) -> None:
        self._episode = episode
        self._ended: tuple[EpisodeSummary, Sequence[Step]] | None = None

    def keep_figures(self) -> None:
        """Read figures and steps, which stay readable when the environment is gone."""
        self._ended = (self.summary, self.steps)

    @property
    def prompt(self) -> str:
        """The prompt's text, after setup; images are left out."""
        return text_of(self._episode.blocks())

    @property
    def tools(self) -> ToolListing:
        """The tools of the session."""
        return self._episode.tools()

    def call(self, tool: str, /, **arguments: Any) -> ToolOutput:
        """Call a tool and return its output.

        Raises:
            CallRefusedError: If the call was not run.
            OrsServerError: If the call failed, and the agent is not to blame.
        """
        return output_of(self._episode.call(tool, arguments))

    @property
    def summary(self) -> EpisodeSummary:
        """The episode's figures, also after its end."""
        return self._ended[0] if self._ended else figures_of(self._episode.summary())

    @property
    def steps(self) -> Sequence[Step]:
        """The episode's steps, also after its end."""
        return self._ended[1] if self._ended else steps_of(self._episode.steps())


@contextmanager
def play(
    environment: type | str | EnvironmentDefinition,
    *,
    split: str | None = None,
    index: int | None = None,
    task_spec: JSONObject | None = None,
    **requested: Any,
) -> Generator[LocalEpisode]:
    """Play one task of an environment in this process; leaving the context ends the session.

    The episode's figures and steps stay readable afterwards.

    Args:
        environment: A class, a reference, or a definition.
        split: Name of the task's split; the first one by default.
        index: The task's index in it; 0 by default.
        task_spec: Or the task itself.
        **requested: Further fields of the request: `secrets`, `policy`, `toolset`, `visibility`.
    """
    loop = LoopThread(checkpoint)  # the contexts on the loop close what they opened
    try:
        with loop.hold(open_environment(environment)) as local:
            if task_spec is not None:
                requested |= {"task_spec": task_spec}
            else:
                split = split or loop.run(local.client.splits)[0].name
                requested |= {"split": split, "index": index or 0}
            # The figures are read between the end of the session and the end of the environment: earlier they
            # are not final, later there is no server.
            with _figures_kept() as episodes, loop.hold(local.client.episode(**requested)) as episode:
                episodes.append(LocalEpisode(Episode(loop, episode)))
                yield episodes[0]
    finally:
        loop.close()


@contextmanager
def _figures_kept() -> Generator[list[LocalEpisode]]:
    """Keep the figures of the episode in the list, when its session has ended and its environment runs."""
    episodes: list[LocalEpisode] = []
    try:
        yield episodes
    finally:
        for episode in episodes:
            episode.keep_figures()
