"""Rewards for code, over evidence and completions: cases, reports without expected values, blame."""

import json
from contextlib import AsyncExitStack

import pytest

from ors_server.grading.cases import FunctionCase, StdioCase
from ors_server.grading.evidence import Evidence, gather_evidence
from ors_server.rewards.evidence.code import code_functions_reward, code_pytest_reward, code_stdio_reward
from ors_server.rewards.evidence.completions import MAX_PROGRAM, code_completion_reward
from ors_server.rewards.scoring import evaluate, score
from ors_server.sandboxes.cells.server_state import ServerState
from ors_server.sandboxes.choose import choose
from ors_server.sandboxes.host.bubblewrap import BubblewrapBackend
from ors_server.sandboxes.scripted import ScriptedBackend

RIGHT = "def double(x):\n    return x * 2\n"
CASES = [{"arguments": [n], "expected": 2 * n} for n in (3, 0, -4)]
STDIO = [{"stdin": f"{n}\n", "stdout": f"{2 * n}\n"} for n in (21, 4)]
TESTS = "import solution\n\ndef test_double():\n    assert solution.double(4711) == 9422\n"
MAIN = "from solution import double\nprint(double(int(input())))\n"


@pytest.fixture
async def look_at():
    """Gives evidence of files, each in a sandbox of its own."""
    async with AsyncExitStack() as stack:
        state = ServerState()
        stack.callback(state.close)
        backend = BubblewrapBackend(state)
        stack.push_async_callback(backend.aclose)

        async def opened(**files: str) -> Evidence:
            sandbox = await backend.start("graded")
            for name, text in files.items():
                await sandbox.write_file(f"{name}.py", text.encode())
            return await stack.enter_async_context(gather_evidence(sandbox))

        yield opened


async def test_functions_are_paid_by_what_they_return(look_at):
    fields = {"cases": CASES, "function": "double"}
    right = await evaluate(code_functions_reward, {**fields, "evidence": await look_at(solution=RIGHT)})
    assert (right.reward, dict(right.extras)) == (
        1.0,
        {"passed": 3, "total": 3, "fraction": 1.0, "failed": {}},
    )
    constant = {**fields, "evidence": await look_at(solution="def double(x): return 6\n")}
    result = await evaluate(code_functions_reward, constant)
    assert (result.reward, result.extras["passed"], list(result.extras["failed"])) == (
        0.0,
        1,
        ["case 2", "case 3"],
    )
    assert "-8" not in str(result.as_json())
    assert (await evaluate(code_functions_reward, {**constant, "pays": "fraction"})).reward == pytest.approx(
        1 / 3
    )


@pytest.mark.parametrize(
    "cheat",
    [
        "class Yes:\n    __eq__ = lambda self, other: True\ndef double(x): return Yes()\n",
        "import os\nos._exit(0)\n",
        "import sys\nsys.exit(0)\n",
        "def double(x):\n    while True: pass\n",
        "",
    ],
    ids=["equal to all", "exit", "polite exit", "loop", "empty"],
)
async def test_cheats_earn_nothing(look_at, cheat):
    evidence = await look_at(solution=cheat)
    fields = {
        "evidence": evidence,
        "cases": CASES,
        "function": "double",
        "pays": "fraction",
        "time_limit": 0.3,
    }
    result = await evaluate(code_functions_reward, fields)
    assert (result.status, result.reward) == ("graded", 0.0)


async def test_programs_are_paid_by_what_they_print(look_at):
    evidence = await look_at(solution=RIGHT, main=MAIN)
    for program in ("main.py", ["python3", "main.py"]):
        result = await evaluate(code_stdio_reward, {"evidence": evidence, "cases": STDIO, "program": program})
        assert (result.reward, result.extras["total"]) == (1.0, 2)
    constant = await look_at(main="print(42)\n")
    result = await evaluate(code_stdio_reward, {"evidence": constant, "cases": STDIO, "pays": "fraction"})
    assert (result.reward, list(result.extras["failed"])) == (0.5, ["case 2"])
    nothing = await evaluate(code_stdio_reward, {"evidence": await look_at(), "cases": STDIO})
    assert (nothing.status, nothing.reward) == ("graded", 0.0)


async def test_hidden_tests_are_paid_and_not_quoted(look_at):
    right = await evaluate(code_pytest_reward, {"evidence": await look_at(solution=RIGHT), "tests": TESTS})
    assert (right.reward, right.extras["total"]) == (1.0, 1)
    cheat = await look_at(solution="def double(x): return 0\n", conftest="import os; os._exit(0)\n")
    wrong = await evaluate(code_pytest_reward, {"evidence": cheat, "tests": {"test_it.py": TESTS}})
    assert (wrong.status, wrong.reward) == ("graded", 0.0)
    assert "9422" not in str(wrong.as_json())
    broken = await evaluate(code_pytest_reward, {"evidence": cheat, "tests": "def test_("})
    assert (broken.status, broken.reward) == ("bad_gold", None)


async def scripted() -> Evidence:
    return Evidence(await ScriptedBackend().start("unused"))


@pytest.mark.parametrize(
    "cases",
    [
        [],
        "cases",
        [1],
        [{"stdin": ""}],
        [{"stdin": "", "stdout": 1}],
        [{"stdin": "", "stdout": "", "arguments": "x"}],
        [{"stdin": "", "stdout": "", "arguments": [1]}],
        [{"stdin": "", "stdout": "", "exit_code": "0"}],
        [{"stdin": "", "stdout": "", "unknown": 1}],
        [StdioCase("", "", name="a"), StdioCase("", "", name="a")],
        [{"stdin": "", "stdout": ""}] * 1_001,
    ],
    ids=lambda cases: repr(cases)[:60],
)
async def test_cases_that_cannot_be_read_are_a_bad_gold(cases):
    result = await evaluate(code_stdio_reward, {"evidence": await scripted(), "cases": cases})
    assert (result.status, result.reward) == ("bad_gold", None)


@pytest.mark.parametrize(
    "case",
    [FunctionCase((object(),)), {"arguments": [1], "expected": 1, "raises": "ValueError"}, {"expect": 1}],
    ids=["no plain value", "both", "misspelt"],
)
async def test_calls_that_cannot_be_made_are_a_bad_gold(case):
    fields = {"evidence": await scripted(), "cases": [case], "function": "f"}
    assert (await evaluate(code_functions_reward, fields)).status == "bad_gold"


async def test_a_sandbox_that_gives_way_is_an_error_and_no_number():
    backend = ScriptedBackend()
    sandbox = await backend.start("closed")
    await backend.aclose()
    fields = {"evidence": Evidence(sandbox), "cases": STDIO, "program": ["true"]}
    assert (await evaluate(code_stdio_reward, fields)).status == "error"


async def test_an_option_that_is_not_known_is_an_error():
    fields = {"evidence": await scripted(), "cases": STDIO, "pays": "some"}
    assert (await evaluate(code_stdio_reward, fields)).status == "error"


def test_evidence_is_asked_for_by_name():
    assert "evidence" in str(score(code_stdio_reward, cases=STDIO).reason)


DOUBLING = "n = int(input())\nprint(n * 2)\n"
FUNCTION = "def double(x):\n    return x * 2\n"
RUNS = [{"stdin": "2\n", "stdout": "4\n"}, {"stdin": "-3\n", "stdout": "-6\n"}]
CALLS = [{"arguments": [2], "expected": 4}, {"arguments": [-3], "expected": -6}]
PUBLIC_TESTS = "from solution import double\n\ndef test_double():\n    assert double(21) == 42\n"


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
        (FUNCTION, {"tests": PUBLIC_TESTS}),
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
