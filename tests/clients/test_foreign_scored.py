"""Inspect's tasks and verifiers' tasksets, scored by the real packages in their worker processes."""

import os
import signal
from pathlib import Path

import anyio
import pytest

from ors_server.adapters import inspect_task, verifiers_environment, verifiers_taskset
from ors_server.adapters.inspect_task import from_inspect
from ors_server.adapters.verifiers_environment import from_verifiers_environment
from ors_server.adapters.verifiers_taskset import from_verifiers
from ors_server.environments.sources import load_source
from ors_server.model.errors import EnvironmentDefinitionError, OrsServerError, UnknownEnvironmentError
from ors_server.testing import check_environment
from ors_server.testing.local_client import CallRefusedError, open_environment
from tests.clients.conftest import client_python
from tests.prepared_processes import PREPARED

FIXTURES = Path(__file__).parents[1] / "fixtures"
TASKS = FIXTURES / "inspect_tasks.py"
TASKSETS = FIXTURES / "verifiers_tasksets.py"
ENVIRONMENTS = FIXTURES / "verifiers_environments.py"

pytestmark = [pytest.mark.external, pytest.mark.timeout(600)]


@pytest.fixture(scope="module", autouse=True)
def _interpreters():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(inspect_task.PACKAGE.variable, str(client_python("inspect")))
        patch.setenv(verifiers_taskset.PACKAGE.variable, str(client_python("verifiers")))
        patch.setenv(verifiers_environment.PACKAGE.variable, str(client_python("verifiers_0_3")))
        yield


@pytest.fixture(scope="module")
def sums(_interpreters):
    return from_inspect(f"{TASKS}:sums")


@pytest.fixture(scope="module")
def capitals(_interpreters):
    return from_inspect(f"{TASKS}:capitals")


@pytest.fixture(scope="module")
def vowels(_interpreters):
    return from_inspect(f"{TASKS}:vowels")


async def earned(environment, *submissions):
    """Gives what answers earn, each in a session of its own: a text for the first task, or place and text."""
    outputs = []
    async with open_environment(environment) as client:
        for each in submissions:
            index, answer = (0, each) if isinstance(each, str) else each
            session = await client.create(split="test", index=index)
            outputs.append(await session.submit("submit", {"answer": answer}))
            assert outputs[-1].finished
            assert (await session.summary()).episode_return == (outputs[-1].reward or 0.0)
            await session.aclose()
    return outputs


def rewards(outputs):
    return [one.reward for one in outputs]


async def test_inspect_scores_equivalent_forms_and_near_misses_as_it_does_itself(sums):
    assert [task["id"] for task in sums.list_tasks("test")] == ["sum-42", "sum-72", "sum-99"]
    right = ["42", "The answer is 42.", "42.0"]
    wrong = ["", "43", "42 or 43", "forty-two", "-42"]
    assert rewards(await earned(sums, *right, *wrong)) == [1.0] * len(right) + [0.0] * len(wrong)


async def test_the_target_is_the_gold_answer_and_no_prompt_shows_it(sums):
    golds = [sums.gold_actions(task)[0][1]["answer"] for task in sums.list_tasks("test")]
    assert golds == ["42", "72", "99"]
    assert rewards(await earned(sums, *enumerate(golds))) == [1.0] * 3
    async with open_environment(sums) as client:
        session = await client.create(split="test", index=0)
        assert "42" not in await session.prompt()
        await session.aclose()


async def test_inspects_choices_are_lettered_and_taken_in_any_usual_form(capitals):
    async with open_environment(capitals) as client:
        session = await client.create(split="test", index=0)
        assert "A) Lyon\nB) Paris\nC) Nice" in await session.prompt()
        await session.aclose()
    right = ["B", "b", "(B)", "B.", "ANSWER: B", (1, "A, C"), (1, "AC"), (1, "A C")]
    wrong = ["A", "", "Paris", "A, B", (1, "A"), (1, "A, B, C"), (1, "C, D")]
    assert rewards(await earned(capitals, *right, *wrong)) == [1.0] * len(right) + [0.0] * len(wrong)


async def test_a_scorer_of_ones_own_pays_its_number_and_an_answer_that_breaks_it_is_the_agents(vowels):
    outputs = await earned(vowels, "aeiou", "abab", "unscored", "crash", "odd")
    assert rewards(outputs) == [1.0, 0.5, None, 0.0, 0.0]
    assert outputs[1].metadata["scores"] == {"share_of_vowels": 0.5}
    crash, odd = (one.metadata["broke_its_scorer"] for one in outputs[3:])
    assert "the scorer is broken" in crash
    assert "expected a number" in odd
    assert vowels.gold_actions(vowels.list_tasks("test")[0]) is None


