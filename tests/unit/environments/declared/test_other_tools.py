"""Files as other tools write them: each is read, or refused for the right reason. `make.py` made them."""

from pathlib import Path

import pytest

from ors_server.environments.declared.references import declare_data
from ors_server.model.errors import EnvironmentDefinitionError

FOLDER = Path(__file__).parents[3] / "data" / "other_tools"
KEYS = {"prompt": "question", "answer": "answer", "reward": "math_equal_reward"}
QUESTIONS = ['What is "2 + 3"?', "Wie groß ist 6, mal 7?\nIn Ziffern.", "What is 1/2 + 1/4?"]
ANSWERS = ["5", "42", "3/4"]

READ = [
    "datasets.csv",
    "datasets.json",  # JSON lines
    "datasets.parquet",
    "duckdb.csv",
    "duckdb.csv.gz",
    "duckdb.json",  # JSON lines
    "duckdb.parquet",
    "duckdb_array.json",
    "excel.csv",
    "excel_sep.csv",
    "jq.json",
    "jq.jsonl",
    "jq_slurp.json",
    "pandas.csv",
    "pandas.csv.gz",
    "pandas.jsonl",
    "pandas.jsonl.gz",
    "pandas.parquet",
    "pandas.tsv",
    "pandas_bom.csv",
    "pandas_crlf.csv",
    "pandas_default.json",
    "pandas_indent.json",
    "pandas_index.csv",
    "pandas_index.json",
    "pandas_list.json",
    "pandas_records.json",
    "pandas_records.json.gz",
    "pandas_semicolon.csv",
    "pandas_split.json",
    "pandas_table.json",
    "polars.csv",
    "polars.json",
    "polars.ndjson",
    "polars.parquet",
    "polars_bom.csv",
    "python_nan.json",
    "python_quoted.csv",
    "python_trajectory.jsonl",
    "spark_json",
]


@pytest.mark.parametrize("name", READ)
def test_a_file_is_read(name):
    environment = declare_data(str(FOLDER / name), KEYS)
    tasks = environment.get_task_range("train")
    assert [task["question"] for task in tasks] == QUESTIONS
    assert [task["answer"] for task in tasks] == ANSWERS
    assert {str(task["number"]) for task in tasks} == {"1", "2", "3"}
    assert not {"", "__index_level_0__"} & tasks[0].keys()


@pytest.mark.parametrize("name", ["datasets_shards", "lines", "math"])
def test_a_folder_gives_its_splits(name):
    environment = declare_data(str(FOLDER / name), KEYS)
    assert {split.name: split.type for split in environment.list_splits()} == {
        "train": "train",
        "test": "test",
    }
    by_split = {split: environment.get_task_range(split) for split in ("train", "test")}
    numbers = {split: [task["number"] for task in tasks] for split, tasks in by_split.items()}
    train = [1, 2, 3] if name == "datasets_shards" else [1, 2]
    assert numbers == {"train": train, "test": [3]}


def test_values_that_json_has_not_are_missing_or_text():
    task = declare_data(str(FOLDER / "pandas.parquet"), KEYS).get_task("train", 1)
    assert (task["share"], task["seen"], task["kind"]) == (None, None, "b")
    assert isinstance(task["took"], str)
    assert declare_data(str(FOLDER / "python_nan.json"), KEYS).get_task("train", 0)["score"] is None


def test_durations_within_lists_and_structures_of_parquet_are_text(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    took = arrow.duration("ns")
    columns = {
        "question": ["What is 2 + 3?", "What is 6 x 7?"],
        "answer": ["5", "42"],
        "one": arrow.array([1001, None], took),
        "list": arrow.array([[1001, None], None], arrow.list_(took)),
        "lists": arrow.array([[[1001]], []], arrow.list_(arrow.list_(took))),
        "structure": arrow.array([{"a": 1001}, {"a": None}], arrow.struct([("a", took)])),
        "map": arrow.array([[("k", 1001)], []], arrow.map_(arrow.string(), took)),
    }
    parquet.write_table(arrow.table(columns), tmp_path / "train.parquet")
    first, second = declare_data(str(tmp_path / "train.parquet"), KEYS).get_task_range("train")
    names = ("one", "list", "lists", "structure", "map")
    assert [first[name] for name in names] == [
        "1001",
        ["1001", None],
        [["1001"]],
        {"a": "1001"},
        [["k", "1001"]],
    ]
    assert [second.get(name) for name in names] == [None, None, [], {"a": None}, []]


def test_a_tsv_file_without_quoting_is_read_as_it_is():
    for name, question in (("pandas_unquoted.tsv", '"2 + 3" is'), ("pandas_lone_quote.tsv", '"2 + 3 is')):
        environment = declare_data(str(FOLDER / name), KEYS)
        assert [task["question"] for task in environment.get_task_range("train")] == [
            question,
            QUESTIONS[1].replace("\n", " "),
            QUESTIONS[2],
        ]


def test_a_chat_is_a_prompt():
    environment = declare_data(str(FOLDER / "datasets_chat.parquet"), KEYS)
    shown = environment.shown_at_start(environment.get_task("train", 0))
    assert shown["prompt"] == f"Be short.\n\n{QUESTIONS[0]}"


REFUSED = {
    "curl_gzip.jsonl": "expected text in UTF-8, got gzip data (give it a name that ends in .gz)",
    "datasets_lost": "expected 2 shards, got 1; number 1 is missing",
    "datasets_saved": "save_to_disk of datasets wrote; write the data with to_parquet or to_json",
    "excel_ansi.csv": "got the byte 0xdf (save it as 'CSV UTF-8', or convert it with iconv)",
    "excel_unicode.tsv": "got UTF-16 (iconv -f UTF-16 -t UTF-8 converts it)",
    "jq_pretty.jsonl": "the first of several lines of one value; `jq -c .` writes it on one line",
    "pandas.csv.bz2": "got bzip2 data; unpack it (bunzip2)",
    "pandas.csv.xz": "got xz data; unpack it (unxz)",
    "pandas.csv.zip": "got a ZIP archive; unpack it",
    "pandas.feather": "got a Feather file; write it as parquet or JSON lines",
    "pandas.pkl": "got a pickle, which may run code; write it as parquet or JSON lines",
    "pandas.xlsx": "got an Excel workbook; save the sheet as 'CSV UTF-8' (.csv)",
    "pandas_cr.csv": "end lines with LF, not with CR alone",
    "pandas_latin1.csv": "got the byte 0xdf (save it as 'CSV UTF-8', or convert it with iconv)",
    "pandas_utf16.csv": "got UTF-16 (iconv -f UTF-16 -t UTF-8 converts it)",
    "polars.arrow": "got an Arrow file; write it as parquet or JSON lines",
    "pyarrow_twice.parquet": "expected each column once, got 'answer' twice",
    "spark.csv": 'write a quote within quotes as "" (Spark: option("escape", "\\""))',
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_is_refused_for_the_right_reason(name):
    with pytest.raises(EnvironmentDefinitionError) as refused:
        declare_data(str(FOLDER / name), KEYS)
    lines = [str(refused.value), *getattr(refused.value, "reports", ())]
    assert any(REFUSED[name] in line for line in lines), lines


def test_every_file_is_tried():
    others = {
        "datasets_chat.parquet",
        "pandas_unquoted.tsv",
        "pandas_lone_quote.tsv",
        "make.py",
        "__pycache__",
    }
    tried = {*READ, *REFUSED, *others, "datasets_shards", "lines", "math"}
    assert {path.name for path in FOLDER.iterdir()} <= tried
    assert len(tried) >= 40
