"""The recipes, over invented rows in the format of the real files."""

import csv
import io
import json
import sqlite3

import pytest

from ors_server.environments.declared.declaration_file import recipe_names
from ors_server.environments.declared.references import declare_data
from ors_server.environments.loading import define
from ors_server.testing import check_environment, play

GSM8K = [
    {
        "question": "Nia picks 4 pears and then 6 more. How many pears has she?",
        "answer": "She picks 4 + 6 = <<4+6=10>>10 pears.\n#### 10",
    },
    {
        "question": "A town has 12 streets of 100 houses.",
        "answer": "12 * 100 = <<12*100=1200>>1200\n#### 1,200",
    },
]
MATH = [
    {
        "problem": "What is $\\frac12+\\frac14$?",
        "level": "Level 1",
        "type": "Algebra",
        "solution": "We add: $\\frac24+\\frac14=\\boxed{\\frac{3}{4}}$.",
    },
    {"problem": "Solve $x-1=1$.", "level": "Level 2", "type": "Algebra", "solution": "So $x=\\boxed{2}$."},
]
MATH_500 = [
    {
        "problem": "What is $3^2$?",
        "solution": "It is $\\boxed{9}$.",
        "answer": "9",
        "subject": "Prealgebra",
        "level": 1,
        "unique_id": "test/prealgebra/1.json",
    }
]
AIME = [
    {"id": 60, "problem": "Find n.", "solution": "It is 33.", "answer": "33", "url": "u", "year": "2024"},
    {"id": 61, "problem": "Find m.", "solution": "It is 204.", "answer": "204", "url": "u", "year": "2024"},
]
AIME_CSV = [
    ["ID", "Year", "Problem Number", "Question", "Answer", "Part"],
    ["1983-1", "1983", "1", "Find the value, of z.", "60", ""],
    ["1983-2", "1983", "2", "Find the least value.", "15", ""],
]
GPQA_HEAD = "Record ID,Question,Correct Answer,Incorrect Answer 1,Incorrect Answer 2,Incorrect Answer 3"
GPQA_CSV = [
    f"{GPQA_HEAD},High-level domain,Subdomain,Explanation".split(","),
    ["rec1", "Which gas\nis lightest?", "Hydrogen\n", "Helium", "Neon", "Argon", "Chemistry", "Gases", "..."],
    [
        "rec2",
        "Which is a lepton?",
        "The muon",
        "The pion",
        "The kaon",
        "The proton",
        "Physics",
        "Particles",
        ".",
    ],
]
MMLU_PRO = [
    {
        "question_id": 70,
        "question": "What is the plural of mouse?",
        "options": ["Mouses", "Mice", "Meese", "Mousen", "Mouse", "Mices", "Micer"],
        "answer": "B",
        "answer_index": 1,
        "cot_content": "",
        "category": "other",
        "src": "invented",
    }
]
SQUAD = {
    "version": "v2.0",
    "data": [
        {
            "title": "Harbour",
            "paragraphs": [
                {
                    "context": "The harbour of Vell was built in 1702 by Ana Droste.",
                    "qas": [
                        {
                            "question": "Who built the harbour?",
                            "id": "q1",
                            "answers": [
                                {"text": "Ana Droste", "answer_start": 41},
                                {"text": "Droste", "answer_start": 45},
                            ],
                            "is_impossible": False,
                        },
                        {
                            "question": "Who burnt the harbour?",
                            "id": "q2",
                            "plausible_answers": [{"text": "Ana Droste", "answer_start": 41}],
                            "answers": [],
                            "is_impossible": True,
                        },
                    ],
                }
            ],
        }
    ],
}
SQUAD_HUB = [
    {
        "id": "q1",
        "title": "Harbour",
        "context": "The harbour of Vell was built in 1702.",
        "question": "When?",
        "answers": {"text": ["1702"], "answer_start": [33]},
    },
    {
        "id": "q2",
        "title": "H",
        "context": "The sea.",
        "question": "Why?",
        "answers": {"text": [], "answer_start": []},
    },
]
HOTPOT = [
    {
        "_id": "5a",
        "answer": "yes",
        "question": "Are Vell and Marn both ports?",
        "supporting_facts": [["Vell", 0], ["Marn", 0]],
        "context": [["Vell", ["Vell is a port.", " It is old."]], ["Marn", ["Marn is a port."]]],
        "type": "comparison",
        "level": "hard",
    }
]
HOTPOT_HUB = [
    {
        "id": "5b",
        "question": "In which year was the port of the town of Ana Droste built?",
        "answer": "1702",
        "type": "bridge",
        "level": "medium",
        "supporting_facts": {"title": ["Vell"], "sent_id": [0]},
        "context": {"title": ["Vell", "Droste"], "sentences": [["Built in 1702."], ["Ana.", " Of Vell."]]},
    }
]
EVALPLUS = """import numpy as np

def is_floats(x) -> bool:
    # check if it is float; List[float]; Tuple[float]
    if isinstance(x, float):
        return True
    if isinstance(x, (list, tuple)):
        return all(isinstance(i, float) for i in x)
    if isinstance(x, np.ndarray):
        return x.dtype == np.float64 or x.dtype == np.float32
    return False


def assertion(out, exp, atol):
    exact_match = out == exp
    if atol == 0 and is_floats(exp):
        atol = 1e-6
    if not exact_match and atol != 0:
        assert np.allclose(out, exp, rtol=1e-07, atol=atol)
    else:
        assert exact_match
"""
HUMANEVAL = [
    {
        "task_id": "HumanEval/900",
        "prompt": "from typing import List\n\n\n"
        'def halves(numbers: List[float]) -> List[float]:\n    """ Halve. """\n',
        "canonical_solution": "\n    return [number / 2 for number in numbers]\n",
        "entry_point": "halves",
        "test": EVALPLUS
        + "\n\ndef check(candidate):\n    inputs = [[[1.0, 3.0]], [[]]]\n    results = [[0.5, 1.5], []]\n"
        "    for i, (inp, exp) in enumerate(zip(inputs, results)):\n"
        "        assertion(candidate(*inp), exp, 0)\n",
    }
]
MBPP = [
    {
        "task_id": 902,
        "code": "def shared(a, b):\n  return tuple(set(a) & set(b))\n",
        "prompt": '"""\nWrite a function to find the shared elements.\n'
        'assert set(shared((3,), (3,))) == {3}\n"""\n',
        "source_file": "Benchmark Questions Verification V2.ipynb",
        "test_imports": [],
        "test_list": ["assert set(shared((3, 4), (4, 3))) == set((3, 4))"],
        "test": EVALPLUS.replace("import numpy as np\n", "import numpy as np\nfrom math import inf\n")
        + "\ninputs = [[(3, 4, 5), (5, 7, 4)], [(1,), (2,)]]\nresults = [(4, 5), ()]\n"
        "for i, (inp, exp) in enumerate(zip(inputs, results)):\n    assertion(shared(*inp), exp, 0)\n",
    }
]


