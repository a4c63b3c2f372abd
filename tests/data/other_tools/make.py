"""Writes the files of this folder with the tools that their names say.

The files that are kept were made by Python with pandas 3.1.1, pyarrow 26.0.1, datasets 4.4.2,
polars 2.1.0, duckdb 2.0.1 and openpyxl 3.1.5, and by jq 1.6. Excel and Spark were not available: their
files are written here byte by byte, as Excel (German, Windows) and Spark 3.5 write them.
"""

import csv
import json
import pickle
import shutil
import subprocess
from pathlib import Path

import datasets
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
from pyarrow import parquet

JQ = shutil.which("jq") or "jq"
HERE = Path(__file__).parent
ROWS = [
    {"number": 1, "question": 'What is "2 + 3"?', "answer": "5"},
    {"number": 2, "question": "Wie groß ist 6, mal 7?\nIn Ziffern.", "answer": "42"},
    {"number": 3, "question": "What is 1/2 + 1/4?", "answer": "3/4"},
]
PLAIN = [{**row, "question": str(row["question"]).replace("\n", " ")} for row in ROWS]
JSON_LINES = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS)


def main() -> None:
    for path in HERE.iterdir():
        if path.is_dir() and path.name != "__pycache__":
            shutil.rmtree(path)
        elif path.suffix != ".py":
            path.unlink()
    write_pandas(pd.DataFrame(ROWS), pd.DataFrame(PLAIN))
    write_datasets(datasets.Dataset.from_list(ROWS))
    write_polars(pl.DataFrame(ROWS))
    write_duckdb()
    write_others()
    write_by_hand()


def write_pandas(frame: pd.DataFrame, plain: pd.DataFrame) -> None:
    frame.to_csv(HERE / "pandas_index.csv")
    frame.to_csv(HERE / "pandas.csv", index=False)
    frame.to_csv(HERE / "pandas_bom.csv", index=False, encoding="utf-8-sig")
    frame.to_csv(HERE / "pandas_utf16.csv", index=False, encoding="utf-16")
    frame.to_csv(HERE / "pandas_latin1.csv", index=False, encoding="latin-1")
    frame.to_csv(HERE / "pandas_semicolon.csv", index=False, sep=";")
    frame.to_csv(HERE / "pandas_crlf.csv", index=False, lineterminator="\r\n")
    frame.to_csv(HERE / "pandas_cr.csv", index=False, lineterminator="\r")
    frame.to_csv(HERE / "pandas.tsv", index=False, sep="\t")
    plain.assign(question=['"2 + 3" is', *plain["question"][1:]]).to_csv(
        HERE / "pandas_unquoted.tsv", index=False, sep="\t", quoting=csv.QUOTE_NONE
    )
    plain.assign(question=['"2 + 3 is', *plain["question"][1:]]).to_csv(
        HERE / "pandas_lone_quote.tsv", index=False, sep="\t", quoting=csv.QUOTE_NONE
    )
    for ending in ("gz", "bz2", "xz", "zip"):
        frame.to_csv(HERE / f"pandas.csv.{ending}", index=False)
    frame.to_json(HERE / "pandas_default.json")
    for orient in ("records", "index", "split", "table"):
        frame.to_json(HERE / f"pandas_{orient}.json", orient=orient)
    frame.to_json(HERE / "pandas_indent.json", orient="records", indent=2)
    (HERE / "pandas_list.json").write_text(json.dumps(frame.to_dict("list")))
    frame.to_json(HERE / "pandas_records.json.gz", orient="records")
    frame.to_json(HERE / "pandas.jsonl", orient="records", lines=True)
    frame.to_json(HERE / "pandas.jsonl.gz", orient="records", lines=True)
    wide = frame.assign(
        took=pd.to_timedelta([1, 2, None], unit="ns"),
        seen=pd.to_datetime(["2026-01-01T00:00:00.000000001", None, "2026-01-03"], format="mixed"),
        share=[0.5, float("nan"), float("inf")],
        kind=pd.Categorical(["a", "b", "a"]),
    ).set_index(pd.Index([7, 8, 9]))
    wide.to_parquet(HERE / "pandas.parquet")
    frame.to_feather(HERE / "pandas.feather")
    frame.to_excel(HERE / "pandas.xlsx", index=False)
    (HERE / "pandas.pkl").write_bytes(pickle.dumps(frame.to_dict()))


def write_datasets(dataset: datasets.Dataset) -> None:
    dataset.to_json(HERE / "datasets.json")
    dataset.to_csv(HERE / "datasets.csv")
    dataset.to_parquet(HERE / "datasets.parquet")
    dataset.save_to_disk(HERE / "datasets_saved")
    for folder, missing in (("datasets_shards", ""), ("datasets_lost", "train-00001-of-00002.parquet")):
        shards = HERE / folder / "data"
        shards.mkdir(parents=True)
        for number in range(2):
            dataset.shard(2, number).to_parquet(shards / f"train-{number:05}-of-00002.parquet")
        dataset.select([2]).to_parquet(shards / "test-00000-of-00001.parquet")
        if missing:
            (shards / missing).unlink()
    chats = [
        {
            "question": [
                {"role": "system", "content": "Be short."},
                {"role": "user", "content": row["question"]},
            ],
            "answer": row["answer"],
        }
        for row in ROWS
    ]
    datasets.Dataset.from_list(chats).to_parquet(HERE / "datasets_chat.parquet")