async def test_a_scorer_that_fails_at_any_answer_is_the_authors():
    broken = from_inspect(f"{TASKS}:always_broken")
    async with open_environment(broken) as client:
        session = await client.create(split="test", index=0)
        with pytest.raises(OrsServerError, match="nothing can be scored") as raised:
            await session.call("submit", answer="hello")
        assert not isinstance(raised.value, CallRefusedError)
        assert (await session.summary()).episode_return == 0.0
        await session.aclose()


async def test_a_worker_that_is_killed_between_episodes_is_replaced(sums):
    killed = []

    def kill():
        for listed in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
            for process in set(map(int, listed.read_text(encoding="ascii").split())) - PREPARED.pids():
                if str(client_python("inspect")) in Path(f"/proc/{process}/cmdline").read_text(
                    encoding="utf-8"
                ):
                    os.kill(process, signal.SIGKILL)
                    killed.append(process)

    async with open_environment(sums) as client:
        for _ in range(2):
            session = await client.create(split="test", index=0)
            with anyio.fail_after(300):
                while True:  # a worker that died during the call is the machine's fault, safe to try again
                    try:
                        output = await session.submit("submit", {"answer": "42"})
                        break
                    except OrsServerError as error:
                        assert error.code == "unavailable"  # noqa: PT017  (it may not be raised)
            assert output.reward == 1.0
            await session.aclose()
            kill()
    assert len(set(killed)) == 2


async def test_verifiers_sum_is_the_reward_and_each_reward_and_metric_is_kept():
    sums = from_verifiers(f"{TASKSETS}:Sums")
    async with open_environment(sums) as client:
        session = await client.create(split="test", index=0)
        first, second, _ = await session.messages()
        assert [(one.role, one.blocks[0].text) for one in (first, second)] == [
            ("system", "Answer briefly."),
            ("user", "What is 17 + 25?"),
        ]
        await session.aclose()
    golds = [sums.gold_actions(task)[0][1]["answer"] for task in sums.list_tasks("test")]
    assert golds == ["42", "17", "42"]
    outputs = await earned(sums, "42", "41", "about 42", "", (1, "17"), (2, "42"))
    assert rewards(outputs) == [1.5, 0.5, 0.0, 0.0, 1.5, 1.5]
    assert outputs[0].metadata["scores"] == {"reward": 1.5, "is_right": 1.0, "is_short": 0.5, "letters": 2.0}


@pytest.mark.stress
async def test_the_first_taskset_of_a_file_is_taken_and_others_by_name():
    echoes = from_verifiers(f"{TASKSETS}:Echoes")
    assert [task["id"] for task in echoes.list_tasks("test")] == ["echo-one", "echo-two"]
    assert rewards(await earned(echoes, (1, "I say two."), (1, "one"))) == [1.0, 0.0]
    assert from_verifiers(str(TASKSETS)).name == "verifiers_verifiers_tasksets"


@pytest.mark.stress
async def test_a_prompt_of_messages_and_a_reward_that_names_the_task_are_played():
    chats = from_verifiers(f"{TASKSETS}:Chats")
    assert rewards(await earned(chats, "Banana", "bananas", "a banana")) == [1.0, 0.0, 0.0]


async def test_the_environment_of_load_environment_pays_the_weighted_sum_of_its_rubric():
    sums = from_verifiers_environment(str(ENVIRONMENTS))
    assert sums.name == "verifiers_environment_verifiers_environments"
    assert [task["answer"] for task in sums.list_tasks("test")] == ["42", "17", "42"]
    async with open_environment(sums) as client:
        session = await client.create(split="test", index=1)
        prompt = await session.prompt()
        assert "Answer briefly." in prompt
        assert "What is 9 + 8?" in prompt
        await session.aclose()
    outputs = await earned(sums, "42", "41", "about 42", "", (1, "17"))
    assert rewards(outputs) == [1.5, 0.5, 0.0, 0.0, 1.5]
    assert outputs[0].metadata["scores"]["letters"] == 2.0


