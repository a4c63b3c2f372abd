"""Answers of declared tasks: the reward can judge them, and the oracle hands in what the reward pays."""

import base64
import gzip
import json
import sys

import pytest

from ors_server.environments.declared import declared_environment
from ors_server.environments.declared.references import declare_data, find_declared
from ors_server.environments.declared.row_faults import BadRowsError
from ors_server.model.errors import EnvironmentDefinitionError
from ors_server.testing import play

CHOICES = ["Oslo", "Rome", "Bern"]
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()


def rows_with(*answers: object):
    return [{"question": f"Question {number}?", "answer": answer} for number, answer in enumerate(answers)]


@pytest.mark.parametrize(
    ("answer", "reward"),
    [
        (True, "exact_match_reward"),
        (7, "exact_match_reward"),
        ({"text": "a"}, "qa_f1_reward"),
        ([], "word_match_reward"),
        (True, "math_equal_reward"),
    ],
)
def test_an_answer_that_the_reward_cannot_judge_is_refused_with_its_line(write, answer, reward):
    path = write("train.jsonl", rows_with("5", answer, "7"))
    with pytest.raises(BadRowsError) as refused:
        declare_data(str(path), {"prompt": "question", "answer": "answer", "reward": reward})
    (report,) = refused.value.reports
    place = f"{path}, line 2, field 'answer': expected an answer that {reward} can judge, got "
    assert report.startswith(place + json.dumps(answer))


def test_a_late_answer_of_another_type_is_found(write):
    path = write("train.jsonl", rows_with(*["5"] * 300, *[True], "7"))
    with pytest.raises(BadRowsError, match="1 of 302 rows are wrong; the first is line 301"):
        declare_data(str(path), {"prompt": "question", "answer": "answer", "reward": "exact_match_reward"})


def late_bad_answer(write):
    rows = [{"question": "Which?", "choices": CHOICES, "answer": "Rome"}] * 300
    return write("train.jsonl", [*rows, {"question": "Which?", "choices": CHOICES, "answer": "Paris"}])


def test_a_late_answer_of_the_same_type_is_found(write):
    path = late_bad_answer(write)
    keys = {"prompt": "question", "answer": "answer", "reward": "multiple_choice_reward"}
    with pytest.raises(BadRowsError, match="1 of 301 rows are wrong; the first is line 301"):
        declare_data(str(path), keys)


def test_which_rows_are_left_out_does_not_depend_on_the_machine_s_speed(write):
    keys = {"prompt": "question", "answer": "answer", "reward": "multiple_choice_reward", "skip_bad": True}
    assert declare_data(str(late_bad_answer(write)), keys).num_tasks("train") == 301


def test_a_slow_reward_does_not_hold_up_the_start(write, monkeypatch):
    monkeypatch.setattr(declared_environment, "JUDGING_SECONDS", 0.0)
    keys = {"prompt": "question", "answer": "answer", "reward": "multiple_choice_reward"}
    environment = declare_data(str(late_bad_answer(write)), keys)
    with play(environment, index=300) as episode:
        assert episode.call("submit", answer="B").reward is None


@pytest.mark.parametrize(
    ("answer", "choices", "handed_in"),
    [
        (0, CHOICES, "A"),
        (2, CHOICES, "C"),
        ("B", CHOICES, "B"),
        ("Rome", CHOICES, "Rome"),
        (1, ["3", "1", "0"], "B"),
    ],
)
def test_the_oracle_hands_in_what_the_reward_pays(write, answer, choices, handed_in):
    path = write("train.jsonl", [{"question": "Which?", "choices": choices, "answer": answer}])
    environment = declare_data(
        str(path), {"prompt": "question", "answer": "answer", "reward": "multiple_choice_reward"}
    )
    actions = environment.gold_actions(environment.get_task("train", 0))
    assert actions == [("submit", {"answer": handed_in})]
    with play(environment) as episode:
        assert episode.call("submit", answer=handed_in).reward == 1.0


@pytest.mark.parametrize(
    "name",
    [
        "trajectory",
        "messages",
        "steps",
        "metadata",
        "response",
        "completion",
        "context",
        "output",
        "rollouts",
    ],
)
def test_a_column_may_have_the_name_of_a_part_of_the_episode(write, name):
    values = [{"action": "ls", "thought": "look"}]
    rows = [{**row, name: values} for row in rows_with("5", "6")]
    path = write("train.jsonl", rows)
    environment = declare_data(
        str(path), {"prompt": "question", "answer": "answer", "reward": "math_equal_reward"}
    )
    with play(environment) as episode:
        assert episode.call("submit", answer="5").reward == 1.0