def write_polars(frame: pl.DataFrame) -> None:
    frame.write_csv(HERE / "polars.csv")
    frame.write_csv(HERE / "polars_bom.csv", include_bom=True, line_terminator="\r\n")
    frame.write_json(HERE / "polars.json")
    frame.write_ndjson(HERE / "polars.ndjson")
    frame.write_parquet(HERE / "polars.parquet")
    frame.write_ipc(HERE / "polars.arrow")


def write_duckdb() -> None:
    database = duckdb.connect()
    database.execute("CREATE TABLE rows (number INTEGER, question VARCHAR, answer VARCHAR)")
    database.executemany("INSERT INTO rows VALUES (?, ?, ?)", [list(row.values()) for row in ROWS])
    for name, options in {
        "duckdb.csv": "HEADER",
        "duckdb.csv.gz": "HEADER, COMPRESSION gzip",
        "duckdb.json": "FORMAT json",
        "duckdb_array.json": "FORMAT json, ARRAY true",
        "duckdb.parquet": "FORMAT parquet",
    }.items():
        database.execute(f"COPY rows TO '{HERE / name}' ({options})")


def write_others() -> None:
    table = pa.table([["q"], ["1"], ["2"]], names=["question", "answer", "answer"])
    parquet.write_table(table, HERE / "pyarrow_twice.parquet")
    with (HERE / "python_quoted.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(ROWS[0]), quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows(ROWS)
    (HERE / "python_nan.json").write_text(json.dumps([{**row, "score": float("nan")} for row in ROWS]))
    trajectories = [{**row, "trajectory": [{"action": "ls", "thought": "look"}]} for row in ROWS]
    (HERE / "python_trajectory.jsonl").write_text("".join(json.dumps(row) + "\n" for row in trajectories))
    source = JSON_LINES.encode()
    pretty = subprocess.run([JQ, "."], input=source, capture_output=True, check=True).stdout
    (HERE / "jq.json").write_bytes(pretty)
    (HERE / "jq_pretty.jsonl").write_bytes(pretty)
    for name, options in {"jq.jsonl": ["-c", "."], "jq_slurp.json": ["-s", "."]}.items():
        made = subprocess.run([JQ, *options], input=source, capture_output=True, check=True).stdout
        (HERE / name).write_bytes(made)
    for split, rows in {"train": ROWS[:2], "test": ROWS[2:]}.items():
        for folder, one_each in (("lines", False), ("math", True)):
            path = HERE / folder / (f"{split}/algebra" if one_each else ".")
            path.mkdir(parents=True, exist_ok=True)
            if one_each:
                for row in rows:
                    (path / f"{row['number']}.json").write_text(json.dumps(row))
            else:
                (path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_by_hand() -> None:
    cells = [[str(value).replace('"', '""') for value in row.values()] for row in ROWS]
    lines = ["number;question;answer;;", *(f'{a};"{b}";{c};;' for a, b, c in cells), ";;;;", ";;;;", ""]
    (HERE / "excel.csv").write_text("\r\n".join(lines), encoding="utf-8-sig", newline="")
    (HERE / "excel_ansi.csv").write_text("\r\n".join(lines), encoding="cp1252", newline="")
    (HERE / "excel_sep.csv").write_text("\r\n".join(["sep=;", *lines]), encoding="utf-8-sig", newline="")
    text = "\r\n".join(["number\tquestion\tanswer", *(f'{a}\t"{b}"\t{c}' for a, b, c in cells), ""])
    (HERE / "excel_unicode.tsv").write_text(text, encoding="utf-16", newline="")
    spark = HERE / "spark_json"
    spark.mkdir()
    name = "5f0b7a52-6c0e-4b4a-9a0d-0c4f3a1f7d11-c000"
    lines = JSON_LINES.splitlines(keepends=True)
    for number, part in enumerate((lines[:2], lines[2:])):
        (spark / f"part-{number:05}-{name}.json").write_text("".join(part), encoding="utf-8")
        (spark / f".part-{number:05}-{name}.json.crc").write_bytes(b"crc\0")
    (spark / "_SUCCESS").write_bytes(b"")
    escaped = [str(row["question"]).replace('"', '\\"').replace("\n", " ") for row in ROWS]
    lines = [
        "question,answer",
        *(f'"{text}",{row["answer"]}' for text, row in zip(escaped, ROWS, strict=True)),
        "",
    ]
    (HERE / "spark.csv").write_text("\n".join(lines), encoding="utf-8")
    (HERE / "curl_gzip.jsonl").write_bytes((HERE / "pandas.jsonl.gz").read_bytes())


if __name__ == "__main__":
    main()
