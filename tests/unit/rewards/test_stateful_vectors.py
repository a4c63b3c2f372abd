"""The rewards that ask an environment, against recordings of AgentFly's, with environments as scripted."""

import ast

import pytest

from ors_server import resources
from ors_server.resources import Context, LocalEnvResourceSpec, ResourcePool
from ors_server.rewards.agentfly import stateful
from ors_server.rewards.deviations import DEVIATIONS
from ors_server.rewards.scoring import score
from tests.fixtures.deviations import covers, explains
from tests.fixtures.recorded_rewards import all_cases, recorded_cases

WEBSHOP, ALFWORLD = "agentfly_webshop_reward", "agentfly_alfworld_episode_reward"
SCIENCE, CODE = "agentfly_scienceworld_reward", "agentfly_code_reward_test"
SPECS = {WEBSHOP: "WebShopSpec", ALFWORLD: "ALFWorldSpec", SCIENCE: "ScienceWorldSpec", CODE: "PythonEnvSpec"}
FILES = tuple(SPECS)
ERRORS = {"RuntimeError": RuntimeError, "TimeoutError": TimeoutError}


class ScriptedEnv:
    """Says the same at every step, or raises it, and keeps what it was asked."""

    def __init__(self, calls, says):
        self.calls = calls
        self.says = says

    async def step(self, *arguments):
        self.calls.append(list(arguments))
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


class WatchedContext(Context):
    """A context that keeps how it was asked."""

    def __init__(self, pool, **kwargs):
        super().__init__("r", pool=pool, **kwargs)
        self.asked = []

    async def acquire_resource(self, *args, **kwargs):
        assert not args
        self.asked.append(dict(kwargs))
        return await super().acquire_resource(**kwargs)


def said(name, given):
    """Return what the case's environment says."""
    if name == SCIENCE:
        told = "Task completed" if given["env_score"] >= 1 else "Task not completed"
        return {"observation": told, "reward": given["env_score"]}
    if "env_step_raises" in given:
        kind, _, message = given["env_step_raises"].partition("(")
        return ERRORS[kind](ast.literal_eval(message.rstrip(")")))
    told = given["env_step_returns"]
    return tuple(told) if isinstance(told, list) else told


def play(name, case):
    """Score one case; returns the result, the environment's calls and how the context was asked."""
    given = case["input"]
    if isinstance(given, str):
        return play_in_words(name, given)
    calls: list[list[object]] = []
    spec = getattr(resources, SPECS[name])
    pool = ResourcePool(bindings={spec: spec.local(lambda: ScriptedEnv(calls, said(name, given)))})
    context = WatchedContext(pool, trajectory=[{"role": "user"}] * given.get("trajectory_len", 0))
    fields = {"task_id": given["task_id"]} if "task_id" in given else {}
    if name == CODE:
        fields["prediction"] = "print(4)"
    result = score(getattr(stateful, name.removeprefix("agentfly_")), context=context, **fields)
    return result, calls, context.asked


def play_in_words(name, told):
    if told == "acquire raises":
        pool = ResourcePool(bindings={resources.WebShopSpec: LocalEnvResourceSpec("no.such.module:Env")})
        return score(stateful.webshop_reward, context=Context("r", pool=pool), task_id=7), None, None
    assert told.startswith("framework-style call: final_response=..., no prediction")
    return score(stateful.code_reward_test, context=Context("r"), final_response="x"), None, None


@pytest.mark.parametrize(("name", "case"), all_cases(*FILES))
def test_the_reward_is_agentfly_s_or_the_table_says_why_not(name, case):
    result, calls, asked = play(name, case)
    output = case["output"]
    if "error" in output:
        assert (result.reward, result.status) == (None, "error")
        assert "prediction" in (result.reason or "")
        return
    if result.reward is None:
        assert [row for row in DEVIATIONS if explains(row, name, case, None)], result.reason
    else:
        assert {"reward": result.reward, **result.extras} == output["value"]
    if calls is not None:
        assert calls == case.get("env_calls", [["print(4)"]])
        scopes = [{**one, "spec": SPECS[name]} for one in asked]
        assert [one["spec"] for one in asked] == [getattr(resources, SPECS[name])] * len(calls)
        assert scopes == case.get(
            "acquire", [{**one, "scope": "global", "backend": "local"} for one in scopes]
        )


@pytest.mark.parametrize("row", [row for row in DEVIATIONS if set(row.files) & set(FILES)])
def test_every_row_is_needed_by_a_case_that_has_a_number_there_and_none_here(row):
    needed = [
        case
        for name in row.files
        for case in recorded_cases(name)
        if explains(row, name, case, play(name, case)[0].reward)
    ]
    assert needed
    assert all("value" in case["output"] for case in needed)


