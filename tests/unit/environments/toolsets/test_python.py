"""The python tool: variables stay, endings are said, and a spoiled interpreter is replaced."""

import anyio
import pytest

from ors_server.environments.tool import ToolError
from ors_server.environments.toolsets.bash import BashTools
from ors_server.environments.toolsets.python import PythonTools
from ors_server.model.errors import EnvironmentFailedError
from ors_server.model.policy import PenaltyCause
from ors_server.sandboxes.base import Limits
from ors_server.sandboxes.sandbox_errors import SandboxClosedError
from ors_server.sandboxes.scripted import answers


@pytest.fixture
async def place(real):
    async with real() as opened:
        yield opened


@pytest.fixture
async def run(place, call):
    """Runs code: one text for what it printed, and the metadata."""
    python = PythonTools(place)

    async def run_it(code=None, **arguments):
        output = await python.python(call(), code=code, **arguments)
        texts = {"stdout": "", **{block.detail["stream"]: block.text for block in output.blocks}}
        return texts, output.metadata["python"]

    return run_it


async def test_variables_stay_and_the_last_value_is_shown(run):
    texts, metadata = await run("x = 1\nprint('out')\nimport sys; print('err', file=sys.stderr)\nx + 1")
    assert texts == {"stdout": "out\n2\n", "stderr": "err\n"}
    assert metadata.pop("duration_s") > 0
    assert metadata == {
        "exit_code": 0,
        "timed_out": False,
        "killed": None,
        "interpreter_restarted": False,
        "state_lost": False,
        "output_limit": False,
        "stdout_bytes": 6,
        "stderr_bytes": 4,
        "cwd": "/work",
    }
    assert (await run("'a'; None"))[0] == {"stdout": "(no output)"}
    assert (await run("x, _"))[0] == {"stdout": "(1, 2)\n"}
    assert (await run("# nothing"))[0] == {"stdout": "(no output)"}
    pickled = await run("class A: pass\nimport pickle; pickle.loads(pickle.dumps(A())).__class__")
    assert pickled[0] == {"stdout": "<class '__main__.A'>\n"}
    assert (await run("import os; os.chdir('/usr')"))[1]["cwd"] == "/usr"


async def test_code_may_await_outside_of_functions_and_its_event_loop_stays(run):
    _, metadata = await run("import asyncio\nasync def f(x):\n    await asyncio.sleep(0)\n    return x")
    assert metadata["exit_code"] == 0
    assert (await run("a = await f(1)\nb = asyncio.create_task(f(2))\na"))[0] == {"stdout": "1\n"}
    assert (await run("a + await b"))[0] == {"stdout": "3\n"}
    assert (await run("async with asyncio.timeout(9):\n    print(await f(4))"))[0] == {"stdout": "4\n"}
    texts, metadata = await run("async def g():\n    raise KeyError('x')\nawait g()")
    assert metadata["exit_code"] == 1
    assert texts["stderr"].endswith("KeyError: 'x'\n")
    texts, metadata = await run("await asyncio.sleep(60)", time_limit=1)
    assert metadata["timed_out"]
    assert (await run("await f(a)"))[0] == {"stdout": "1\n"}


async def test_exceptions_come_as_tracebacks_of_the_code_alone(run):
    texts, metadata = await run("def f():\n    1 / 0\nf()")
    assert texts["stderr"].splitlines()[:3] == [
        "Traceback (most recent call last):",
        '  File "<python-1>", line 3, in <module>',
        "    f()",
    ]
    assert "interpreter.py" not in texts["stderr"]
    assert texts["stderr"].endswith("ZeroDivisionError: division by zero\n")
    assert metadata["exit_code"] == 1
    assert metadata["interpreter_restarted"] is False
    texts, _ = await run("def f(\n")
    assert texts["stderr"].startswith('  File "<python-2>", line 1\n')
    assert (await run("'a\0b'"))[0]["stderr"].startswith(("ValueError: ", "SyntaxError: "))
    assert (await run("input()"))[0]["stderr"].endswith("EOFError: EOF when reading a line\n")


async def test_an_exception_is_charged_as_a_commands_error(place, call):
    python = PythonTools(place)
    fine, failing = call(), call()
    await python.python(fine, code="1")
    await python.python(failing, code="1 / 0")
    assert (fine.charged, failing.charged) == ([], [PenaltyCause.COMMAND_ERROR])


