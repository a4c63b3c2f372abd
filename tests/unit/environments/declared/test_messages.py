"""What an author reads of broken data and declarations: one line with file, place, expected, got, remedy."""

import json
import re

import pytest

from ors_server.environments.declared.references import declare_data, find_declared
from ors_server.environments.declared.row_faults import BadRowsError
from ors_server.installation import install_hint
from ors_server.model.errors import EnvironmentDefinitionError

GOOD = {"question": "What is 2 + 3?", "answer": "5"}
LINE = json.dumps(GOOD)
KEYS = {"prompt": "question", "answer": "answer", "reward": "math_equal_reward"}
TOML = 'prompt = "question"\nanswer = "answer"\nreward = "math_equal_reward"\ndata = "train.jsonl"\n'

ROWS = [
    ("no_json", f"{LINE}\n{{question: 1}}\n", "line 2: expected a JSON object, got", "column 2"),
    ("cut_off", f'{LINE}\n{{"question": "a", "ans', "line 2: expected a JSON object", "column"),
    ("a_list", f"{LINE}\n[1, 2]\n", "line 2: expected a JSON object, got [1, 2]", ""),
    ("a_number", f"7\n{LINE}\n", "line 1: expected a JSON object, got 7", ""),
    ("two_objects", f"{LINE}\n{LINE}{LINE}\n", "line 2: expected a JSON object", "Extra data"),
    ("nan", f'{LINE}\n{{"question": "q", "answer": NaN}}\n', "line 2, field 'answer'", "got null"),
    (
        "twice",
        f'{LINE}\n{{"question": "q", "answer": "1", "answer": "2"}}\n',
        "field 'answer'",
        "the field twice",
    ),
    ("null_answer", f'{LINE}\n{{"question": "q", "answer": null}}\n', "line 2, field 'answer'", "got null"),
    ("empty_answer", f'{LINE}\n{{"question": "q", "answer": ""}}\n', "line 2, field 'answer'", 'got ""'),
    (
        "no_answer",
        f'{LINE}\n{{"question": "q"}}\n',
        "field 'answer': expected a value",
        "the row has question",
    ),
    ("misspelt", f'{LINE}\n{{"qestion": "q", "answer": 1}}\n', "field 'question'", "did you mean 'qestion'?"),
    ("prompt_null", f'{LINE}\n{{"question": null, "answer": 1}}\n', "field 'prompt': expected text", "null"),
    (
        "prompt_list",
        f'{LINE}\n{{"question": ["q"], "answer": 1}}\n',
        "field 'prompt': expected text",
        '["q"]',
    ),
    (
        "prompt_blank",
        f'{LINE}\n{{"question": " ", "answer": 1}}\n',
        "expected a prompt that is not empty",
        '" "',
    ),
    ("surrogate", f'{LINE}\n{{"question": "\\ud800", "answer": 1}}\n', "UTF-8 can write", "surrogate"),
    (
        "deep",
        f'{LINE}\n{{"question": "q", "answer": {"[" * 100_000}\n',
        "line 2: expected JSON of fewer",
        "nested",
    ),
]


