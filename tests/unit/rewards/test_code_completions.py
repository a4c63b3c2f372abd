"""Programs in completions: taken from the last fenced block, judged in a sandbox of their own."""

import json

import pytest

from ors_server.rewards.evidence.completions import MAX_PROGRAM, code_completion_reward
from ors_server.rewards.scoring import evaluate
from ors_server.sandboxes.choose import choose
from ors_server.sandboxes.scripted import ScriptedBackend

DOUBLING = "n = int(input())\nprint(n * 2)\n"
FUNCTION = "def double(x):\n    return x * 2\n"
RUNS = [{"stdin": "2\n", "stdout": "4\n"}, {"stdin": "-3\n", "stdout": "-6\n"}]
CALLS = [{"arguments": [2], "expected": 4}, {"arguments": [-3], "expected": -6}]
TESTS = "from solution import double\n\ndef test_double():\n    assert double(21) == 42\n"


def said(program, before="Here it is:\n", after="\nDone."):
    return f"{before}```python\n{program}\n```{after}"


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


@pytest.fixture
async def judged():
    chosen = await choose()

    async def judge(final_response, tests=None, **fields):
        asked = {"final_response": final_response, "tests": tests, "backend": chosen.backend, **fields}
        return await evaluate(code_completion_reward, asked)

    yield judge
    await chosen.aclose()


async def test_programs_are_judged_by_every_kind_of_tests(judged):
    prime = {"inputs": ["2\n", "-3\n"], "outputs": ["4\n", "-6\n"]}
    named = {"inputs": [[2], [-3]], "outputs": [[4], [-6]], "fn_name": "double"}
    info = {"language": "python", "test_cases": [{"input": "2\n", "output": "4\n", "type": "stdin_stdout"}]}
    for program, fields in [
        (DOUBLING, {"tests": RUNS}),
        (DOUBLING, {"tests": json.dumps(RUNS)}),
        (DOUBLING, {"tests": prime}),
        (DOUBLING, {"verification_info": info}),
        (FUNCTION, {"tests": CALLS, "function": "double"}),
        (FUNCTION, {"tests": named}),
        (FUNCTION, {"tests": TESTS}),
    ]:
        right = await judged(said(program), **fields)
        assert (right.reward, right.status) == (1.0, "graded"), right
        wrong = await judged(said(program.replace("* 2", "* 3")), **fields)
        assert (wrong.reward, wrong.status) == (0.0, "graded"), wrong


async def test_the_last_block_without_the_reasoning_counts(judged):
    wrong = DOUBLING.replace("2", "3")
    assert (await judged(said(wrong, after="\n") + said(DOUBLING), RUNS)).reward == 1.0
    assert (await judged(said(DOUBLING) + said(wrong), RUNS)).reward == 0.0
    assert (await judged(f"<think>{said(DOUBLING)}</think>" + said(wrong), RUNS)).reward == 0.0
    assert (await judged(f"<think>{said(wrong)}</think>" + said(DOUBLING), RUNS)).reward == 1.0


async def test_a_part_of_the_cases_pays_a_part_where_it_is_asked_for(judged):
    constant = said("print(4)\n")
    assert (await judged(constant, RUNS)).reward == 0.0
    assert (await judged(constant, RUNS, pays="fraction")).reward == 0.5


@pytest.mark.parametrize(
    "program",
    [
        "import os\nos._exit(0)\n",
        "raise SystemExit(0)\n",
        "while True: pass\n",
        "import sys\nsys.exit('4')\n",
        "class Same(int):\n    __eq__ = lambda self, other: True\ndef double(x):\n    return Same()\n",
        "def double(",
        "open('/etc/shadow').read()\n",
    ],
)
async def test_a_cheat_or_a_broken_program_earns_nothing(judged, program):
    for tests in (RUNS, CALLS):
        result = await judged(
            said(program), tests, function="double" if tests is CALLS else None, time_limit=0.5
        )
        assert (result.reward, result.status) == (0.0, "graded")


@pytest.mark.parametrize(
    "completion",
    ["", DOUBLING, "```python\nprint(1)", "```rust\nfn main() {}\n```", f"<think>{said(DOUBLING)}"],
)
async def test_a_completion_without_a_closed_block_has_no_answer(completion):
    asked = {"final_response": completion, "tests": RUNS, "backend": ScriptedBackend()}
    result = await evaluate(code_completion_reward, asked)
    assert (result.reward, result.status) == (0.0, "unparsed_answer")
    assert result.reason


async def test_a_program_that_is_far_too_long_is_wrong():
    asked = {"final_response": said("#" * (MAX_PROGRAM + 1)), "tests": RUNS, "backend": ScriptedBackend()}
    result = await evaluate(code_completion_reward, asked)
    assert (result.reward, result.status) == (0.0, "graded")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"tests": []},
        {"tests": ""},
        {"tests": [1]},
        {"tests": {"inputs": ["1"], "outputs": []}},
        {"tests": {"inputs": "1", "outputs": "2"}},
        {"tests": [{"arguments": [1], "expected": 2}]},
        {"tests": [{"stdin": "1", "stdout": 2}]},
        {"verification_info": {"language": "python"}},
        {"verification_info": "no JSON"},
    ],
)
async def test_tests_that_cannot_be_read_are_a_bad_gold_whatever_the_completion(fields):
    for completion in ("no code", said(DOUBLING)):
        asked = {"final_response": completion, "backend": ScriptedBackend(), **fields}
        result = await evaluate(code_completion_reward, asked)
        if completion == "no code" and "stdin" in str(fields):
            continue  # its cases are read by the grader, which has nothing to grade
        assert (result.reward, result.status) == (None, "bad_gold")
