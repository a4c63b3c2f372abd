"""Environments, splits and tasks over the control API."""

import pytest

from ors_server import tool
from tests.fixtures.single_task import SingleTask

TASKS = "/environments/gate/splits/train/tasks"


class Odd(SingleTask):
    """Gives tasks that are no JSON."""

    name = "odd"
    TASKS = ({"set": {1, 2}}, {"nan": float("nan")})
    WORDS = ""

    @tool
    def nothing(self) -> str:
        """Does nothing."""
        return ""


async def test_environments_are_listed_with_the_default_first(open_control, refenv):
    control = await open_control(refenv)
    listed = (await control.get("/environments")).json()["environments"]
    assert [each["name"] for each in listed][:2] == ["refenv", "secondenv"]
    assert [each["default"] for each in listed] == [True] + [False] * (len(listed) - 1)


async def test_an_environment_is_shown_with_policy_splits_and_tools_in_any_case(control):
    shown = (await control.get("/environments/GATE")).json()
    assert (shown["name"], shown["version"], shown["default"]) == ("gate", "7", True)
    assert shown["policy"]["step_limit"] == 5
    assert [tool["name"] for tool in shown["tools"]["tools"]] == ["wait", "pay", "tell"]


async def test_a_split_that_cannot_be_counted_hides_no_other(control):
    splits = (await control.get("/environments/gate")).json()["splits"]
    assert splits == [
        {"name": "train", "type": "train", "tasks": 1200},
        {"name": "broken", "type": "test", "tasks": None},
    ]


@pytest.mark.parametrize(
    ("query", "indices"),
    [
        ("", range(500)),
        ("?start=3&stop=5", range(3, 5)),
        ("?start=1100", range(1100, 1200)),
        ("?start=100&stop=1200", range(100, 600)),
        ("?start=5&stop=3", range(0)),
        ("?start=1200", range(0)),
        ("?stop=0", range(0)),
    ],
)
async def test_tasks_come_in_pages(control, query, indices):
    page = (await control.get(TASKS + query)).json()
    assert page["total"] == 1200
    assert page["tasks"] == [{"index": i, "task_spec": {"number": i}} for i in indices]


async def test_one_task_is_read_by_its_index(control):
    assert (await control.get(f"{TASKS}/7")).json() == {"index": 7, "task_spec": {"number": 7}}


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/environments/nothing", 404, "unknown_environment"),
        ("/environments/nothing/splits/train/tasks", 404, "unknown_environment"),
        ("/environments/gate/splits/nothing/tasks", 404, "unknown_split"),
        ("/environments/gate/splits/nothing/tasks/0", 404, "unknown_split"),
        (f"{TASKS}/1200", 404, "unknown_task"),
        (f"{TASKS}/-1", 422, "invalid_request"),
        (f"{TASKS}/first", 422, "invalid_request"),
        (f"{TASKS}/{'9' * 5000}", 422, "invalid_request"),
        ("/environments/gate/splits/broken/tasks", 500, "environment_failed"),
    ],
)
async def test_what_is_not_there_is_named(control, path, status, code):
    answer = await control.get(path)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


@pytest.mark.parametrize("index", [0, 1])
async def test_a_task_that_is_no_json_is_its_authors_mistake(open_control, index):
    control = await open_control(Odd)
    for path in (f"/tasks/{index}", "/tasks"):
        answer = await control.get(f"/environments/odd/splits/train{path}")
        assert (answer.status_code, answer.json()["blame"]) == (500, "author")
        assert "Traceback" not in answer.text


async def test_an_escaped_slash_stays_inside_its_name(control):
    answer = await control.get("/environments/gate%2Fsplits")
    assert answer.json()["code"] == "unknown_environment"
