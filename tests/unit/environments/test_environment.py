"""The class that authors derive from: what it leaves to them says so."""

import pytest

from ors_server import Environment


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("list_splits", ()),
        ("list_tasks", ("train",)),
        ("num_tasks", ("train",)),
        ("get_task", ("train", 0)),
        ("get_task_range", ("train",)),
        ("get_prompt", ()),
        ("get_messages", ()),
        ("score_group", ([],)),
    ],
)
def test_what_an_author_did_not_write_is_not_there(method, arguments):
    with pytest.raises(NotImplementedError):
        getattr(Environment({}), method)(*arguments)


def test_what_an_author_need_not_write_does_nothing():
    environment = Environment({"n": 1}, {"K": "v"})
    assert (environment.setup(), environment.teardown(), environment.list_task_tools()) == (None, None, ())
    assert (environment.task_spec, environment.secrets) == ({"n": 1}, {"K": "v"})