async def test_text_that_no_terminal_could_show_is_escaped(run):
    assert (await run("print('é\\udc80')"))[0] == {"stdout": "é\\udc80\n"}


async def test_time_runs_out_and_variables_stay(run):
    await run("x = 5")
    texts, metadata = await run("print('begun')\nimport time; time.sleep(1000)", time_limit=0.3)
    assert texts["stdout"] == "begun\n"
    assert texts["stderr"].endswith("KeyboardInterrupt\n")
    assert "interrupted after its time limit of 0.3 seconds" in texts["notes"]
    assert (metadata["timed_out"], metadata["killed"], metadata["exit_code"]) == (True, "time limit", 130)
    assert metadata["interpreter_restarted"] is False
    assert (await run("x"))[0] == {"stdout": "5\n"}


async def test_code_that_cannot_be_interrupted_is_killed_and_that_is_said(run):
    await run("x = 5")
    stubborn = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: time.sleep(1)"
    texts, metadata = await run(stubborn, time_limit=0.3)
    assert "did not stop when interrupted and was killed" in texts["notes"]
    assert (metadata["timed_out"], metadata["exit_code"]) == (True, 137)
    assert metadata["interpreter_restarted"] is True
    texts, metadata = await run("'x' in globals()")
    assert texts == {"stdout": "False\n"}
    assert metadata["interpreter_restarted"] is False


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        ("import sys; print('bye'); sys.exit(3)", 3, "exited with status 3"),
        ("exit()", 0, "exited with status 0"),
        ("raise SystemExit('why')", 1, "exited with status 1"),
        ("import os; os._exit(7)", 7, "ended with status 7"),
        ("import os; os.kill(os.getpid(), 9)", 137, "ended with status 137"),
        ("import ctypes; ctypes.string_at(0)", 139, "ended with status 139"),
    ],
)
async def test_an_interpreter_that_ends_is_replaced_and_that_is_said(run, code, status, said):
    await run("x = 5")
    texts, metadata = await run(code)
    assert said in texts["notes"]
    assert (metadata["exit_code"], metadata["interpreter_restarted"]) == (status, True)
    assert (await run("'x' in globals()"))[0] == {"stdout": "False\n"}


async def test_what_is_printed_last_before_an_end_is_not_lost(run):
    code = "import atexit, sys; atexit.register(print, 'last')\nprint('first', end=''); sys.exit('why')"
    texts, _ = await run(code)
    assert (texts["stdout"], texts["stderr"]) == ("firstlast\n", "why\n")


async def test_a_flood_is_stopped_and_variables_stay(real, call, texts):
    async with real(Limits(output_bytes=1 << 20)) as place:
        python = PythonTools(place)
        await python.python(call(), code="x = 5")
        output = await python.python(call(), code="while True: print('y' * 10_000)")
        assert output.metadata["python"]["output_limit"] is True
        assert output.metadata["python"]["killed"] == "output limit"
        assert "printed too much" in texts(output)["notes"]
        assert texts(await python.python(call(), code="x")) == {"stdout": "5\n"}
        deaf = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: print('y' * 10_000)"
        output = await python.python(call(), code=deaf)
        assert output.metadata["python"]["interpreter_restarted"] is True
        assert texts(await python.python(call(), code="'x' in globals()")) == {"stdout": "False\n"}


async def test_a_call_that_is_withdrawn_leaves_a_free_interpreter(run):
    await run("x = 5")
    with anyio.move_on_after(0.5):
        await run("import time; time.sleep(1000)")
    assert (await run("x"))[0] == {"stdout": "5\n"}


async def test_a_restart_forgets_and_may_be_followed_by_code(run):
    await run("x = 5")
    texts, metadata = await run(restart=True)
    assert "was restarted" in texts["notes"]
    assert metadata["interpreter_restarted"] is True
    await run("x = 6")
    texts, _ = await run("'x' in globals()", restart=True)
    assert texts["stdout"] == "False\n"


async def test_the_end_of_every_process_is_noticed(run, place, call):
    await run("x = 5")
    await BashTools(place).bash(call(), restart=True)
    texts, metadata = await run("'x' in globals()")
    assert texts["stdout"] == "False\n"
    assert "had ended since the last call" in texts["notes"]
    assert metadata["interpreter_restarted"] is True


