"""Whatever stands in the answer's place, the test is stopped or gets a mirror without powers."""

import pytest

from ors_server.grading.encoding import to_text
from ors_server.grading.mirrors import RemoteObject
from ors_server.grading.remote_agent import RemoteAgent
from ors_server.grading.remote_reference import AgentLostError, RefusedError

OPERATORS = ["class", "getattribute", "del", "init_subclass", "eq", "hash", "reduce", "instancecheck"]


@pytest.mark.parametrize(
    "answer",
    [
        {"value": {"h": [0]}},
        {"value": {"h": [0, 99]}},
        {
            "value": {"h": [2, 1, True]},
            "classes": [
                {"class": 1, "name": "X", "module": "m", "error": False, "bases": [], "operators": []}
            ],
        },
        {"value": {"k": 99}},
        {"value": {"n": "eval"}},
        {"value": {"n": "type"}},
        {"value": {"r": 5}},
        {"value": {"p": ["os", "system"]}},
        {"value": {"m": ["a b", ["x"], [1]]}},
        {"value": {"m": ["P", ["x"] * 200, []]}},
        {"value": {}},
        {"raised": {}},
        {"raised": {"names": [], "class": "eval", "arguments": []}},
        {"raised": {"class": "int", "arguments": []}},
        {"raised": {"foreign": 3}},
        {"callback": 3, "arguments": [], "keywords": {}},
        {"nothing": 1},
        [],
        {"value": 1, "classes": [{"class": 1}]},
        {"value": 1, "classes": 3},
    ],
    ids=repr,
)
def test_an_answer_that_is_none_stops_the_test(answer):
    class Liar:
        def send(self, payload):
            pass

        def receive(self):
            return b"R" + to_text(answer)

    agent = RemoteAgent(Liar(), ["solution"], [])
    with pytest.raises((AgentLostError, RefusedError)):
        agent.modules["solution"].add  # noqa: B018 # looking is asking
    assert agent.failures


def test_a_hostile_description_gives_a_mirror_no_powers():
    class Liar:
        def send(self, payload):
            pass

        def receive(self):
            made = {"class": 1, "name": "X", "module": "m", "error": False, "bases": []}
            news = made | {"operators": OPERATORS}
            return b"R" + to_text({"value": {"h": [2, 1]}, "classes": [news]})

    made = RemoteAgent(Liar(), ["solution"], []).modules["solution"].add
    assert isinstance(made, RemoteObject)
    assert {name for name in vars(type(made)) if not name.startswith("__")} == {"_ors_class"}
    assert "__class__" not in vars(type(made))
    assert "__getattribute__" not in vars(type(made))
    with pytest.raises(RefusedError):
        assert made != 3
