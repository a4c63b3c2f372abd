"""Data files on the command line: `serve`, `check`, `eval`, `list`, `play`, and `new --declared`."""

import io
import json
import os
import sys

import anyio
import jsonschema
import pytest

from ors_server.app import create_app
from ors_server.cli.data_options import resolve_references
from ors_server.cli.reloading import Reloader
from ors_server.cli.serve_command import ServeOptions
from ors_server.client import Client
from ors_server.model.settings import load_settings

FLAGS = ("--prompt", "question", "--answer", "answer", "--reward", "math_equal_reward")
ROWS = [{"question": f"What is {n} + 1?", "answer": n + 1} for n in range(4)]


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    return path


def test_a_data_file_is_checked(run, data):
    ran = run("check", str(data), *FLAGS, "--json")
    assert (ran.status, ran.json["conformant"]) == (0, True), ran
    ran = run("check", str(data), "--recipe", "gsm8k", "--name", "sums", "--quiet")
    assert ran.status == 1  # answers of GSM8K are texts
    assert "expected a row that the template can read" in ran.err


def test_a_data_file_is_listed_with_its_name(run, data):
    (described,) = run("list", str(data), *FLAGS, "--name", "sums", "--json").json
    assert (described["name"], described["splits"]) == (
        "sums",
        [{"name": "train", "type": "train", "tasks": 4}],
    )


def test_a_data_file_is_played_by_hand(run, data, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO('submit {"answer": "3"}\n'))
    ran = run("play", str(data), *FLAGS, "--index", "2", "--json")
    assert "What is 2 + 1?" in ran.out
    assert json.loads(ran.out.splitlines()[-1])["return"] == 1.0


def test_a_data_file_is_evaluated(run, data, tmp_path):
    for agent, figure in (("oracle", 1.0), ("noop", 0.0)):
        ran = run(
            *("eval", str(data), *FLAGS, "--agent", agent, "--split", "train"),
            *("--output", str(tmp_path / agent), "--store", str(tmp_path / "record.sqlite"), "--json"),
        )
        assert ran.status == 0, ran.err
        assert ran.json["summary"]["overall"]["reward"]["value"] == figure


def test_a_data_file_is_served_over_ors_and_over_mcp(serve, data):
    server = serve(str(data), *FLAGS, "--name", "sums")
    (served,) = server.ready["environments"]
    assert (served["name"], served["splits"]) == ("sums", {"train": 4})
    with Client(server.url) as client:
        for opened in (client.episode, client.mcp_episode):
            with opened("sums", split="train", index=3) as episode:
                assert "What is 3 + 1?" in str(episode.prompt())
                assert [tool.name for tool in episode.tools().tools] == ["submit"]
                assert episode.call("submit", {"answer": "4"}).reward == 1.0


def test_wrong_rows_are_printed_one_by_one_and_left_out_if_that_is_requested(run, data):
    data.write_text(data.read_text() + '{"question": "q"}\n5\n')
    ran = run("list", str(data), *FLAGS)
    assert ran.status == 1
    summary, second = ran.err.splitlines()
    assert "2 of 6 rows are wrong" in summary
    assert "the first is line 5, field 'answer': expected a value, got no such field" in summary
    assert second == f"ors-server: {data}, line 6: expected a JSON object, got 5"
    ran = run("list", str(data), *FLAGS, "--skip-bad", "--json")
    assert ran.json[0]["splits"][0]["tasks"] == 4
    assert f"left out 2 of 6 rows; the first is {data}, line 5" in ran.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["list", "qa", "--prompt", "question"],
            "--prompt: expected a data file, such as train.jsonl, got qa",
        ),
        (["list", "{data}", "--reward-option", "a=1"], "--reward-option needs --reward NAME"),
        (["check", "http://127.0.0.1:1", "--recipe", "gsm8k"], "need a data file"),
        (["eval", "http://127.0.0.1:1", "--agent", "oracle", "--recipe", "gsm8k"], "need a data file"),
        (["serve", "{data}", *FLAGS, "--reload", "--stdio"], "--reload is for a server over HTTP"),
    ],
)
def test_options_that_do_not_fit_are_refused(run, data, words, message):
    ran = run(*(word.format(data=data) for word in words))
    assert ran.status == 2, ran
    assert message in ran.err


def test_a_data_file_without_options_is_refused_with_an_example(run, data):
    ran = run("check", str(data))
    assert ran.status == 2
    assert "--prompt question --answer answer --reward math_equal_reward" in ran.err


def test_a_new_declared_environment_passes_its_checks(run, tmp_path):
    ran = run("new", "sums", "--declared", "--in", str(tmp_path))
    folder = tmp_path / "sums"
    assert sorted(path.name for path in folder.iterdir()) == [
        *("README.md", "audit.toml", "environment.schema.json", "environment.toml"),
        *("test.jsonl", "train.jsonl"),
    ]
    assert (folder / "README.md").read_text().startswith("# sums\n")
    assert f"ors-server serve {folder}" in ran.out
    assert "  pytest " not in ran.out
    jsonschema.Draft202012Validator.check_schema(json.loads((folder / "environment.schema.json").read_text()))
    assert run("check", str(folder), "--all", "--json").json["conformant"]
    ran = run("list", str(folder), "--prompt", "x")
    assert "change its environment.toml" in ran.err


