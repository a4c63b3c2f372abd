"""Values that readers of JSON lines get wrong: integers of more than 64 bits, and ends of lines in text."""

import json
from dataclasses import replace

import pytest

from ors_server.export.episode_file import read_episode
from ors_server.export.formats import as_line, make_format
from ors_server.model.errors import RecordError
from tests.unit.export.test_episode_file import an_episode

WIDE = 10**30
LOWEST = -(1 << 63)
ARGUMENTS = {
    "x": [WIDE, {"a/b~c": -WIDE, "fits": [(1 << 63) - 1, LOWEST]}],
    "lowest": LOWEST - 1,
    "first": 1 << 63,
    "digits": "1" * 30,
}


def wide_episode():
    record, (step,) = an_episode()
    return replace(record, origin=replace(record.origin, task_spec={"n": WIDE})), (
        replace(step, arguments=ARGUMENTS),
    )


def lines_of(name: str) -> list[str]:
    return [as_line(row) for row in make_format(name).rows(*wide_episode())]


def test_wide_integers_are_text_and_are_read_back():
    (line,) = lines_of("plain")
    row = json.loads(line)
    arguments = row["steps"][0]["arguments"]
    assert arguments["x"] == [str(WIDE), {"a/b~c": str(-WIDE), "fits": [(1 << 63) - 1, LOWEST]}]
    assert (arguments["lowest"], arguments["first"]) == (str(LOWEST - 1), str(1 << 63))
    record, (step,) = read_episode(line)
    assert step.arguments == ARGUMENTS
    assert record.origin.task_spec == {"n": WIDE}


def test_a_row_without_wide_integers_says_nothing_of_them():
    (line,) = [as_line(row) for row in make_format("plain").rows(*an_episode())]
    assert sorted(json.loads(line)) == ["record", "steps"]


@pytest.mark.parametrize("name", ["trl", "openai", "sharegpt"])
def test_no_format_has_a_number_that_tables_cannot_hold(name):
    def check(value):
        if isinstance(value, dict | list):
            for part in value.values() if isinstance(value, dict) else value:
                check(part)
        assert not isinstance(value, int) or LOWEST <= value < 1 << 63

    (line,) = lines_of(name)
    check(json.loads(line))


def test_trl_has_wide_arguments_as_text():
    (line,) = lines_of("trl")
    (call,) = [call for message in json.loads(line)["completion"] for call in message.get("tool_calls", ())]
    assert call["function"]["arguments"]["lowest"] == str(LOWEST - 1)


@pytest.mark.parametrize("place", ["/steps/7/number", "/record/none", "/steps/0/tool", 5, ""])
def test_a_place_without_an_integer_is_refused(place):
    (line,) = [as_line(row) for row in make_format("plain").rows(*an_episode())]
    with pytest.raises(RecordError, match="expected an integer as text at"):
        read_episode(json.dumps({**json.loads(line), "wide_integers": [place]}))


def test_no_line_ends_within_a_row():
    row = {"text": "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg", "list": ["\u2028"]}
    line = as_line(row)
    assert len(line.splitlines()) == 1
    assert json.loads(line) == row
