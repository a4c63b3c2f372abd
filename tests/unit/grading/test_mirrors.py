"""A mirror does what the object behind it does, and never lets it decide about the test's own values."""

import collections
import functools

import pytest

from ors_server.grading.mirrors import reference_of
from ors_server.grading.remote_agent import RemoteAgent
from ors_server.grading.remote_reference import AgentLostError, RefusedError
from tests.fixtures.mirrored_stack import STACK


def test_plain_values_are_copied_both_ways(mirror):
    solution = mirror("def same(*a, **k): return a, k\nPI = 3.14\nTABLE = {'a': [1, (2, {3})]}\n").solution
    assert solution.same(1, "x", key=b"y") == ((1, "x"), {"key": b"y"})
    assert (3.14, {"a": [1, (2, {3})]}) == (solution.PI, solution.TABLE)
    assert solution.same.__name__ == "same"


def test_a_copy_is_not_changed_by_the_agent_and_a_placed_value_is(mirror):
    agent = mirror("def sort(items): items.sort()\n")
    numbers, placed = [3, 1, 2], agent.copy_to_agent([3, 1, 2])
    agent.solution.sort(numbers)
    agent.solution.sort(placed)
    assert (numbers, agent.fetch(placed)) == ([3, 1, 2], [1, 2, 3])


def test_objects_answer_by_every_operator_that_does_not_judge(mirror):
    solution = mirror(STACK, ["Stack"]).solution
    stack = solution.Stack(1, 2)
    stack.push(3)
    assert (len(stack), stack[0], list(stack), list(reversed(stack)), 2 in stack, 9 in stack) == (
        3, 1, [1, 2, 3], [3, 2, 1], True, False,
    )  # fmt: skip
    stack[0] = 7
    del stack[1]
    assert (stack.items, stack(2), int(stack), round(stack, 1)) == ([7, 3], [14, 6], 10, 2.6)
    assert (repr(stack), str(stack), f"{stack:x}") == ("Stack([7, 3])", "Stack([7, 3])", "xx")
    assert (-stack).items == [-7, -3]
    assert (stack + 1).items == [7, 3, 1]
    assert (1 + stack).items == [1, 7, 3]
    assert stack.pop() == 3
    stack.colour = "red"
    assert stack.colour == "red"
    del stack.colour
    assert not hasattr(stack, "colour")
    assert callable(stack)
    assert not callable(solution.make.__name__)


def test_contexts_see_errors_and_may_swallow_them(mirror):
    solution = mirror(STACK).solution
    stack = solution.Stack()
    with stack as inside:
        assert inside is stack
    with stack:
        raise KeyError("swallowed")
    with pytest.raises(ValueError, match="not swallowed"), stack:
        raise ValueError("not swallowed")
    assert stack.items == ["in", None, "in", "KeyError", "in", "ValueError"]


def test_classes_are_classes(mirror):
    solution = mirror(STACK).solution
    tall = solution.Tall(1)
    assert isinstance(tall, solution.Stack)
    assert not isinstance(tall, int)
    assert type(tall) is solution.Tall
    assert issubclass(solution.Tall, solution.Stack)
    assert solution.Stack.limit == 3
    solution.Stack.limit = 4
    assert solution.Stack.limit == 4
    with pytest.raises(TypeError, match="different processes"):
        type("Mine", (solution.Stack,), {})


def test_enumerations_and_named_tuples_keep_their_ways(mirror):
    solution = mirror(
        """
        import collections, enum
        class Color(enum.Enum):
            RED = 1
            BLUE = 2
        class Level(enum.IntEnum):
            HIGH = 3
        Point = collections.namedtuple("Point", "x y")
        def origin(): return Point(0, [1])
        def counts(): return collections.Counter("aab")
        """
    ).solution
    assert (solution.Color(1).name, solution.Color["BLUE"].value) == ("RED", 2)
    assert (len(solution.Color), [color.name for color in solution.Color]) == (2, ["RED", "BLUE"])
    high = solution.Level.HIGH
    assert (high == 3, high < 4, high + 1, 1 + high) == (True, True, 4, 4)
    assert solution.origin() == (0, [1])
    assert solution.origin().y == [1]
    assert solution.counts() == {"a": 2, "b": 1}


def test_conversions_give_what_they_are_for(mirror):
    agent = mirror(
        """
        class Odd:
            def __len__(self): return 10**30
            def __index__(self): return 5
        """
    )
    odd = agent.solution.Odd()
    assert [0, 1, 2, 3, 4, 5][odd] == 5
    with pytest.raises(OverflowError):
        len(odd)


def test_generators_give_values_one_by_one_up_to_a_bound(mirror, monkeypatch):
    monkeypatch.setattr("ors_server.grading.mirrors.MAX_STEPS", 20)
    agent = mirror(
        """
        def squares(n):
            for i in range(n): yield i * i
        def forever():
            while True: yield 1
        """
    )
    assert list(agent.solution.squares(4)) == [0, 1, 4, 9]
    steps = agent.solution.squares(1)
    assert next(steps) == 0
    with pytest.raises(StopIteration):
        next(steps)
    with pytest.raises(AgentLostError, match="20 values"):
        list(agent.solution.forever())


