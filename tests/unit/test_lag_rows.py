"""The script that measures how late a server is has a row for whatever reads input from outside."""

import pytest

from ors_server.environments.declared.rows.choose_source import ENDINGS
from ors_server.json_schemas import check_schema
from ors_server.json_schemas.keywords import MAKERS
from tests.fixtures.hostile_plays import FAR_SIDES
from tests.script_modules import load_script

KEYWORDS = load_script("lag_keywords")
FORMATS = load_script("lag_formats")
FAR = load_script("lag_far_sides")


def test_every_keyword_of_json_schema_has_a_row():
    assert set(MAKERS) - set(KEYWORDS.HARD) == set()


@pytest.mark.parametrize("keyword", KEYWORDS.HARD)
def test_the_schema_of_a_row_is_one_that_a_tool_may_have(keyword):
    schema = KEYWORDS.schema_of(keyword)
    check_schema(schema)
    assert keyword in schema["properties"]["x"]


def test_every_ending_of_data_files_has_a_row_and_folders_and_shards_have():
    assert {f"*{ending}" for ending in ENDINGS} | {"folder of *.json", "shards of *.jsonl"} == set(
        FORMATS.FORMATS
    )


@pytest.mark.parametrize("name", FORMATS.FORMATS)
def test_a_format_has_hostile_contents_of_about_their_size(name):
    _, make = FORMATS.FORMATS[name]
    sizes = {kind: sum(map(len, make_files().values())) for kind, make_files in make(50_000).items()}
    assert len(sizes) >= 5
    assert any(25_000 < size < 200_000 for size in sizes.values()) or name.endswith((".gz", ".parquet")), (
        sizes
    )


def test_every_far_side_with_a_client_that_a_server_uses_has_a_row():
    rows = {side.partition("_")[0] for side in FAR.SIDES}
    assert rows == set(FAR_SIDES) - {"record"}  # which a command reads, in a process of its own
