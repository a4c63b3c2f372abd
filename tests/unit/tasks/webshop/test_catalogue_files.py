"""A catalogue's files: what is missing, broken or changed, and what is built from them."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from ors_server_tasks.webshop import catalogue as catalogue_module
from ors_server_tasks.webshop.__main__ import main
from ors_server_tasks.webshop.arrays import MappedArray, write_array
from ors_server_tasks.webshop.catalogue import cache_folder, name_catalogue, open_catalogue
from ors_server_tasks.webshop.data_folder import FORMAT, find_files
from ors_server_tasks.webshop.invented import EDITION, make_products, write_invented
from ors_server_tasks.webshop.json_reading import CatalogueError, read_entries


def test_a_folder_that_is_not_there_or_lacks_a_file_is_named(tmp_path, write_catalogue, make_product):
    with pytest.raises(CatalogueError, match=r"WEBSHOP_DATA=.*nowhere: expected a folder"):
        find_files(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CatalogueError, match=r"expected one of items_shuffle\.json, .* in it, found none"):
        find_files(tmp_path / "empty")
    folder = write_catalogue(make_product())
    (folder / "items_ins_v2.json").unlink()
    with pytest.raises(CatalogueError, match=r"expected items_ins_v2\.json next to items_shuffle\.json"):
        find_files(folder)


BROKEN = {
    "no object": ([7], "items_shuffle.json, line 2: expected a product as a JSON object, got 7"),
    "no text": ({"full_description": None}, "line 2: expected 'full_description' as a text, got None"),
    "wrong name": ({"name": 3}, "expected 'name' as a text, got 3"),
    "price": ({"pricing": "12.50"}, "expected 'pricing' such as '$12.99' or '$10.00 to $20.00', got '12.50'"),
    "price word": ({"pricing": "$ten"}, "expected 'pricing' such as '$12.99'"),
    "bullets": ({"small_description": [1]}, "expected 'small_description' as a list of texts, got [1]"),
    "options": ({"customization_options": [1]}, "expected 'customization_options' as lists of objects"),
    "values": ({"customization_options": {"color": [{}]}}, "got [{}] in 'color'"),
}


@pytest.mark.parametrize(("entry", "told"), BROKEN.values(), ids=BROKEN)
def test_a_broken_product_is_told_by_file_and_line(entry, told, write_catalogue, make_product):
    entries = entry if isinstance(entry, list) else [make_product(**entry)]
    with pytest.raises(CatalogueError) as caught:
        open_catalogue(str(write_catalogue(*entries)), "human")
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ('[\n{"a": 1},\n{"b": }\n]', 3, "expected a row as JSON (Expecting value)"),
        ('[\n{"a": 1},\n{"b": 2', 3, "expected a row as JSON (Expecting ',' delimiter)"),
        ('[\n{"a": 1}\n', 3, "expected a row or ']'"),
        ('{"k": 1,\n"l" 2}', 2, "expected the key of a row, and a value"),
        ('{"k": 1,\n7: 2}', 2, "expected the key of a row"),
        ("no json", 1, "expected a row as JSON"),
    ],
)
def test_what_is_no_json_is_told_by_its_line(text, line, told, tmp_path):
    path = tmp_path / "rows.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CatalogueError) as caught:
        list(read_entries(path, "a row"))
    assert f"rows.json, line {line}: " in str(caught.value)
    assert told in str(caught.value)


def test_a_file_that_is_no_text_or_cannot_be_read_is_named(tmp_path):
    (tmp_path / "latin.json").write_bytes(b'["\xe9"]')
    with pytest.raises(CatalogueError, match=r"latin\.json, .* expected UTF-8"):
        list(read_entries(tmp_path / "latin.json", "a row"))
    with pytest.raises(CatalogueError, match=r"expected a file that can be read"):
        list(read_entries(tmp_path / "none.json", "a row"))


@pytest.mark.parametrize("chunk", [1, 2, 7, 100])
def test_entries_are_read_alike_in_pieces_of_any_size(chunk, tmp_path, monkeypatch):
    monkeypatch.setattr("ors_server_tasks.webshop.json_reading.CHUNK", chunk)
    values = [{"a": "é\n\\u00e9" * 20}, 12.5e3, True, "x", [], {"b": [None, "]}"]}]
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(values, indent=2), encoding="utf-8")
    assert [value for _, _, value in read_entries(path, "a row")] == values
    path.write_text(json.dumps({str(place): value for place, value in enumerate(values)}), encoding="utf-8")
    assert [(key, value) for _, key, value in read_entries(path, "a row")] == [
        (str(place), value) for place, value in enumerate(values)
    ]
    lines = tmp_path / "rows.jsonl"
    lines.write_text("\n".join(json.dumps({"v": value}) for value in values), encoding="utf-8")
    assert [value["v"] for _, _, value in read_entries(lines, "a row")] == values
    assert [line for line, _, _ in read_entries(lines, "a row")] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("items_ins_v2", '{"B000000001": [1]}', "expected an object of attributes by asin, got [1]"),
        ("items_ins_v2", '{"B000000001": {"attributes": "x"}}', "expected 'attributes' as a list of texts"),
        ("items_ins_v2", '{"B000000001": {"instruction": 1}}', "expected 'instruction' as a text, got 1"),
        ("items_human_ins", '{"B000000001": {}}', "expected a list of instructions, got {}"),
        ("items_human_ins", '{"B000000001": [1]}', "expected an instruction as a JSON object, got 1"),
        ("items_human_ins", '{"B000000001": [{}]}', "expected 'instruction' as a text, and it is missing"),
    ],
)
def test_broken_attributes_and_instructions_are_told(name, text, told, write_catalogue, make_product):
    folder = write_catalogue(make_product(), **{name: text})
    with pytest.raises(CatalogueError) as caught:
        open_catalogue(str(folder), "human")
    assert f"{name}.json, line 1: {told}" in str(caught.value)


def test_an_empty_catalogue_and_one_without_goals_are_told(write_catalogue, make_product):
    with pytest.raises(CatalogueError, match="no products: expected at least one"):
        open_catalogue(str(write_catalogue()), "human")
    folder = write_catalogue(make_product(), items_human_ins="{}")
    with pytest.raises(CatalogueError, match="expected human goals, and there are none; set WEBSHOP_GOALS"):
        open_catalogue(str(folder), "human")


def test_products_are_read_as_webshop_reads_them(write_catalogue, make_product):
    folder = write_catalogue(
        make_product(),
        make_product(name="The second one is left out"),
        make_product(asin="B0000000012"),
        make_product(asin="nan"),
        make_product(asin="B000000002", pricing="$1,000.00 to $2,000.50", customization_options=None),
        make_product(asin="B000000003", pricing="", small_description="one text"),
    )
    shop = open_catalogue(str(folder), "human")
    first, second, third = (shop.product(number) for number in range(len(shop)))
    assert (first.name, first.price_tag, first.query, first.attributes) == (
        *("Bright Lamp", "$12.5", "lamps", ("DUMMY_ATTR",)),
    )
    assert first.options == {"color": ("red | blue",)}
    assert (second.price_tag, second.options) == ("$1000.0 to $2000.5", {})
    assert 1000.0 <= shop.price(1) <= 2000.5
    assert (third.price_tag, third.bullets) == ("$100.0", ("one text",))
    assert shop.goal(0).attributes == ("bright",)
    with pytest.raises(IndexError, match="task_id must be from 0 to 0, got 1"):
        shop.goal(1)


def test_files_that_change_while_they_are_served_are_refused(write_catalogue, make_product):
    folder = write_catalogue(make_product())
    shop = open_catalogue(str(folder), "human")
    shop.check_unchanged()
    write_catalogue(make_product(name="Another Lamp"))
    with pytest.raises(CatalogueError, match=r"items_shuffle\.json, .*: changed while .* restart"):
        shop.check_unchanged()
    (folder / "items_human_ins.json").unlink()
    with pytest.raises(CatalogueError, match=r"items_human_ins\.json: expected the catalogue's file"):
        shop.check_unchanged()


def test_the_name_of_a_catalogue_is_that_of_its_contents(write_catalogue, make_product, tmp_path):
    folder = write_catalogue(make_product())
    name = name_catalogue(str(folder))
    os.utime(folder / "items_shuffle.json", ns=(1, 1))
    assert name_catalogue(str(folder)) == name
    write_catalogue(make_product(name="Another Lamp"))
    assert name_catalogue(str(folder)) != name
    assert name_catalogue("") == f"invented-{EDITION}.{FORMAT}"


def test_the_command_builds_an_index_and_says_where(write_catalogue, make_product, capsys):
    folder = write_catalogue(make_product())
    assert main(["build", str(folder)]) is None
    assert capsys.readouterr().out.strip() == str(cache_folder() / name_catalogue(str(folder)))
    assert main(["build", str(folder)]) is None
    assert "expected a folder" in str(main(["build", str(folder / "none")]))
    assert str(main(["list"])).startswith("expected: python -m")


def test_a_large_catalogue_is_built_by_a_process_of_its_own(
    write_catalogue, make_product, monkeypatch, capsys
):
    monkeypatch.setattr(catalogue_module, "MAX_INLINE_BYTES", 0)
    nowhere_else = write_catalogue(make_product(name="A lamp that no other test has built an index of"))
    assert len(open_catalogue(str(nowhere_else), "human")) == 1
    assert "items_shuffle.json (0 MiB), once; this takes minutes" in capsys.readouterr().err
    folder = write_catalogue(make_product(name=5))
    open_catalogue.cache_clear()
    with pytest.raises(CatalogueError, match=r"line 2: expected 'name' as a text, got 5"):
        open_catalogue(str(folder), "human")


def test_the_invented_catalogue_is_the_same_everywhere(tmp_path):
    first = write_invented(tmp_path / "first", 40)
    texts = {path.name: path.read_bytes() for path in first.iterdir()}
    program = (
        "import sys; from pathlib import Path; from ors_server_tasks.webshop.invented import write_invented; "
        "write_invented(Path(sys.argv[1]), 40)"
    )
    subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "again")],
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
        timeout=60,
    )
    assert {path.name: path.read_bytes() for path in (tmp_path / "again").iterdir()} == texts
    larger = [raw["asin"] for raw, _ in make_products(60)]
    assert larger[:40] == [raw["asin"] for raw, _ in make_products(40)]
    assert len(set(larger)) == 60


def test_no_instruction_of_the_invented_catalogue_is_given_twice(tmp_path):
    rows = json.loads((write_invented(tmp_path / "files") / "items_human_ins.json").read_text())
    texts = [row["instruction"] for product in rows.values() for row in product]
    assert len(texts) == len(set(texts)) == 2000


def test_an_array_that_was_read_often_gives_its_pages_back_and_can_be_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr("ors_server_tasks.webshop.arrays.MAX_RESIDENT", 100)
    write_array(tmp_path / "a", np.arange(1000, dtype="<u4"))
    array = MappedArray(tmp_path / "a", "<u4")
    assert [int(array.part(start, start + 20).sum()) for start in (0, 500, 980, 0)] == [
        190,
        10190,
        19790,
        190,
    ]
