"""Episodes as documents of ATIF: Harbor's own models accept them, and reading gives the same record back."""

import json
from importlib import import_module
from pathlib import Path

import pytest

from ors_server.export.atif_reading import find_documents, read_document
from ors_server.export.chat import ConversationOptions
from ors_server.export.episodes import ExportCounts
from ors_server.export.folders import write_atif
from ors_server.export.offered_tools import ANY
from ors_server.export.storing import store_episode
from ors_server.model.errors import RecordError
from ors_server.model.trajectory import EpisodeResult, StepStatus, result_of
from ors_server.model.wire import ToolSpec
from ors_server.store.memory import MemoryStore
from tests.fixtures.recorded_episodes import (
    DRAWN,
    SPOKEN,
    TURN_KEY,
    Played,
    conversation_prompt,
    of_every_kind,
    step_of,
)

HARBOR = Path(__file__).parents[2] / "data" / "harbor_trajectories.zip"
LED = Played("led_on", [step_of(1)], conversation_prompt())


@pytest.fixture(scope="module")
def harbor():
    """Harbor's model of a trajectory, from its own files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HARBOR))
        yield import_module("harbor.models.trajectories").Trajectory


async def written(played, folder, **offered):
    async def episodes():
        for each in played:
            yield each.record, each.steps

    counts = ExportCounts()
    await write_atif(episodes(), folder, ConversationOptions(offered), counts)
    return counts


async def test_harbor_accepts_every_kind_of_episode_and_reading_gives_the_record_back(harbor, tmp_path):
    kinds = [*of_every_kind(), SPOKEN, DRAWN, LED]
    counts = await written(kinds, tmp_path)
    documents = {path.parent.name: path for path in find_documents(tmp_path)}
    assert len(documents) == counts.rows
    assert counts.rows + sum(counts.left_out.values()) == len(kinds)
    for played in kinds:
        path = documents.get(played.record.origin.episode_id)
        if path is None:
            assert not played.steps
            assert not played.prompt
            continue
        document = json.loads(path.read_text())
        assert harbor.model_validate(document).to_json_dict()["trajectory_id"] == path.parent.name
        record, steps = read_document(path)
        assert record == played.record
        assert steps == tuple(played.steps)


async def test_a_message_with_two_calls_is_one_step_with_its_tokens(tmp_path):
    tool = ToolSpec(name="add", description="Adds.", input_schema=None)
    await written([SPOKEN], tmp_path, **{ANY: [tool]})
    document = json.loads(next(find_documents(tmp_path)).read_text())
    assert (document["schema_version"], document["session_id"]) == ("ATIF-v1.8", "r1")
    assert document["agent"]["model_name"] == "m"
    assert document["agent"]["tool_definitions"][0]["function"]["name"] == "add"
    sources = [step["source"] for step in document["steps"]]
    assert sources == ["user", "agent", "user", "agent", "agent"]
    step = document["steps"][3]
    assert (step["message"], step["reasoning_content"], step["llm_call_count"]) == ("Both at once.", "Hm.", 1)
    assert step["metrics"]["completion_token_ids"] == [1, 2]
    assert step["metrics"]["cached_tokens"] == 2
    assert [result["source_call_id"] for result in step["observation"]["results"]] == ["a", "b"]
    image, text = step["observation"]["results"][1]["content"]
    assert (image["source"]["media_type"], text["text"]) == ("image/png", "result 2")
    assert document["final_metrics"]["extra"]["reward"] == 1.0
    assert document["final_metrics"]["total_prompt_tokens"] == 9


FOREIGN = {
    "session_id": "run-7",
    "agent": {"name": "terminus", "version": "2.0"},
    "steps": [
        {"step_id": 1, "source": "system", "message": "You are an agent."},
        {"step_id": 2, "source": "user", "message": "List the files.", "timestamp": "2026-11-01T12:00:00Z"},
        {
            "step_id": 3,
            "source": "agent",
            "message": "I look.",
            "timestamp": "2026-11-01T12:00:05Z",
            "tool_calls": [{"tool_call_id": "c", "function_name": "bash", "arguments": {"command": "ls"}}],
            "observation": {"results": [{"source_call_id": "c", "content": "a.txt"}]},
            "metrics": {"prompt_tokens": 3, "completion_token_ids": [5]},
        },
        {"step_id": 4, "source": "agent", "message": "There is a.txt."},
    ],
}


def kept(tmp_path, document):
    path = tmp_path / "trajectory.json"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("minor", range(9))
async def test_documents_of_other_programs_are_read_and_their_reward_is_unknown(tmp_path, minor):
    path = kept(tmp_path, {"schema_version": f"ATIF-v1.{minor}", **FOREIGN})
    record, (step,) = read_document(path, "files")
    assert (record.origin.environment, record.origin.labels["run"]) == ("files", "run-7")
    assert [block.text for block in record.prompt] == ["You are an agent.", "List the files."]
    assert (step.tool, step.arguments, step.blocks[0].text) == ("bash", {"command": "ls"}, "a.txt")
    assert (step.status, step.reward) == (StepStatus.UNGRADED, None)
    assert step.metadata[TURN_KEY]["messages"][0]["content"] == "I look."
    assert record.origin.task_spec["atif"]["closing_messages"][0]["content"] == "There is a.txt."
    assert record.summary.last_reward is None
    assert result_of(record.summary) is EpisodeResult.UNGRADED
    store = MemoryStore()
    assert await store_episode(store, (record, (step,)))
    assert not await store_episode(store, read_document(path, "files"))
    assert await store.steps(record.origin.episode_id) == (step,)


def without(name):
    return {key: value for key, value in FOREIGN["steps"][2].items() if key != name}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"schema_version": "ATIF-v2.0"}, "'ATIF-v1.0' to 'ATIF-v1.8', got 'ATIF-v2.0'"),
        ({"schema_version": None}, "got None"),
        ({"steps": []}, "steps"),
        ({"rewards": 1}, "rewards"),
        ({"steps": [{**FOREIGN["steps"][0], "step_id": 2}]}, "step_id 2"),
        ({"steps": [{**without("tool_calls"), "step_id": 1}]}, "names the call 'c'"),
        ({"steps": [{"step_id": 1, "source": "user", "message": "x", "timestamp": "noon"}]}, "noon"),
        (
            {"steps": [{"step_id": 1, "source": "user", "message": [
                {"type": "image", "source": {"media_type": "image/png", "path": "../secret.png"}}]}]},
            "below the document's folder",
        ),
    ],
)  # fmt: skip
def test_what_is_no_document_is_refused_with_its_place(tmp_path, changes, problem):
    path = kept(tmp_path, {"schema_version": "ATIF-v1.8", **FOREIGN, **changes})
    with pytest.raises(RecordError, match=problem):
        read_document(path)


def test_an_image_behind_a_link_is_not_read(tmp_path):
    (tmp_path / "secret.png").write_bytes(b"secret")
    folder = tmp_path / "document"
    folder.mkdir()
    (folder / "image.png").symlink_to(tmp_path / "secret.png")
    part = {"type": "image", "source": {"media_type": "image/png", "path": "image.png"}}
    steps = [{"step_id": 1, "source": "user", "message": [part]}]
    path = kept(folder, {"schema_version": "ATIF-v1.8", **FOREIGN, "steps": steps})
    with pytest.raises(RecordError, match="outside of the document's folder"):
        read_document(path)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"schema_version": NaN}'])
def test_a_file_that_is_not_json_or_no_object_is_refused(tmp_path, content):
    path = tmp_path / "trajectory.json"
    path.write_text(content)
    with pytest.raises(RecordError, match=r"trajectory\.json"):
        read_document(path)
