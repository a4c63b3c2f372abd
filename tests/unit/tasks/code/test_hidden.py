"""The trusted code of pages: which calls are recorded, and what the solution makes of them."""

from ors_server_tasks.code.hidden import Call, public_functions, record_calls, run_source

SOLUTION = """\
from math import floor

def push(items, item=0):
    items.append(item)
    return items

def halve(x):
    if x % 2:
        raise ValueError(x)
    return x // 2

def _private():
    pass
"""


def functions():
    return public_functions(run_source(SOLUTION, "page"))


def test_only_the_functions_of_the_solution_are_public():
    assert sorted(functions()) == ["halve", "push"]


def test_each_call_is_recorded_with_its_result():
    assert record_calls("halve(4)\nfor n in (6, 8):\n    halve(n)\n", functions(), "page") == [
        Call("halve", (4,), {}, 2),
        Call("halve", (6,), {}, 3),
        Call("halve", (8,), {}, 4),
    ]


def test_an_error_is_recorded_by_name():
    assert record_calls("halve(3)", functions(), "page") == [Call("halve", (3,), {}, raises="ValueError")]


def test_what_the_solution_does_to_its_arguments_does_not_change_the_record():
    source = "items = [1]\npush(items, item=2)\nitems.append(9)\npush(items)\n"
    assert record_calls(source, functions(), "page") == [
        Call("push", ([1],), {"item": 2}, [1, 2]),
        Call("push", ([1, 9],), {}, [1, 9, 0]),
    ]


def test_chance_is_the_same_every_time_and_different_on_other_pages():
    source = "for _ in range(5):\n    halve(rng.randrange(10**6))\n"
    first = record_calls(source, functions(), "page")
    assert record_calls(source, functions(), "page") == first
    assert record_calls(source, functions(), "other page") != first
