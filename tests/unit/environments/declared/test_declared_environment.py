"""The class that is made of a declaration: what it plays, its version, and what it refuses."""

import base64
import gzip
import json
import os
import re
import subprocess
import sys

import anyio
import pytest

from ors_server.environments.declared.references import declare_data, environment_name, find_declared
from ors_server.environments.loading import define, load_environments
from ors_server.model.errors import (
    EnvironmentDefinitionError,
    EnvironmentFailedError,
    UnknownEnvironmentError,
)
from ors_server.testing import check_environment, play

KEYS = {"prompt": "question", "answer": "answer", "reward": "math_equal_reward"}
ROWS = [{"question": f"What is {n} + 1?", "answer": n + 1, "level": n % 3} for n in range(5)]
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 20).decode()


@pytest.fixture
def declared(write, tmp_path):
    """Declares an environment over the rows, with further lines of TOML."""

    def declare(*lines, rows=ROWS, **keys):
        write("train.jsonl", rows)
        given = {"data": "train.jsonl", **KEYS, **keys}
        text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in given.items() if value is not None)
        write("environment.toml", text + "\n".join(lines))
        (definition,) = load_environments([str(tmp_path)])
        return definition

    return declare


def test_a_declared_environment_passes_every_check(declared):
    definition = declared(name="sums")
    assert definition.name == "sums"
    assert list(definition.tools) == []
    assert [tool.name for tool in definition.listing.tools] == ["submit"]
    assert definition.policy.reward_range == (0.0, 1.0)
    report = check_environment(definition, all_tasks=True)
    assert not list(report.failed()), report


def test_tasks_have_the_fields_of_their_row(declared):
    cls = declared().source
    assert cls.get_task("train", 1) == {"id": "train/1", **ROWS[1]}
    assert cls.get_task("train", -1)["id"] == "train/4"
    assert [task["answer"] for task in cls.get_task_range("train", 1, 3)] == [2, 3]
    for index in (5, -6):
        with pytest.raises(IndexError):
            cls.get_task("train", index)
    kept = declared(metadata=[]).source.get_task("train", 1)
    assert kept == {"id": "train/1", "question": ROWS[1]["question"], "answer": 2}


def test_the_version_is_that_of_the_declaration_and_the_data(declared):
    first = declared().version
    assert re.fullmatch(r"[0-9a-f]{16}", first)
    assert declared().version == first
    assert declared(policy=None, prompt="{{ question }} Now.").version != first
    assert declared(rows=[*ROWS, ROWS[0]]).version != first
    assert declared().version == first
    with_policy = {declared("[policy]", "step_limit = 3").version for _ in range(2)}
    assert len(with_policy) == 1
    assert with_policy != {first}


def test_the_version_is_the_same_in_every_process(declared, tmp_path):
    version = declared("[policy]", "step_limit = 3").version
    load = "from ors_server.environments.loading import load_environments as load"
    program = f"{load}; print(load([{str(tmp_path)!r}])[0].version)"
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=100,
        )
        assert done.stdout.strip() == version


def test_a_second_start_reads_no_row(declared, own_cache, monkeypatch):
    definition = declared()
    monkeypatch.setattr("ors_server.environments.declared.rows.jsonl.scan_lines", None)
    assert declared.__name__
    again = find_declared(str(definition.source._declared.folder))
    assert again.version == definition.version
    assert sorted(path.suffix for path in (own_cache / "ors-server/rows").iterdir()) == [
        ".json",
        ".rows",
        ".spans",
    ]


@pytest.mark.parametrize("damage", ["{", "[]", '{"stamp": 1}'])
def test_a_damaged_index_is_made_again(declared, own_cache, damage):
    version = declared().version
    (known,) = (own_cache / "ors-server/rows").glob("*.json")
    known.write_text(damage)
    assert declared().version == version
    (spans,) = (own_cache / "ors-server/rows").glob("*.spans")
    spans.write_bytes(b"")
    assert declared().version == version


