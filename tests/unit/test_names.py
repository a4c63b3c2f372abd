"""One name, one class: nobody has to ask which of two is meant."""

import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import ors_server

PACKAGE = Path(ors_server.__file__).parent
CLASS = re.compile(r"^[ \t]*class (\w+)[:(]", re.MULTILINE)

SHARED: dict[str, int] = {"Step": 2}
"""Class names that still stand several times, and how often; this list only shrinks."""


@cache
def class_names() -> dict[str, list[str]]:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for match in CLASS.finditer(path.read_text(encoding="utf-8")):
            places[match[1]].append(str(path.relative_to(PACKAGE)))
    return places


def test_no_class_name_stands_twice_but_for_those_still_to_be_renamed():
    repeated = {name: places for name, places in class_names().items() if len(places) > 1}
    new = {name: places for name, places in repeated.items() if len(places) > SHARED.get(name, 1)}
    assert new == {}, "give each class a name of its own"


def test_the_list_of_shared_names_holds_nothing_that_was_renamed():
    names = class_names()
    done = {name: len(names[name]) for name, count in SHARED.items() if len(names[name]) < count}
    assert done == {}, "lower or remove these entries of SHARED"