def test_errors_are_of_their_class_with_what_they_hold(mirror):
    solution = mirror(
        """
        class MineError(ValueError):
            def __init__(self, text, code):
                super().__init__(text)
                self.code = code
            def __str__(self): return "mine: " + self.args[0]
        class WorseError(MineError): pass
        def fail(): raise MineError("boom", 7)
        def worse(): raise WorseError("bang", 8)
        def plain(): return [][3]
        def decode(): return b"\\xff".decode()
        def leave(): raise SystemExit(4)
        """
    ).solution
    with pytest.raises(solution.MineError, match=r"^mine: boom$") as caught:
        solution.fail()
    assert caught.value.code == 7
    assert isinstance(caught.value, ValueError)
    assert not hasattr(caught.value, "other")
    with pytest.raises(solution.MineError):
        solution.worse()
    with pytest.raises(IndexError, match="out of range"):
        solution.plain()
    with pytest.raises(UnicodeDecodeError):
        solution.decode()
    with pytest.raises(SystemExit) as left:
        solution.leave()
    assert left.value.code == 4
    with pytest.raises(TypeError):
        solution.fail(1)
    with pytest.raises(AttributeError, match="nothing"):
        _ = solution.nothing
    assert str(solution.MineError("x", 1)) == "('x', 1)"


@pytest.mark.parametrize("error", ["KeyboardInterrupt", "GeneratorExit", "BaseException"])
def test_errors_that_would_stop_pytest_stop_the_test(mirror, error):
    agent = mirror(f"def fail(): raise {error}\n")
    with pytest.raises(RefusedError, match=error):
        agent.solution.fail()
    assert agent.failures


def test_functions_of_the_test_can_be_called(mirror):
    agent = mirror(
        """
        import functools, threading
        def apply(f, *a): return f(*a)
        def memo(f):
            known = {}
            @functools.wraps(f)
            def wrapped(x):
                if x not in known: known[x] = f(x)
                return known[x]
            return wrapped
        def retry(f):
            for last in (False, True):
                try: return f()
                except ValueError:
                    if last: raise
        def elsewhere(f):
            said = []
            def run():
                try: f()
                except RuntimeError as error: said.append(str(error))
            thread = threading.Thread(target=run); thread.start(); thread.join()
            return said
        """
    )
    calls = []

    def double(x):
        """Doubles."""
        calls.append(x)
        return x * 2

    memo = agent.solution.memo(double)
    assert ([memo(2), memo(2)], calls, memo.__name__, memo.__doc__) == ([4, 4], [2], "double", "Doubles.")
    assert agent.solution.apply(agent.solution.apply, len, [1, 2]) == 2
    assert agent.solution.apply(lambda: agent.solution.apply(int, "7")) == 7

    class MineError(ValueError):
        pass

    error = MineError("x")

    def fail():
        calls.append("failed")
        raise error

    with pytest.raises(MineError) as caught:
        agent.solution.retry(fail)
    assert caught.value is error
    assert calls.count("failed") == 2
    assert "thread it was given to" in agent.solution.elsewhere(fail)[0]


def test_other_things_of_the_test_come_back_as_they_were(mirror):
    solution = mirror("def same(x): return x\ndef text(x): return repr(x)\n").solution
    thing = object()
    assert solution.same(thing) is thing
    assert solution.same([thing, thing])[1] is thing
    assert solution.text(thing) == "<object 0 of the caller>"
    assert solution.same(int) is int
    assert solution.same(ValueError) is ValueError
    assert solution.same(collections.OrderedDict(a=1)) == {"a": 1}


def test_what_is_printed_arrives_where_the_test_is(mirror, capsys, monkeypatch):
    agent = mirror("import sys\ndef say(x): print(x); sys.stdout.buffer.write(b'raw')\n")
    from ors_server.grading import agent_program as worker  # noqa: PLC0415 # only this test needs it

    printed = worker._Printed()
    printed.write("said\n")
    monkeypatch.setattr(worker, "_take_printed", printed.take)
    agent.solution.say("not here")
    assert "said\n" in capsys.readouterr().out
    assert printed.take() == ""


def test_a_module_can_be_changed_and_put_back(mirror):
    solution = mirror("LIMIT = 1\ndef limit(): return LIMIT\n").solution
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solution, "LIMIT", 5)
        assert solution.limit() == 5
        patch.setattr(solution, "limit", functools.partial(int, "9"))
        assert solution.limit() == 9
    assert (solution.limit(), solution.LIMIT) == (1, 1)
    del solution.LIMIT
    assert not hasattr(solution, "LIMIT")
    with pytest.raises(ImportError, match="by name"):
        _ = solution.__all__


def test_a_new_worker_serves_what_has_a_name_and_misses_the_rest(mirror):
    agent = mirror(STACK + "    def lose(): return 'LOSE'\n", ["Stack"])
    old, make, kind = agent.solution.Stack(1), agent.solution.make, agent.solution.Stack
    with pytest.raises(AgentLostError, match="ended"):
        agent.solution.lose()
    assert make(1, 2).pop() == 2
    assert isinstance(make(), kind)
    with pytest.raises(AgentLostError, match="lost with its process"):
        old.pop()
    assert agent.failures == ["the agent's code ended", "an object of the agent's was lost with its process"]


def test_what_cannot_cross_stops_the_test(mirror):
    agent = mirror("deep = []\nfor _ in range(200): deep = [deep]\ndef give(): return deep\n")
    with pytest.raises(RefusedError, match="cannot be sent"):
        agent.solution.give()
    with pytest.raises(TypeError, match="not a mirror"):
        reference_of(object())


def test_packages_have_their_modules(mirror):
    agent = RemoteAgent(None, ["pkg.sub.mod"], [])
    assert agent.modules["pkg"].sub.mod is agent.modules["pkg.sub.mod"]