def make_database(path):
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE ship (name TEXT, tons INTEGER)")
        connection.executemany("INSERT INTO ship VALUES (?, ?)", [("Ost", 100), ("West", 250)])
    connection.close()


SPIDER = [
    {
        "db_id": "fleet",
        "query": "SELECT name FROM ship WHERE tons > 200",
        "query_toks": ["SELECT"],
        "query_toks_no_value": ["select"],
        "question": "Which ships have more than 200 tons?",
        "question_toks": ["Which"],
        "sql": {"from": {}},
    }
]
BIRD = [
    {
        "question_id": 0,
        "db_id": "fleet",
        "question": "How many tons has the largest ship?",
        "evidence": "largest refers to MAX(tons)",
        "SQL": "SELECT MAX(tons) FROM ship",
        "difficulty": "simple",
    }
]


def as_csv(rows):
    stream = io.StringIO()
    csv.writer(stream).writerows(rows)
    return stream.getvalue()


CASES = [
    ("gsm8k", "train.jsonl", GSM8K, ["10", "1200"]),
    ("math", "train.jsonl", MATH, ["\\frac{3}{4}", "2"]),
    ("math", "test.jsonl", MATH_500, ["9"]),
    ("aime", "aime.jsonl", AIME, ["33", "204"]),
    ("aime", "AIME_Dataset_1983_2024.csv", as_csv(AIME_CSV), ["60", "15"]),
    ("gpqa", "gpqa_diamond.csv", as_csv(GPQA_CSV), None),
    ("mmlu_pro", "test.jsonl", MMLU_PRO, ["B"]),
    ("squad2", "dev-v2.0.json", json.dumps(SQUAD), [["Ana Droste", "Droste"], ["unanswerable"]]),
    ("squad2", "validation.jsonl", SQUAD_HUB, [["1702"], ["unanswerable"]]),
    ("hotpotqa", "hotpot_dev_distractor_v1.json", json.dumps(HOTPOT), ["yes"]),
    ("hotpotqa", "validation.jsonl", HOTPOT_HUB, ["1702"]),
    ("humaneval_plus", "test.jsonl", HUMANEVAL, None),
    ("mbpp_plus", "test.jsonl", MBPP, None),
    ("spider", "dev.json", json.dumps(SPIDER), ["SELECT name FROM ship WHERE tons > 200"]),
    ("bird", "dev.json", json.dumps(BIRD), ["SELECT MAX(tons) FROM ship"]),
]