def test_data_that_changes_while_it_is_served_is_refused(declared, tmp_path):
    cls = declared().source
    before = cls.get_task("train", 0)
    path = tmp_path / "train.jsonl"
    path.write_text(path.read_text().replace("What", "Whit"))
    with pytest.raises(EnvironmentFailedError, match=r"has changed since.*restart the server"):
        cls.get_task("train", 0)
    path.unlink()
    with pytest.raises(EnvironmentFailedError, match="cannot be read any more"):
        cls.get_task("train", 0)
    assert before["question"] == "What is 0 + 1?"


def test_every_format_gives_the_same_tasks(write, tmp_path):
    rows = [{"question": 'Say "7,\n8".', "answer": "7"}, {"question": "Grüße?", "answer": "2"}]
    quoted = "question,answer\r\n" + "".join(
        '"{}",{}\r\n'.format(row["question"].replace('"', '""'), row["answer"]) for row in rows
    )
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "train.parquet")
    write("folder/1.json", json.dumps(rows[0]))
    write("folder/2.json", json.dumps(rows[1]))
    places = [
        write("a.jsonl", lines),
        write("bom.jsonl", "\ufeff" + lines.replace("\n", "\r\n\n")),
        write("a.ndjson", lines.rstrip()),
        write("a.csv", quoted),
        write("bom.csv", "\ufeff" + quoted),
        write("a.tsv", quoted.replace(",", "\t").replace("7\t", "7,")),
        write("a.json", json.dumps(rows)),
        write("a.jsonl.gz", gzip.compress(lines.encode())),
        tmp_path / "train.parquet",
    ]
    for place in places:
        cls = declare_data(str(place), KEYS)
        tasks = cls.get_task_range("train")
        assert [{key: task[key] for key in rows[0]} for task in tasks] == rows, place
    write(
        "environment.toml",
        "".join(f'{key} = "{value}"\n' for key, value in KEYS.items()) + 'data = "folder"\n',
    )
    tasks = find_declared(str(tmp_path)).get_task_range("train")
    assert [task["file"] for task in tasks] == ["1.json", "2.json"]
    assert tasks[1]["question"] == "Grüße?"


def test_splits_have_the_types_that_their_names_say(declared, write):
    write("dev.jsonl", ROWS[:2])
    definition = declared(
        "[splits]",
        'train = "train.jsonl"',
        'dev = "dev.jsonl"',
        'hard = {data = "dev.jsonl", type = "test"}',
        data=None,
    )
    assert [(split.name, split.type) for split in definition.splits] == [
        ("train", "train"),
        ("dev", "validation"),
        ("hard", "test"),
    ]


def test_the_columns_of_a_csv_file_get_their_types(write, tmp_path):
    write("train.csv", "question,answer,level,hard\nq,1.5,3,true\n")
    write(
        "environment.toml",
        'data = "train.csv"\nprompt = "question"\nanswer = "answer"\nreward = "numeric_match_reward"\n'
        '[columns]\nanswer = "number"\nlevel = "integer"\nhard = "boolean"\n',
    )
    task = find_declared(str(tmp_path)).get_task("train", 0)
    assert (task["answer"], task["level"], task["hard"]) == (1.5, 3, True)


def test_a_field_of_the_data_never_sets_an_option_of_the_reward(declared):
    rows = [{"question": "q", "answer": "72", "mode": "flexible"}]
    definition = declared(rows=rows, reward="gsm8k_reward")
    with play(definition, index=0) as episode:
        assert episode.call("submit", answer="It is 72.").reward == 0.0
    definition = declared("[fields]", 'mode = "mode"', rows=rows, reward="gsm8k_reward")
    with play(definition, index=0) as episode:
        assert episode.call("submit", answer="It is 72.").reward == 1.0
    definition = declared(
        'reward = {name = "gsm8k_reward", options = {mode = "flexible"}}', rows=rows, reward=None
    )
    with play(definition, index=0) as episode:
        assert episode.call("submit", answer="It is 72.").reward == 1.0


def test_several_rewards_are_a_weighted_mean(declared):
    definition = declared(
        "[[reward]]",
        'name = "exact_match_reward"',
        "[[reward]]",
        'name = "math_equal_reward"',
        "weight = 3.0",
        reward=None,
        rows=[{"question": "q", "answer": "1/2"}],
    )
    assert definition.policy.reward_range == (0.0, 1.0)
    for answer, reward in (("1/2", 1.0), ("0.5", 0.75), ("2", 0.0)):
        with play(definition, index=0) as episode:
            assert episode.call("submit", answer=answer).reward == reward


