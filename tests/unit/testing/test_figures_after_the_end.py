"""Figures and steps of an episode that `play` opened stay readable after its end."""

import pytest

from ors_server import tool
from ors_server.model.wire import ToolOutput
from ors_server.testing import LocalEpisode, play
from tests.fixtures.single_task import SingleTask


class Door(SingleTask):
    @tool
    def knock(self) -> ToolOutput:
        return ToolOutput.final("Open.", reward=0.5)


def test_figures_are_those_of_the_ended_episode():
    with play(Door) as episode:
        episode.call("knock")
    assert (episode.summary.episode_return, episode.summary.steps) == (0.5, 1)
    assert [step.tool for step in episode.steps] == ["knock"]


def play_and_fail(episodes: list[LocalEpisode]) -> None:
    with play(Door) as episode:
        episodes.append(episode)
        episode.call("knock")
        raise ZeroDivisionError


def test_figures_are_readable_after_an_error_too():
    episodes: list[LocalEpisode] = []
    with pytest.raises(ZeroDivisionError):
        play_and_fail(episodes)
    assert episodes[0].summary.episode_return == 0.5
