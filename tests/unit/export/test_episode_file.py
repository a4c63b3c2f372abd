"""Lines of plain trajectory JSON read back: nothing is lost, and what is not an episode is refused."""

import json
from datetime import UTC, datetime

import pytest

from ors_server.export.episode_file import EpisodeFile, read_episode, read_episodes
from ors_server.export.plain import plain_row
from ors_server.model.errors import RecordError
from ors_server.model.trajectory import (
    EpisodeOrigin,
    EpisodeRecord,
    Fork,
    Step,
    StepStatus,
    Transition,
    first_summary,
)
from ors_server.model.wire import ImageBlock, TextBlock

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def an_episode(name: str = "a") -> tuple[EpisodeRecord, tuple[Step, ...]]:
    origin = EpisodeOrigin(
        session_id=name,
        environment="casino",
        environment_version="1",
        server_version="1",
        task_spec={"id": name, "nested": {"list": [1, None, "ü"]}},
        task_hash="0" * 64,
        split="train",
        index=0,
        created_at=AT,
        policy={"step_limit": None},
        forked_from=Fork("b", 1),
        sandbox={"backend": "none"},
        labels={"run": "1"},
    )
    step = Step(
        number=1,
        call_id="c",
        tool="look",
        arguments={"where": [0.1, {"x": True}]},
        status=StepStatus.GRADED,
        blocks=(
            TextBlock(text="ü\n", detail={"stream": "stdout"}),
            ImageBlock(data="AA==", mimeType="image/png"),
        ),
        reward=0.1,
        components={"tool": 0.1},
        finished=True,
        error=None,
        error_code=None,
        metadata={"episode": {"step": 1}},
        started_at=AT,
        duration=0.25,
    )
    transition = Transition("end", "finished", "completed", AT)
    return EpisodeRecord(
        origin, first_summary(origin), (TextBlock(text="Play."),), (transition,), is_closed=True
    ), (step,)


def line_of(name: str = "a", **fields) -> bytes:
    return json.dumps(plain_row(*an_episode(name)) | fields).encode() + b"\n"


def test_an_episode_that_was_exported_is_read_back_whole():
    record, steps = an_episode()
    again, steps_again = read_episode(json.dumps(plain_row(record, steps)))
    assert steps_again == steps
    assert again.summary == record.summary
    assert (again.prompt, again.transitions, again.is_closed) == (record.prompt, record.transitions, True)
    assert plain_row(again, steps_again) == plain_row(record, steps)


def test_blank_lines_are_passed_over_and_counted():
    lines = [b"\n", line_of("a"), b"  \n", line_of("b"), b"no\n"]
    found = read_episodes(lines)
    assert [next(found)[0].origin.session_id, next(found)[0].origin.session_id] == ["a", "b"]
    with pytest.raises(RecordError, match="line 5: expected a JSON object, and it cannot be read"):
        next(found)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"[1]", 'line 1: expected an episode, an object with "record" and "steps"'),
        (b'{"record": {}}', 'line 1: expected an episode, an object with "record" and "steps"'),
        (b'{"record": {}, "steps": {}}', "line 1: expected an episode"),
        (b'{"record": {}, "steps": []}', "line 1: invalid record of an episode"),
        (b"\xff", "line 1: expected a JSON object"),
        (line_of(steps=[{"number": 1}]), "line 1: invalid step"),
        (
            line_of(steps=plain_row(*an_episode())["steps"] * 2),
            "line 1: step 2 has the number 1; steps count from 1",
        ),
    ],
    ids=["list", "no steps", "steps no list", "no record", "no text", "no step", "numbered twice"],
)
def test_what_is_no_episode_is_refused_with_its_line(line, complaint):
    with pytest.raises(RecordError, match=complaint):
        list(read_episodes([line]))


def test_a_file_is_gone_through_again_and_its_lines_are_found_again(tmp_path):
    path = tmp_path / "episodes.jsonl"
    path.write_bytes(b"\n" + line_of("a") + b"\n" + line_of("b").rstrip())
    file = EpisodeFile(path)
    assert [record.origin.session_id for record, _ in file.episodes()] == ["a", "b"]
    places = [place for place, _ in file.offsets()]
    assert [record.origin.session_id for record, _ in file.at(reversed(places))] == ["b", "a"]
    with pytest.raises(RecordError, match="the line at byte 0"):
        list(file.at([0]))