TOOLS = """
from ors_server import ToolOutput, Toolset, tool

class Adder(Toolset):
    @tool
    def add(self, a: int, b: int) -> ToolOutput:
        'Add two numbers.'
        return ToolOutput.ongoing(str(a + b))
"""


def test_tools_of_ones_own_stand_in_a_file_beside_the_declaration_and_in_the_version(declared, write):
    write("tools.py", TOOLS)
    rows = [{"question": "What is 2 + 3?", "answer": "5"}]
    definition = declared('toolsets = ["tools.py:Adder"]', rows=rows)
    with play(definition, index=0) as episode:
        assert episode.call("add", a=2, b=3).blocks[0].text == "5"
        assert episode.call("submit", answer="5").reward == 1.0
    write("tools.py", TOOLS.replace("a + b", "b + a"))
    assert declared('toolsets = ["tools.py:Adder"]', rows=rows).version != definition.version


def test_files_are_in_the_work_dir_and_their_data_is_hidden_from_it(declared, tmp_path):
    definition = declared(
        'toolsets = ["bash"]',
        "[files]",
        '"notes/start.txt" = "{{ question }}"',
        rows=[{"question": "q", "answer": "7"}],
    )
    assert tmp_path / "train.jsonl" in definition.source.hidden_files
    with play(definition, index=0) as episode:
        text = str(episode.call("bash", command=f"cat notes/start.txt; cat {tmp_path}/train.jsonl").blocks)
        assert "q" in text
        assert '"answer": "7"' not in text
        assert episode.call("submit", answer="7").reward == 1.0


@pytest.mark.parametrize("image", ["picture.png", PIXEL, f"data:image/png;base64,{PIXEL}"])
def test_images_are_blocks_of_the_prompt(declared, write, image):
    write("picture.png", base64.b64decode(PIXEL))
    definition = declared(images="image", rows=[{"question": "q", "answer": 1, "image": image}])
    text, block = definition.source(definition.source.get_task("train", 0)).get_prompt()
    assert (text, block.mimeType, block.data) == ("q", "image/png", PIXEL)


def test_an_image_outside_of_the_folder_is_not_read(declared, tmp_path):
    outside = tmp_path.parent / "outside.png"
    outside.write_bytes(base64.b64decode(PIXEL))
    definition = declared(images="image", rows=[{"question": "q", "answer": 1, "image": PIXEL}])
    task = {**definition.source.get_task("train", 0), "image": "../outside.png"}
    with pytest.raises(ValueError, match="expected a file below"):
        definition.source(task).get_prompt()


def test_a_task_that_lacks_a_field_is_refused(declared):
    with pytest.raises(ValueError, match="not one of this environment's"):
        declared().source({"id": "x"}).get_prompt()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("train", "train"),
        ("GSM8K Test", "gsm8k_test"),
        ("tasks", "data_tasks"),
        ("7b", "data_7b"),
        ("", "data_"),
    ],
)
def test_a_file_gives_its_environment_a_legal_name(text, name):
    assert environment_name(text) == name


def test_a_folder_with_a_package_is_not_declared(write, tmp_path):
    write("environment.toml", "")
    write("__init__.py", "")
    assert find_declared(str(tmp_path)) is None


def test_unreadable_declarations_are_refused(tmp_path):
    with pytest.raises(UnknownEnvironmentError, match="there is no such file; correct the path"):
        find_declared(str(tmp_path / "other.toml"))
    (tmp_path / "other.toml").mkdir()
    with pytest.raises(EnvironmentDefinitionError, match=r"other\.toml"):
        find_declared(str(tmp_path / "other.toml"))


def test_tasks_are_read_in_a_thread(declared):
    definition = declared()

    async def read():
        return await definition.tasks.get_task("train", 3), await definition.tasks.num_tasks("train")

    assert anyio.run(read) == ({"id": "train/3", **ROWS[3]}, 5)


def test_define_accepts_the_made_class(declared):
    assert define(declared().source).name