@pytest.mark.parametrize(("content", "place", "got"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_a_wrong_row_is_named_with_its_line_and_the_value(write, content, place, got):
    path = write("train.jsonl", content)
    with pytest.raises(BadRowsError) as refused:
        declare_data(str(path), KEYS)
    (report,) = refused.value.reports
    assert report.startswith(f"{path}, line ")
    assert place in report
    assert got in report
    assert "1 of 2 rows are wrong" in str(refused.value)
    assert "--skip-bad" in str(refused.value)
    assert len(report.splitlines()) == len(str(refused.value).splitlines()) == 1
    kept = declare_data(str(path), {**KEYS, "skip_bad": True})
    assert kept.num_tasks("train") == 1
    assert kept.get_task("train", 0)["question"] == GOOD["question"]
    (index,) = kept.row_indices()
    assert (index.summary.skipped, index.summary.first_skipped) == (1, report)


def test_bytes_that_are_no_utf_8_are_named(write):
    path = write("train.jsonl", LINE.encode() + b'\n{"question": "\xff"}\n')
    with pytest.raises(BadRowsError) as refused:
        declare_data(str(path), KEYS)
    assert refused.value.reports == (f"{path}, line 2: expected UTF-8, got the byte 0xff",)


FILES = [
    ("train.jsonl", "", "no rows: expected at least one"),
    ("train.jsonl", "\n \n", "no rows: expected at least one"),
    ("train.csv", "question,answer\nq\n", "line 2: expected 2 values (question, answer), got 1"),
    ("train.csv", "question,answer\nq,1,2\n", "line 2: expected 2 values (question, answer), got 3"),
    ("train.csv", 'question,answer\n"q,1\n', "expected values that are quoted as in CSV"),
    (
        "train.csv",
        "question,question\nq,1\n",
        "expected the names of the columns, each once, got 'question' twice",
    ),
    ("train.csv", "", "expected the names of the columns, each once, got an empty file"),
    ("train.csv", "question\nq\n", "expected a field 'answer', and no row has it"),
    ("train.tsv", "question\tanswer\nq\t\n", "field 'answer': expected an answer, got \"\""),
    ("train.json", "{", ", line 1, column 2: invalid JSON: Expecting property name"),
    ("train.json", '{"data": [1]}', 'expected a list of records, got ["data"]'),
    ("train.json", '[{"question": "q", "answer": 1}, 5]', "record 2: expected a JSON object, got 5"),
    ("train.jsonl.gz", "plain", "expected gzip data"),
    ("train.parquet", "plain", "expected a parquet file"),
]


@pytest.mark.parametrize(("name", "content", "message"), FILES)
def test_a_broken_file_is_named_with_what_was_expected(write, name, content, message):
    path = write(name, content)
    with pytest.raises(EnvironmentDefinitionError) as refused:
        declare_data(str(path), KEYS)
    lines = [str(refused.value), *getattr(refused.value, "reports", ())]
    assert any(message in line for line in lines), lines
    assert all(line.startswith(str(path)) for line in lines)


DECLARATIONS = [
    ("prompt = ", "line 1, column end: not TOML"),
    (TOML.replace("prompt", "promt"), "line 1: unknown key 'promt', did you mean 'prompt'?"),
    (TOML.replace('"question"', "5"), "line 1: prompt: input should be a valid string, got 5"),
    (
        TOML.replace('prompt = "question"\n', ""),
        'expected a field or a template, such as prompt = "question"',
    ),
    (TOML.replace("math_equal_reward", "math_equal_rewrd"), "did you mean 'math_equal_reward'?"),
    (TOML.replace('reward = "math_equal_reward"\n', ""), "reward: expected the name of a reward"),
    (
        TOML.replace("train.jsonl", "trian.jsonl"),
        "expected a data file or a folder of JSON files, got a path that does not exist",
    ),
    (TOML.replace("train.jsonl", "train.xlsx"), "expected a file that ends in .jsonl"),
    (TOML.replace('data = "train.jsonl"', ""), 'data: expected a data file, such as data = "train.jsonl"'),
    (TOML + '[splits]\ntrain = "train.jsonl"\n', "expected data or splits, not both"),
    (
        TOML.replace('"question"', '"{{ question"'),
        "prompt: line 1 of the template: expected a Jinja template",
    ),
    (TOML.replace('"question"', '"{{ qestion }}"'), "no row has it: no such field"),
    (
        TOML.replace('"question"', '"{{ question.__class__.mro() }}"'),
        "access to attribute '__class__' of 'str' object is unsafe",
    ),
    (TOML.replace('"question"', '"{{ question / 2 }}"'), "TypeError"),
    (TOML + 'toolsets = ["bsh"]\n', "unknown toolset 'bsh'"),
    (TOML + 'toolsets = ["tools.py:Tools"]\n', "tools.py, which does not exist"),
    (
        TOML + 'toolsets = ["json:JSONDecoder"]\n',
        "expected a subclass of Toolset named 'JSONDecoder' in json",
    ),
    (TOML + 'toolsets = ["no_such_module:Tools"]\n', "'no_such_module:Tools' cannot be loaded"),
    (TOML + 'files = {"a.py" = "question"}\n', "files: expected a toolset with a sandbox"),
    (TOML + 'recipe = "gsm8"\n', "unknown recipe 'gsm8', did you mean 'gsm8k'?"),
    (
        TOML + "[policy]\nstep_limit = 0\n",
        "policy.step_limit: input should be greater than or equal to 1, got 0",
    ),
    (TOML + '[columns]\nanswer = "integer"\n', "field 'answer': expected integer, got \"five\""),
    (TOML + '[columns]\nlevel = "text"\n', "expected a field 'level', and no row has it"),
    (TOML + 'images = "answer"\n', "expected an image"),
    (TOML + 'paths = ["answer"]\n', "expected a file below"),
    (
        TOML.replace('"math_equal_reward"', '{name = "gsm8k_reward", options = {mod = "x"}}'),
        "did you mean 'mode'?",
    ),
    (
        TOML.replace('"math_equal_reward"', '{name = "gsm8k_reward", options = {mode = "x"}}'),
        "strict or flexible",
    ),
    (TOML.replace('"math_equal_reward"', '"code_pytest_reward"'), "judges the files of a sandbox"),
    (
        TOML.replace('"math_equal_reward"', '"multiple_choice_reward"'),
        "expected a field 'choices', and no row has it",
    ),
    (
        TOML.replace(
            '"math_equal_reward"',
            '[{name = "gsm8k_reward", weight = 0}, {name = "qa_f1_reward", weight = 0}]',
        ),
        "weights that do not add up to 0",
    ),
]


@pytest.mark.parametrize(("text", "message"), DECLARATIONS)
def test_a_broken_declaration_is_named_with_what_was_expected(write, tmp_path, text, message):
    answer = "five" if "integer" in text else "5"
    write("train.jsonl", [{**GOOD, "answer": answer}])
    write("train.xlsx", "")
    file = write("environment.toml", text)
    with pytest.raises(EnvironmentDefinitionError) as refused:
        find_declared(str(tmp_path))
    lines = [str(refused.value), *getattr(refused.value, "reports", ())]
    assert str(refused.value).startswith(str(file))
    assert any(message in line for line in lines), lines
    assert all(len(line.splitlines()) == 1 for line in lines)


def test_there_are_thirty_broken_files():
    assert len(ROWS) + 1 + len(FILES) >= 30


def test_data_without_options_names_them(write):
    path = write("train.jsonl", [GOOD])
    with pytest.raises(EnvironmentDefinitionError, match="--prompt question --answer answer --reward"):
        find_declared(str(path))


def test_a_missing_extra_is_named_with_the_command_that_installs_it(write, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    path = write("train.parquet", "x")
    with pytest.raises(EnvironmentDefinitionError, match=re.escape(install_hint("parquet"))):
        declare_data(str(path), KEYS)
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(EnvironmentDefinitionError, match=re.escape(install_hint("huggingface"))):
        declare_data("hf:someone/something:train", KEYS)
    with pytest.raises(EnvironmentDefinitionError, match=r"expected hf:NAME\[@CONFIG\]\[:SPLIT\]"):
        declare_data("hf:", KEYS)


def test_a_cache_that_cannot_be_written_is_named(write, monkeypatch):
    path = write("train.jsonl", [GOOD])
    monkeypatch.setenv("XDG_CACHE_HOME", str(path))
    with pytest.raises(EnvironmentDefinitionError, match="XDG_CACHE_HOME moves the cache"):
        declare_data(str(path), KEYS)


def test_many_wrong_rows_are_counted_and_the_first_ones_reported(write):
    rows = [GOOD if number % 2 else {"question": "q", "answer": None} for number in range(100)]
    path = write("train.jsonl", rows)
    with pytest.raises(
        BadRowsError, match="50 of 100 rows are wrong; the first is line 1, field 'answer'"
    ) as refused:
        declare_data(str(path), KEYS)
    assert len(refused.value.reports) == 20
    assert declare_data(str(path), {**KEYS, "skip_bad": True}).num_tasks("train") == 50
    with pytest.raises(BadRowsError, match="50 of 100 rows are wrong"):
        declare_data(str(path), KEYS)