async def test_an_interpreter_that_dies_between_calls_is_noticed(run):
    await run("import os, threading\nx = 5\nthreading.Timer(0.1, os._exit, [9]).start()")
    await run("import time; time.sleep(0.5)")
    texts, _ = await run("'x' in globals()")
    assert texts["stdout"] == "False\n"


async def test_a_copy_of_the_sandbox_says_that_variables_did_not_come_along(run, place, call, texts):
    await run("x = 5")
    place.sandbox = await place.sandbox.fork("fork")
    output = await PythonTools(place).python(call(), code="'x' in globals()")
    assert texts(output)["stdout"] == "False\n"
    assert "had ended since the last call" in texts(output)["notes"]


async def test_what_the_agent_does_to_its_shell_does_not_stop_the_interpreter(run, place, call):
    await run("x = 5")
    spoiled = "set -eux; PATH=; HOME=/nowhere; IFS=x; alias printf=false python3=false; cd /; printf() { :; }"
    await BashTools(place).bash(call(), command=spoiled)
    assert (await run("x"))[0] == {"stdout": "5\n"}
    assert (await run("1 / 0"))[1]["exit_code"] == 1
    await BashTools(place).bash(call(), command="/bin/rm -rf /home/agent/.python-tool")
    texts, metadata = await run("x = 6; x")
    assert texts["stdout"] == "6\n"
    assert metadata["interpreter_restarted"] is True


async def test_an_interpreter_that_cannot_be_started_is_told_to_the_agent(run, place, call):
    await BashTools(place).bash(call(), command="touch ~/.python-tool")
    with pytest.raises(ToolError, match=r"did not start.*\.python-tool"):
        await run("1")


async def test_the_work_dir_stays_clean_and_modules_there_can_be_imported(run, place):
    await place.sandbox.write_file("mine.py", b"value = 7\n")
    assert (await run("import mine; mine.value"))[0] == {"stdout": "7\n"}
    names = [entry.path for entry in await place.sandbox.list_files()]
    assert [name for name in names if name != "__pycache__"] == ["mine.py"]


async def test_children_of_the_code_do_not_pass_for_the_interpreter(run):
    code = "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('parent' if pid else 'child')"
    texts, _ = await run(code)
    assert texts["stdout"] == "child\nparent\n"
    assert (await run("pid > 0"))[0] == {"stdout": "True\n"}
    code = "import multiprocessing as m\nfork = m.get_context('fork')\npool = fork.Pool(2)"
    code = f"{code}\nwith pool: pool.map(abs, [-1])\nprint('pooled')"
    assert (await run(code))[0]["stdout"] == "pooled\n"


async def test_what_a_thread_prints_later_comes_as_background_output(run, place, call, texts):
    late = (
        "import os, threading, time\n"
        "def late():\n"
        "    while not os.path.exists('go'): time.sleep(0.01)\n"
        "    print('LATE')\n"
    )
    await run(f"{late}threading.Thread(target=late).start()")
    for _ in range(30):
        output = await BashTools(place).bash(call(), command="touch go; sleep 1; echo now")
        if "background" in texts(output):
            break
    assert texts(output) == {"stdout": "now\n", "background": "LATE\n"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "expected code, or restart=true"),
        ({"code": "a\udc80"}, "lone surrogate"),
        ({"code": "1", "time_limit": 0}, "above 0"),
        ({"code": "#" * 900_000}, "bytes of code"),
    ],
)
async def test_what_cannot_be_run_is_refused(scripted, call, arguments, expected):
    place = await scripted()
    with pytest.raises(ToolError, match=expected):
        await PythonTools(place).python(call(), **arguments)
    assert place.sandbox.commands == []


async def test_large_code_runs(run):
    assert (await run(f"x = {'é' * 200_000!r}; len(x)"))[0] == {"stdout": "200000\n"}


async def test_a_sandbox_without_python_is_not_the_agents_fault(scripted, call):
    place = await scripted(lambda *_: b"/home/agent\n")
    with pytest.raises(EnvironmentFailedError, match="needs a python3"):
        await PythonTools(place).python(call(), code="1")


async def test_a_dead_sandbox_is_the_machinerys_fault(scripted, call):
    place = await scripted(answers({}))
    await place.sandbox.aclose()
    with pytest.raises(SandboxClosedError):
        await PythonTools(place).python(call(), code="1")
