"""Near misses of rows and declarations, judged by an independent parser too."""

import csv
import io
import json
import random

import jsonschema
import pydantic_core

from ors_server.environments.declared.declaration import Declaration
from ors_server.environments.declared.declaration_schema import declaration_schema
from ors_server.environments.declared.rows.choose_source import choose_source


def test_the_schema_judges_as_the_model_does(write):
    """Near misses of a declaration: the schema and the model refuse the same."""
    judge = jsonschema.Draft202012Validator(json.loads(declaration_schema()))
    good = {
        "data": "a.jsonl",
        "name": "n",
        "skip_bad": True,
        "images": ["i"],
        "records": "a.b",
        "prompt": "p",
        "answer": "a",
        "reward": [{"name": "r", "weight": 2.0, "options": {"x": 1}}],
        "columns": {"a": "text"},
        "policy": {"step_limit": 3},
        "metadata": ["m"],
        "fields": {"f": 3},
    }
    values = [
        "text",
        5,
        True,
        None,
        [],
        {},
        ["a"],
        {"name": "r"},
        {"data": "x"},
        [{"name": 5}],
        {"a": "text"},
        -1.5,
    ]
    rng = random.Random(7)  # noqa: S311  (the same near misses every time)
    refused = 0
    for _ in range(600):
        near = json.loads(json.dumps(good))
        key = rng.choice([*near, "unknown", "splits", "toolsets", "visibility", "files"])
        near[key] = rng.choice(values)
        if "splits" in near and "data" in near:
            del near["data"]
        fits = judge.is_valid(near)
        try:
            Declaration.model_validate(near)
        except ValueError:
            assert not fits, near
            refused += 1
        else:
            assert fits, near
    assert 100 < refused < 600


def scanned(path):
    return [
        row.value if isinstance(row.value, dict) else None
        for row in choose_source(str(path), path.parent).rows()
    ]


def test_near_misses_of_json_lines_are_judged_as_a_strict_parser_judges_them(write):
    rng = random.Random(11)  # noqa: S311  (the same near misses every time)
    lines = []
    for _ in range(1500):
        text = json.dumps(
            {"q": rng.choice(["a", "\u00e4", 'x"y', "\\", ""]), "n": rng.choice([1, -2.5, None, [1, {}]])}
        )
        spot = rng.randrange(len(text))
        cut = rng.choice(["", rng.choice('{}[]":,0.eE-+ntfu\\ x'), text[spot] * 2])
        lines.append(text[:spot] + cut + text[spot + 1 :])
    path = write("train.jsonl", "".join(f"{line}\n" for line in lines))
    found = scanned(path)
    expected = []
    for line in lines:
        try:
            value = pydantic_core.from_json(line, allow_inf_nan=False)
        except ValueError:
            value = None
        expected.append(value if isinstance(value, dict) else None)
    assert len(found) == len(lines)
    twice = [line.count('"q"') > 1 or line.count('"n"') > 1 for line in lines]
    for line, ours, theirs, is_twice in zip(lines, found, expected, twice, strict=True):
        assert ours == theirs or is_twice, line
    assert 200 < sum(value is None for value in found) < 1400


def test_random_tables_are_read_as_the_module_csv_wrote_them(write):
    rng = random.Random(5)  # noqa: S311  (the same near misses every time)
    for separator, name in ((",", "a.csv"), ("\t", "a.tsv")):
        rows = [
            [rng.choice(['"', "a,b", "c\td", "x\ny", "", "\u00fc", " z "]) + str(n), str(n)]
            for n in range(400)
        ]
        stream = io.StringIO()
        csv.writer(stream, delimiter=separator).writerows([["q", "n"], *rows])
        path = write(name, stream.getvalue())
        source = choose_source(name, path.parent)
        data = path.read_bytes()
        found = list(source.rows())
        assert [[row.value["q"], row.value["n"]] for row in found] == rows
        fresh = choose_source(name, path.parent)
        assert [fresh.decode(data[row.offset : row.offset + row.length]) for row in found] == [
            row.value for row in found
        ]
