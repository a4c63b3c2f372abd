"""The environments with which the audit is measured: the flawed can be farmed, the honest cannot."""

import os
import subprocess
import sys
import time

import pytest

from ors_server.model.errors import OrsServerError
from ors_server.testing.local_client import open_environment
from tests.fixtures.audited import exploits, honest
from tests.fixtures.audited.exploits import RAISES, SLOW, VARIES
from tests.fixtures.ordinary_cases import every

CLASSES = [f"H{number}" for number in range(1, 24)]
SAID = {"H2", "H3", "H4", "H7", "H10", "H13", "H14", "H21"}
SEEDS = (0, 7)
"""Seeds of the hash of texts that put two of them in different orders."""
FIRST = 6
"""Tasks that are played where every one costs a sandbox or a second."""
EARNING = [one for one in exploits.ALL if not isinstance(one.share, str)]
HONEST = [*honest.DEVELOPMENT, *honest.TESTING]
SAYINGS = [
    one.calls
    for one in EARNING
    if one.flaw in SAID and {name for name, _ in one.calls({"number": 1})} == {"submit"}
]
"""Exploits that say the same to every task."""
ORDER = """
import sys
from tests.fixtures.audited.testing_answers import InSomeOrder
task = InSomeOrder.list_tasks("test")[0]
print(InSomeOrder(task).judge(task["answer"]))
"""


def named(exploit):
    return f"{exploit.flaw}-{exploit.half}-{exploit.environment.name}"


async def mean_returns(environment, plays, most=None):
    """Plays calls on tasks, each in a session of its own; gives the mean return of each play."""
    tasks = environment.list_tasks("test")[:most]
    means = []
    async with open_environment(environment) as client:
        for calls_of in plays:
            total = 0.0
            for index, task in enumerate(tasks):
                session = await client.create(split="test", index=index)
                for name, arguments in calls_of(task):
                    if (await session.submit(name, arguments)).finished:
                        break
                total += (await session.summary()).episode_return
                await session.aclose()
            means.append(total / len(tasks))
    return means


async def mean_return(environment, calls_of, most=None):
    """Plays calls on tasks; gives the mean return."""
    (mean,) = await mean_returns(environment, [calls_of], most)
    return mean


def most_of(environment):
    return FIRST if environment.toolsets else None


def test_every_class_has_a_flawed_environment_in_each_half():
    assert [one.flaw for one in exploits.DEVELOPMENT] == CLASSES
    assert [one.flaw for one in exploits.TESTING] == CLASSES
    assert len({one.environment.name for one in exploits.ALL} | {one.name for one in HONEST}) == 66
    assert len(honest.DEVELOPMENT) == len(honest.TESTING) == 10


@pytest.mark.parametrize("exploit", every(2, EARNING), ids=named)
async def test_an_exploit_earns_its_share_of_the_oracles_return(exploit):
    most = most_of(exploit.environment)
    oracle = await mean_return(exploit.environment, exploit.environment.gold_actions, most)
    earned = await mean_return(exploit.environment, exploit.calls, most)
    if exploit.flaw == "H18":
        assert earned == oracle < 1.0
    elif exploit.flaw == "H20":
        assert earned > min(oracle, 0.0)
        assert earned >= exploit.share * oracle
    else:
        assert oracle > 0
        assert earned >= exploit.share * oracle - 1e-9


@pytest.mark.parametrize("exploit", [one for one in exploits.ALL if one.share == RAISES], ids=named)
async def test_an_answer_breaks_the_grader_or_leaves_the_range(exploit):
    with pytest.raises(OrsServerError):
        await mean_return(exploit.environment, exploit.calls, 1)


def test_a_grader_takes_long():
    for exploit, letters in ((exploits.DEVELOPMENT[14], 18), (exploits.TESTING[14], 0)):
        assert exploit.share == SLOW
        task = exploit.environment.list_tasks("test")[0]
        judge = exploit.environment(task).judge
        times = []
        for size in (1, 2):
            answer = "a" * (letters - 3 + 3 * size) + "!" if letters else f"9^{10 ** (4 + size)}"
            begin = time.process_time()
            assert judge(answer) == 0.0
            times.append(time.process_time() - begin)
        assert times[1] > 3 * times[0]


async def test_the_same_calls_earn_different_rewards():
    moody, shared = exploits.DEVELOPMENT[16], exploits.DEVELOPMENT[21]
    order, memory = exploits.TESTING[16], exploits.TESTING[21]
    assert {one.share for one in (moody, shared, order, memory)} == {VARIES}
    returns = {await mean_return(moody.environment, moody.calls, FIRST) for _ in range(20)}
    assert len(returns) > 1
    for exploit in (shared, memory):
        alone = await mean_return(exploit.environment, exploit.calls)
        await mean_return(exploit.environment, exploit.environment.gold_actions)
        assert alone < await mean_return(exploit.environment, exploit.calls)


def test_one_order_of_a_set_is_not_anothers():
    seen = {
        subprocess.run(
            [sys.executable, "-c", ORDER],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in SEEDS
    }
    assert seen == {"1.0\n", "0.5\n"}


@pytest.mark.parametrize(
    "environment", [one for one in HONEST if one is not honest.StochasticGame], ids=lambda one: one.name
)
async def test_the_oracle_earns_the_most_of_an_honest_environment(environment):
    is_free = hasattr(environment, "submit") and environment is not honest.Choices
    plays = [environment.gold_actions, *(SAYINGS if is_free else ())]
    oracle, *earned = await mean_returns(environment, plays, FIRST)
    assert oracle >= 0.8
    assert max(earned, default=0.0) <= 0.4 * oracle
