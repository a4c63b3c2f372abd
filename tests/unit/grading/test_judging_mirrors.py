"""No object of the agent's judges: not by comparison, truth, identity, nor as a member of a container."""

from collections.abc import Callable
from typing import Any

import pytest

from ors_server.grading.remote_reference import AgentLostError, RefusedError
from tests.fixtures.mirrored_stack import STACK

JUDGEMENTS: dict[str, Callable[[Any, Any], Any]] = {
    "==": lambda made, _: made == [1, 2],
    "!=": lambda made, _: made != 5,
    "== on the right": lambda made, _: [1, 2] == made,  # noqa: SIM300 # that is the question
    "<": lambda made, _: made < 3,
    ">": lambda made, _: made > 3,
    "<=": lambda made, _: made <= 3,
    ">=": lambda made, _: made >= 3,
    "== itself": lambda made, _: made == made,  # noqa: PLR0124 # that is the question
    "== another of its class": lambda made, other: made == other,
    "truth": lambda made, _: bool(made),
    "not": lambda made, _: not made,
    "in a list": lambda made, _: made in [1, 2],
    "counted": lambda made, other: [other].count(made),
    "within a tuple": lambda made, _: (0, made) == (0, 1),
    "within a dict": lambda made, _: {"a": made} == {"a": 1},
    "largest": max,
    "sorted": lambda made, other: sorted([made, other]),
    "all": lambda made, _: all([made]),
    "approximately": lambda made, _: made == pytest.approx(3),
}


@pytest.mark.parametrize("classes", [[], ["Stack"]])
@pytest.mark.parametrize("judgement", JUDGEMENTS)
def test_an_object_judges_nothing_whoever_built_it(mirror, judgement, classes):
    agent = mirror(STACK, classes)
    built, returned = agent.solution.Stack(1, 2), agent.solution.make(1, 2)
    for made, other in ((built, returned), (returned, built)):
        with pytest.raises(RefusedError, match="may not judge"):
            JUDGEMENTS[judgement](made, other)
    assert len(agent.failures) == 2


def test_an_object_that_comes_back_is_another_and_in_no_container(mirror):
    agent = mirror(
        "class Self:\n    def me(self): return self\n    def in_a_list(self): return [self]\n", ["Self"]
    )
    made = agent.solution.Self()
    assert made.me() is not made
    assert made.me().me().in_a_list()[0] is not made
    for box in ([made], (made,), made.in_a_list()):
        with pytest.raises(RefusedError):
            assert made.me() in box
    assert made.me() not in {made: 1}


def test_its_own_operators_are_asked_for_by_name_and_give_a_plain_bool(mirror):
    agent = mirror(
        STACK
        + """
    class Odd:
        def __eq__(self, other): return self
        def __bool__(self): return False
    """,
        ["Stack"],
    )
    one, other = agent.solution.Stack(1), agent.solution.Stack(2, 3)
    assert agent.ask("==", one, agent.solution.make(1)) is True
    assert (agent.ask("==", one, other), agent.ask("!=", one, other)) == (False, True)
    assert (agent.ask("<", one, other), agent.ask("<", one, 1)) == (True, False)
    assert (agent.ask("in", 3, other), agent.ask("in", 3, one), agent.ask("bool", one)) == (True, False, True)
    odd = agent.solution.Odd()
    assert agent.ask("bool", odd) is False
    with pytest.raises(AgentLostError, match="gave a Odd"):
        agent.ask("==", odd, 1)
    with pytest.raises(TypeError):
        agent.ask("<", one, None)


def test_an_object_that_no_test_built_meets_no_value_of_the_tests(mirror):
    agent = mirror(STACK, ["Stack"])
    made = agent.solution.make(1, 2)
    assert (len(made), list(made), made[0], made.pop()) == (2, [1, 2], 1, 2)
    attempts = (
        lambda: 1 in made,
        lambda: made + 1,
        lambda: 1 + made,
        lambda: made.get(0),
        made.isdigit,
        lambda: agent.solution.Stack(1) + made + 1,
    )
    for attempt in attempts:
        with pytest.raises(RefusedError, match="classes"):
            attempt()
    assert len(agent.failures) == len(attempts)


@pytest.mark.parametrize("plain", ["str", "int", "float", "bytes", "tuple", "frozenset", "complex"])
def test_an_object_that_derives_from_a_plain_value_is_compared_as_that_value(mirror, plain):
    agent = mirror(
        f"""
        class Yes({plain}):
            def __eq__(self, other): return True
            __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __eq__
            def __bool__(self): return True
            def __hash__(self): return 0
            def me(self): return self
        """,
        ["Yes"],
    )
    made = agent.solution.Yes()
    for one in (made, made.me()):
        assert not isinstance(one, {"str": str, "int": int, "tuple": tuple}.get(plain, float))
        assert one == {"str": "", "bytes": b"", "tuple": (), "frozenset": frozenset()}.get(plain, 0)
        assert one != 17
        assert not one
        assert one not in ["a", 5, (1,)]


@pytest.mark.parametrize("plain", ["list", "dict", "set", "bytearray"])
def test_an_object_that_derives_from_a_changing_value_is_copied_before_it_is_compared(mirror, plain):
    cheat = "    __eq__ = __contains__ = lambda self, other: True\n    def me(self): return self\n"
    agent = mirror(f"class Yes({plain}):\n{cheat}", ["Yes"])
    made = agent.solution.Yes()
    with pytest.raises(RefusedError):
        assert made.me() == []
    assert agent.fetch(made.me()) == {"list": [], "dict": {}, "set": set()}.get(plain, b"")


def test_only_what_a_named_class_was_called_for_meets_values_of_the_tests(mirror):
    agent = mirror(STACK)
    with pytest.raises(RefusedError):
        assert 1 in agent.solution.Stack(1)
    named = mirror(STACK, ["Stack"]).solution
    assert 1 in named.Stack(1)
    with named.Stack(1) as stack:
        assert 1 in stack
    for made in (named.make(1), named.Stack.of([1]), named.Stack(1) + 1):
        with pytest.raises(RefusedError):
            assert 1 in made


def test_a_class_that_stands_for_a_value_is_not_true(mirror):
    agent = mirror("class Yes: pass\ndef give(): return Yes\n", ["Yes"])
    with pytest.raises(RefusedError):
        assert agent.solution.give()