@pytest.mark.parametrize("name", FILES)
def test_no_row_covers_a_case_in_which_the_reward_is_theirs(name):
    for case in recorded_cases(name):
        if play(name, case)[0].reward is not None:
            assert not [row for row in DEVIATIONS if covers(row, name, case)]


@pytest.mark.parametrize("name", FILES)
def test_a_name_behind_which_nothing_stands_is_an_error_that_says_so(name):
    reward = getattr(stateful, name.removeprefix("agentfly_"))
    context = Context("r", trajectory=[{}] * 4)
    result = score(reward, context=context, task_id=1, prediction="1")
    assert (result.reward, result.status) == (None, "error")
    assert "is not bound" in (result.reason or "")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (WEBSHOP, {"reward": float("nan"), "observation": "o"}),
        (WEBSHOP, {"reward": "1", "observation": "o"}),
        (WEBSHOP, {"reward": 1.5, "observation": "o"}),
        (WEBSHOP, {"reward": 1.0}),
        (WEBSHOP, None),
        (ALFWORLD, ["obs", float("inf"), True, {}]),
        (ALFWORLD, ["obs", 1.0]),
        (ALFWORLD, "obs1"),
        (ALFWORLD, {"observation": "o"}),
        (SCIENCE, {"reward": None, "observation": "o"}),
        (SCIENCE, {"reward": float("nan"), "observation": "o"}),
        (SCIENCE, {"reward": float("inf"), "observation": "o"}),
        (SCIENCE, "o"),
        (CODE, None),
        (CODE, {"stdout": "4"}),
    ],
)
def test_what_is_no_judgement_is_no_number(name, told):
    spec = getattr(resources, SPECS[name])
    pool = ResourcePool(bindings={spec: spec.local(lambda: ScriptedEnv([], told))})
    context = Context("r", pool=pool, trajectory=[{}] * 4)
    reward = getattr(stateful, name.removeprefix("agentfly_"))
    result = score(reward, context=context, task_id=1, prediction="1")
    assert (result.reward, result.status) == (None, "error")


@pytest.mark.parametrize(
    ("printed", "wanted"),
    [
        ("4\n", 1.0),
        ("", 1.0),
        ("say Traceback (most recent call last):", 1.0),
        ('x\nTraceback (most recent call last):\n  File "a"\nZeroDivisionError: division by zero\n', 0.0),
        ("  File \"a\", line 1\n    (\n    ^\nSyntaxError: '(' was never closed\n", 0.0),
    ],
)
def test_a_program_that_raises_earns_nothing_as_documented(printed, wanted):
    spec = resources.PythonEnvSpec
    for told in (printed, {"observation": printed}):
        pool = ResourcePool(bindings={spec: spec.local(lambda told=told: ScriptedEnv([], told))})
        result = score(stateful.code_reward_test, context=Context("r", pool=pool), prediction="1")
        assert (result.reward, result.extras["output"]) == (wanted, printed)


def test_an_episode_of_which_no_messages_are_known_is_not_one_without_messages():
    result = score(stateful.scienceworld_reward, context=Context("r"))
    assert (result.reward, result.status) == (None, "error")
    assert "does not know the messages" in (result.reason or "")
    result = score(stateful.scienceworld_reward, context=Context("r", trajectory=[]))
    assert (result.reward, result.extras["output"]) == (0.0, "Not enough steps to get reward")


def test_the_seed_s_own_reward_works_as_it_is_written_there():
    from ors_server.resources import WebShopSpec  # noqa: PLC0415  (as the page has it)
    from ors_server.rewards.define import reward  # noqa: PLC0415  (as the page has it)

    @reward(name="webshop_reward")
    async def webshop_reward(final_response: str, context: Context, task_id: int) -> dict:
        try:
            env = await context.acquire_resource(spec=WebShopSpec, scope="global", backend="local")
            result = await env.step("get_reward", task_id)
            return {"reward": result["reward"], "output": result["observation"]}
        except Exception as e:  # noqa: BLE001  (as the page has it)
            return {"reward": 0.0, "output": f"Error webshop reward function: {e}"}

    told = {"reward": 0.5, "observation": "Thank you!"}
    pool = ResourcePool(bindings={WebShopSpec: WebShopSpec.local(lambda: ScriptedEnv([], told))})
    result = score(webshop_reward, final_response="", context=Context("r", pool=pool), task_id=3)
    assert (result.reward, result.extras["output"]) == (0.5, "Thank you!")


def test_the_limits_are_those_of_the_environments():
    known = [(one.category, one.max_global_num, one.start_timeout) for one in map(vars_of, SPECS.values())]
    assert known[:3] == [("webshop", 8, 180.0), ("alfworld", 8, 120.0), ("scienceworld", 48, 10.0)]
    assert stateful.scienceworld_reward.range == (0.0, 10.0)


def vars_of(name):
    return getattr(resources, name)