@pytest.fixture
def made(request, write, tmp_path):
    recipe, name, content, answers = request.param
    make_database(tmp_path / "database/fleet/fleet.sqlite")
    make_database(tmp_path / "dev_databases/fleet/fleet.sqlite")
    return declare_data(str(write(name, content)), {"recipe": recipe}), answers


def test_every_recipe_is_tested():
    assert {case[0] for case in CASES} == set(recipe_names())


# The programs of both sets run in sandboxes; tests/contract/test_recipes_at_the_door.py always plays some.
@pytest.mark.parametrize(
    "made",
    [
        pytest.param(case, marks=pytest.mark.stress) if case[0] in ("mbpp_plus", "humaneval_plus") else case
        for case in CASES
    ],
    indirect=True,
    ids=lambda case: f"{case[0]}-{case[1]}",
)
def test_an_environment_of_a_recipe_passes_every_check(made):
    cls, answers = made
    definition = define(cls)
    (split,) = cls.list_splits()
    tasks = cls.get_task_range(split.name)
    if answers is not None:
        assert [task["answer"] for task in tasks] == answers
    report = check_environment(definition, all_tasks=True)
    assert not list(report.failed()), report
    judged = {verdict.check.id: verdict.outcome for verdict in report.verdicts}
    assert judged["gold-earns-the-most"] == judged["blank-earns-the-least"] == "pass"
    assert not {"solution", "test", "cot_content", "query", "SQL"} & {*tasks[0]}


def test_the_choices_of_gpqa_are_in_an_order_that_their_record_decides(write):
    path = str(write("gpqa.csv", as_csv(GPQA_CSV)))
    cls = declare_data(path, {"recipe": "gpqa"})
    tasks = cls.get_task_range("train")
    again = declare_data(path, {"recipe": "gpqa"}).get_task_range("train")
    assert tasks == again
    for task, row in zip(tasks, GPQA_CSV[1:], strict=True):
        assert sorted(task["choices"]) == sorted(text.strip() for text in row[2:6])
        assert task["choices"]["ABCD".index(task["answer"])] == row[2].strip()
    with play(cls, index=0) as episode:
        assert "A. " in episode.prompt
        assert "Which gas\nis lightest?" in episode.prompt


def test_a_wrong_program_earns_nothing(write):
    for recipe, rows in (("humaneval_plus", HUMANEVAL), ("mbpp_plus", MBPP)):
        cls = declare_data(str(write(f"{recipe}.jsonl", rows)), {"recipe": recipe})
        with play(cls, index=0) as episode:
            name = "halves" if recipe == "humaneval_plus" else "shared"
            episode.call("create", path="solution.py", content=f"def {name}(*args):\n    return [1.0]\n")
            output = episode.call("submit")
            assert output.reward == 0.0
            assert episode.summary.phase == "finished"


def test_the_prompt_of_a_database_has_its_tables(write, tmp_path):
    make_database(tmp_path / "database/fleet/fleet.sqlite")
    cls = declare_data(str(write("dev.json", json.dumps(SPIDER))), {"recipe": "spider"})
    with play(cls, index=0) as episode:
        assert "CREATE TABLE ship (name TEXT, tons INTEGER);" in episode.prompt
        assert episode.call("submit", answer="SELECT 'West'").reward == 1.0
    with play(cls, index=0) as episode:
        assert episode.call("submit", answer="SELECT name FROM ship").reward == 0.0
    assert cls.get_task("dev", 0)["database"] == "database/fleet/fleet.sqlite"