def test_a_change_of_the_data_is_loaded_and_an_error_keeps_the_old_one(data, capsys):
    options = ServeOptions([str(data)], prompt="question", answer="answer", reward="math_equal_reward")
    app = create_app(resolve_references([str(data)], options), load_settings(store="memory"))
    reloader = Reloader(app, [str(data)], options)

    async def play():
        async with app.running(), app.client() as client:
            first = app.definitions[0].version
            async with client.episode("train", split="train", index=0) as episode:
                assert not await reloader.look()
                data.write_text(data.read_text() + "5\n")
                assert not await reloader.look()
                assert "not reloaded, and the old environments stay" in capsys.readouterr().err
                assert app.definitions[0].version == first
                data.write_text('{"question": "What is 9 + 1?", "answer": 10}\n')
                assert await reloader.look()
                assert app.definitions[0].version != first
                assert f"reloaded: train {app.definitions[0].version}" in capsys.readouterr().err
                assert (await episode.call("submit", {"answer": "1"})).reward == 1.0
            async with client.episode("train", split="train", index=0) as episode:
                assert (await episode.call("submit", {"answer": "10"})).reward == 1.0

    anyio.run(play)


READERS = """
import os
from pathlib import Path

def pay(final_response, answer):
    with Path(__file__).with_name("readers").open("a") as file:
        file.write(f"{os.getpid()}\\n")
    return 1.0
"""
DECLARED = 'data = "train.jsonl"\nprompt = "question"\nanswer = "answer"\nreward = "rewards.py:pay"\n'


def test_a_server_reads_changed_data_in_another_process(data, tmp_path, capsys):
    (tmp_path / "rewards.py").write_text(READERS)
    (tmp_path / "environment.toml").write_text(DECLARED)
    options = ServeOptions([str(tmp_path)])
    app = create_app(resolve_references([str(tmp_path)], options), load_settings(store="memory"))
    reloader = Reloader(app, [str(tmp_path)], options)
    (tmp_path / "readers").unlink()

    async def change():
        async with app.running():
            data.write_text(json.dumps(ROWS[0]) + "\n5\n")
            assert not await reloader.look()
            refused = capsys.readouterr().err
            assert "line 2: expected a JSON object, got 5" in refused
            assert "1 of 2 rows are wrong" in refused
            data.write_text(json.dumps(ROWS[0]) + "\n")
            assert await reloader.look()
            version = app.definitions[0].version
            data.write_text(json.dumps(ROWS[1]) + "\n")
            assert await reloader.look()
            assert app.definitions[0].version != version

    anyio.run(change)
    readers = (tmp_path / "readers").read_text().split()
    assert len(readers) == 3
    assert str(os.getpid()) not in readers


CLASS = """
from ors_server import Environment, ToolOutput, tool

class Hello(Environment):
    version = "{version}"
    list_splits = classmethod(lambda cls: ["train"])
    list_tasks = classmethod(lambda cls, split: [{{"id": "1"}}])

    def get_prompt(self):
        return "Say hello."

    @tool
    async def hello(self) -> ToolOutput:
        \"\"\"Say hello.\"\"\"
        return ToolOutput.final("hello {version}", reward=1.0)
"""


def test_a_change_of_a_class_is_loaded(tmp_path, capsys):
    file = tmp_path / "hello.py"
    file.write_text(CLASS.format(version="1"))
    app = create_app([str(file)], load_settings(store="memory"))
    reloader = Reloader(app, [str(file)], ServeOptions([str(file)]))

    async def play():
        async with app.running(), app.client() as client:
            async with client.episode("hello", split="train", index=0) as old:
                file.write_text(CLASS.format(version="22"))
                assert await reloader.look()
                assert app.definitions[0].version == "22"
                file.write_text("class Hello(\n")
                assert not await reloader.look()
                assert "hello.py:1" in capsys.readouterr().err
                assert (await old.call("hello", {})).text == "hello 1"
            async with client.episode("hello", split="train", index=0) as new:
                assert (await new.call("hello", {})).text == "hello 22"

    anyio.run(play)


@pytest.mark.parametrize("command", ["check", "eval"])
def test_a_folder_of_data_is_a_data_file(run, tmp_path, command):
    for split, count in (("train", 3), ("test", 2)):
        folder = tmp_path / "MATH" / split / "algebra"
        folder.mkdir(parents=True)
        for number in range(count):
            row = {"problem": f"What is {split} {number} + 1?", "solution": f"It is \\boxed{{{number + 1}}}."}
            (folder / f"{number}.json").write_text(json.dumps(row))
    extra = ["--agent", "oracle", "--split", "test", "--output", str(tmp_path / "out")]
    ran = run(
        command, str(tmp_path / "MATH"), "--recipe", "math", "--json", *(extra if command == "eval" else [])
    )
    assert ran.status == 0, ran.err
    if command == "eval":
        assert ran.json["summary"]["overall"]["reward"]["value"] == 1.0
    else:
        assert ran.json["conformant"]


def test_a_workbook_is_refused_with_what_to_do(run, tmp_path):
    (tmp_path / "train.xlsx").write_bytes(b"PK\x03\x04")
    ran = run("list", str(tmp_path / "train.xlsx"))
    assert ran.status == 1
    assert "an Excel workbook; save the sheet as 'CSV UTF-8'" in ran.err