def test_messages_that_an_agent_wrote_are_no_prompt(write):
    chat = [{"role": "user", "content": "2 + 3?"}, {"role": "assistant", "content": "5"}]
    path = write("train.jsonl", [{"question": chat, "answer": "5"}])
    with pytest.raises(BadRowsError, match="messages of the roles system and user, or a template"):
        declare_data(str(path), {"prompt": "question", "answer": "answer", "reward": "math_equal_reward"})


def test_the_only_turn_of_a_list_of_turns_is_the_prompt(write):
    turns = [[{"role": "user", "content": [{"type": "text", "text": "2 + 3?"}]}]]
    path = write("train.json", [{"id": "simple_0", "question": turns, "answer": "5"}] * 2)
    environment = declare_data(str(path), MATH)
    assert environment.shown_at_start(environment.get_task("train", 1))["prompt"] == "2 + 3?"


def test_a_list_of_images_is_several_images(write):
    images = [PIXEL, f"data:image/png;base64,{PIXEL}"]
    path = write("train.jsonl", [{"question": "What is it?", "answer": "5", "images": images}])
    environment = declare_data(
        str(path),
        {"prompt": "question", "answer": "answer", "reward": "math_equal_reward", "images": ["images"]},
    )
    instance = environment(environment.get_task("train", 0))
    assert [block.type for block in instance.get_prompt()[1:]] == ["image", "image"]


MATH = {"prompt": "question", "answer": "answer", "reward": "math_equal_reward"}
FAULTS = {
    '[\n {"answer": 1},\n {"answer": "q" "b": 1}\n]': "line 3, column 17: invalid JSON",
    '[{"question": "q", "answer": 1}] []': "line 1, column 34: invalid JSON: Extra data",
    '{\n "question": "q",\n "answer": 1\n}\n{\n "question": "q",\n}\n': "line 7, column 1: invalid JSON"
    if sys.version_info < (3, 13)
    else "line 6, column 17: invalid JSON",  # from then on Python finds the comma too much
    '{"question": "q", "answer": 1}\n{"question": "q", \n': "line 2: expected a JSON object",
    "": "line 1, column 1: invalid JSON: Expecting value",
}


@pytest.mark.parametrize("content", FAULTS)
@pytest.mark.parametrize("is_packed", [False, True])
def test_a_fault_in_a_json_file_has_its_line_and_column(write, content, is_packed):
    data = gzip.compress(content.encode()) if is_packed else content
    path = write("train.json.gz" if is_packed else "train.json", data)
    with pytest.raises(EnvironmentDefinitionError) as refused:
        declare_data(str(path), MATH)
    lines = [str(refused.value), *getattr(refused.value, "reports", ())]
    assert any(f"{path}, {FAULTS[content]}" in line for line in lines), lines
    assert not any('{"":' in line for line in lines)


def test_shards_and_patterns_are_data_of_a_declaration(write, tmp_path):
    for number in range(3):
        write(f"data/train-{number:05}-of-00003.jsonl", rows_with(str(number)))
    keys = "".join(f"{name} = {json.dumps(value)}\n" for name, value in MATH.items())
    splits = '[splits]\ntrain = "data/train-*.jsonl"\nvalidation = "data"\n'
    write("environment.toml", keys + splits)
    environment = find_declared(str(tmp_path))
    for split in ("train", "validation"):
        tasks = environment.get_task_range(split)
        assert [task["answer"] for task in tasks] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["a.jsonl", "b.jsonl"], "expected the shards of one data set"),
        (["train.jsonl", "more.jsonl"], "expected a split such as train or test in the name of each"),
        (["train-1-of-3.jsonl", "train-3-of-3.jsonl"], "expected 3 shards, got 2; number 0 is missing"),
    ],
)
def test_files_that_do_not_fit_together_are_refused(write, tmp_path, names, words):
    for name in names:
        write(f"rows/{name}", rows_with("5"))
    with pytest.raises(EnvironmentDefinitionError, match=words):
        declare_data(str(tmp_path / "rows"), MATH)


def test_a_wrong_row_of_a_shard_is_named_with_its_file(write, tmp_path):
    write("rows/part-00000.jsonl", rows_with("5"))
    path = write("rows/part-00001.jsonl", rows_with("5", *[True]))
    with pytest.raises(BadRowsError) as refused:
        declare_data(str(tmp_path / "rows"), MATH)
    assert f"{path.name}, line 2, field 'answer'" in refused.value.reports[0]


def test_a_folder_of_data_without_options_names_them(write, tmp_path):
    write("rows/train.jsonl", rows_with("5"))
    with pytest.raises(EnvironmentDefinitionError, match="--prompt question --answer answer --reward"):
        find_declared(str(tmp_path / "rows"))
