"""`ors-server tasks` and `check --against`: difficulty, nearly equal tasks, tasks that are published."""

import json
import random

import pytest

from ors_server.cli.main import main

WORDS = [f"{first}{last}" for first in ("ba", "ce", "di", "fo", "gu", "ha") for last in "nrstlmkp"]


def question(seed):
    chance = random.Random(seed)  # noqa: S311  (no secret)
    return " ".join(chance.choices(WORDS, k=40)) + "?"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A declared environment with a test task that is nearly a training task, and one that is published."""
    monkeypatch.chdir(tmp_path)
    rows = {
        "train": [question(seed) for seed in range(6)],
        "test": [question(seed) for seed in range(10, 14)],
    }
    rows["test"][2] = f"Well: {rows['train'][4]}"
    for split, questions in rows.items():
        lines = [json.dumps({"question": text, "answer": "yes"}) for text in questions]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines))
    (tmp_path / "published.csv").write_text(f"id,text\n1,{question(99)}\n2,Some text. {question(11)[:120]}\n")
    (tmp_path / "environment.toml").write_text(
        'name = "quiz"\nprompt = "question"\nanswer = "answer"\nreward = "exact_match_reward"\n'
        '[splits]\ntrain = "train.jsonl"\ntest = "test.jsonl"\n'
    )
    return tmp_path


def run(capfd, *words):
    status = main([*words])
    return status, capfd.readouterr().out


def test_the_report_has_each_split_with_its_bands_and_what_was_found(folder, capfd):
    store = str(folder / "episodes.db")
    for agent, limit in (("oracle", "4"), ("noop", "2")):
        words = ["--agent", agent, "--split", "train", "--limit", limit, "--store", store, "--output", agent]
        assert main(["eval", str(folder), *words]) == 0
    capfd.readouterr()
    status, text = run(capfd, "tasks", str(folder), "--store", store, "--json")
    assert status == 0
    (report,) = json.loads(text)
    train, test = report["splits"]
    assert train == {
        "split": "train",
        "tasks": 6,
        "played": 4,
        "attempts": 6,
        "solve_rate": 0.75,
        "bands": {"learnable": 2, "always": 2},
    }
    assert (test["played"], test["solve_rate"], test["bands"]) == (0, None, {})
    assert report["findings"] == [
        (
            "1 of 4 tasks of split 'test' are nearly equal (0.8 or more) to one of split 'train' "
            "(train and test indices 4 and 2)"
        )
    ]
    status, text = run(capfd, "tasks", str(folder), "--store", store, "--against", "book=published.csv")
    assert (status, text.splitlines()[0]) == (0, "quiz")
    assert "nearly equal" in text
    assert text.splitlines()[-1] == "1 tasks of split 'test' are in 'book' (indices 1)"


def test_check_reports_what_is_nearly_equal_and_what_is_published(folder, capfd):
    words = ["--only", "splits-are-unlike", "--only", "tasks-are-new", "--json"]
    status, text = run(capfd, "check", str(folder), *words, "--against", "book=published.csv")
    first, second = json.loads(text)["verdicts"]
    assert (status, first["outcome"], second["outcome"]) == (0, "fail", "fail")
    assert first["reason"].startswith("1 of 4 tasks of split 'test' are nearly equal to one of split 'train'")
    assert second["reason"].startswith("1 tasks of split 'test' are in 'book'")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--against", "published.csv"], "--against"),
        (["--against", "book=nothing.csv"], "nothing.csv"),
        (["--threshold", "2"], "threshold"),
        (["--store", "memory"], "in memory"),
    ],
)
def test_wrong_words_are_named(folder, capfd, words, reason):
    status = main(["tasks", str(folder), "--store", str(folder / "none.db"), *words])
    said = capfd.readouterr().err
    assert status in {1, 2}
    assert reason in said