@pytest.mark.stress
async def test_a_reward_function_of_the_name_reward_does_not_replace_the_sum():
    namesakes = from_verifiers(f"{TASKSETS}:Namesakes")
    assert rewards(await earned(namesakes, "42", "41")) == [1.25, 0.25]


@pytest.mark.stress
async def test_an_answer_that_breaks_a_function_of_a_rubric_earns_nothing():
    breaking = from_verifiers_environment(f"{ENVIRONMENTS}:load_breaking")
    (output,) = await earned(breaking, "break")
    assert output.reward == 0.0
    assert "cannot read the answer" in str(output.metadata)


async def test_an_outage_in_a_function_of_a_rubric_is_no_zero():
    away = from_verifiers_environment(f"{ENVIRONMENTS}:load_away")
    async with open_environment(away) as client:
        session = await client.create(split="test", index=0)
        with pytest.raises(OrsServerError, match="the judge is away"):
            await session.submit("submit", {"answer": "42"})
        assert (await session.summary()).last_reward is None
        await session.aclose()


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("verifiers_environment/{environments}:load_tools", "expected a SingleTurnEnv .* got ToolEnv"),
        ("inspect/{tasks}:unscored", "it has no a scorer|it has no scorer"),
        ("inspect/{tasks}", "expected FILE.py:TASK or MODULE:TASK"),
        ("verifiers/{tasksets}:Runs", "expected a taskset whose rewards need no runtime"),
        *(
            pytest.param(*case, marks=pytest.mark.stress)
            for case in (
                ("verifiers_environment/{environments}:nothing", "expected a function nothing"),
                ("inspect/{tasks}:boxed", "expected a task without a sandbox .* it needs a sandbox"),
                ("inspect/{tasks}:sum", "expected a task named 'sum'"),
                ("inspect/no_such_module:task", "no_such_module"),
                ("verifiers/{tasksets}:Endless", "expected a finite taskset .* Endless is infinite"),
                ("verifiers/{tasksets}:SumTask", "expected a subclass of verifiers.v1.Taskset"),
            )
        ),
    ],
)
def test_what_cannot_be_served_is_named(reference, words):
    source, _, place = reference.format(tasks=TASKS, tasksets=TASKSETS, environments=ENVIRONMENTS).partition(
        "/"
    )
    with pytest.raises(EnvironmentDefinitionError, match=words):
        load_source(source).load(place)


@pytest.mark.parametrize("source", ["inspect", "verifiers"])
def test_a_file_that_is_not_there_is_named(source):
    with pytest.raises(
        UnknownEnvironmentError, match=r"expected a Python file at .*nowhere\.py, which does not exist"
    ):
        load_source(source).load("nowhere.py:task")


@pytest.mark.parametrize("source", ["inspect", "verifiers"])
def test_a_python_without_the_package_is_named_with_the_commands_that_mend_it(source, monkeypatch):
    package = {"inspect": inspect_task, "verifiers": verifiers_taskset}[source].PACKAGE
    monkeypatch.setenv(package.variable, str(client_python("bfcl")))
    with pytest.raises(EnvironmentDefinitionError) as raised:
        load_source(source).load(f"{TASKS}:sums")
    assert package.requirement in str(raised.value)
    assert f"export {package.variable}=$PWD/venv/bin/python" in str(raised.value)


async def test_a_task_of_another_environment_and_too_long_an_answer_are_refused(sums):
    with pytest.raises(ValueError, match=r"expected index and id of a task of inspect_.*got 0 and 'x'"):
        sums({"index": 0, "id": "x"})
    async with open_environment(sums) as client:
        session = await client.create(split="test", index=0)
        refused = await session.submit("submit", {"answer": "4" * 200_001})
        assert "200,001 characters; at most 200,000" in refused.blocks[0].text
        assert (refused.reward, refused.finished) == (None, False)
        await session.aclose()


@pytest.mark.stress
@pytest.mark.parametrize("name", ["sums", "capitals", "words"])
def test_three_of_inspects_pass_the_checks(name):
    report = check_environment(from_inspect(f"{TASKS}:{name}"))
    assert [verdict for verdict in report.verdicts if verdict.outcome == "fail"] == []


@pytest.mark.stress
@pytest.mark.parametrize("name", ["Sums", "Echoes", "Chats"])
def test_three_of_verifiers_pass_the_checks(name):
    report = check_environment(from_verifiers(f"{TASKSETS}:{name}"))
    assert [verdict for verdict in report.verdicts if verdict.outcome == "fail"] == []
