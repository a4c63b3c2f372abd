"""Long answers of the control API: the same JSON, in pieces between which others run."""

from datetime import UTC, datetime

import pytest

from ors_server.doors.control.app import _encode_sliced
from ors_server.doors.control.episodes import EpisodeStepPage
from ors_server.doors.control.operations import encode
from ors_server.model.trajectory import Step, StepStatus
from ors_server.model.wire import TextBlock
from tests.fixtures.loop_slices import measured_slices, yardstick


def page_of(count: int, text: str) -> EpisodeStepPage:
    steps = [
        Step(
            number=number,
            call_id=f"c{number}",
            tool='"steps":[]',
            arguments={"steps": []},
            status=StepStatus.GRADED,
            blocks=(TextBlock(text=text),),
            reward=0.5,
            components={},
            finished=False,
            error=None,
            error_code=None,
            metadata=None,
            started_at=datetime(2026, 1, 1, tzinfo=UTC),
            duration=0.25,
        )
        for number in range(1, count + 1)
    ]
    return EpisodeStepPage(episode_id='"steps":[', total=count, steps=steps)


@pytest.mark.parametrize("count", [0, 1, 3])
async def test_a_page_in_pieces_is_the_same_json(count):
    page = page_of(count, "é")
    assert b"".join(await _encode_sliced(page)).decode() == encode(page)


async def test_others_run_between_two_long_steps():
    page = page_of(80, "\x01" * 100_000)
    with measured_slices() as slices:
        pieces = await _encode_sliced(page)
    assert sum(map(len, pieces)) > 80 * 600_000
    assert slices.worst < yardstick(), slices.where
