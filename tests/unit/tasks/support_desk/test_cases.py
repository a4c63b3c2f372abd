"""The cases of the support desk: what is paid, what is not, and what an agent can find out."""

import hashlib
import json
from collections import Counter
from typing import Any

import anyio
import pytest

from ors_server import ScriptedUser, ToolError, ToolOutput, UserMessageError
from ors_server.testing import open_environment, play
from ors_server_tasks.support_desk import SupportDesk
from ors_server_tasks.support_desk.rules import CLOSING_CODES
from tests.unit.tasks.support_desk.near_misses import EQUIVALENT, NEAR_MISSES, Play, Task, effective

SPLITS = ("train", "test")
TASKS = [task for split in SPLITS for task in SupportDesk.list_tasks(split)]
KINDS = sorted({task["kind"] for task in TASKS})


async def handle(task: Task, calls: Play) -> tuple[float, dict[str, Any]]:
    """Make calls as an agent that goes on after mistakes; the reward, and why it was paid."""
    desk = SupportDesk(task)
    for name, given in calls:
        try:
            output = await getattr(desk, name)(**given)
        except ToolError:
            continue
        if isinstance(output, ToolOutput):
            return output.reward or 0.0, output.metadata or {}
    return 0.0, {"wrong_parts": ["closed"]}


def test_there_are_sixty_tasks_of_fifteen_kinds_which_never_change():
    assert Counter(task["kind"] for task in TASKS) == dict.fromkeys(KINDS, 4)
    assert [len(SupportDesk.list_tasks(split)) for split in SPLITS] == [45, 15]
    digest = hashlib.sha256(json.dumps(TASKS, sort_keys=True).encode()).hexdigest()[:16]
    assert digest == "f6aab967ca35f53a"


def test_no_customer_and_no_order_is_in_two_cases_of_the_two_splits():
    pins = [{customer["pin"] for customer in task["customers"]} for task in TASKS]
    assert len(set.union(*pins)) == sum(map(len, pins))


async def test_the_oracle_earns_everything_and_no_work_earns_nothing_in_all_sixty_cases():
    for task in TASKS:
        assert await handle(task, effective(task)) == (1.0, {"wrong_parts": [], "broken_rules": []}), task[
            "id"
        ]
        assert (await handle(task, list(SupportDesk.blank_actions(task))))[0] == 0.0, task["id"]
        assert (await handle(task, []))[0] == 0.0


async def test_no_single_code_closes_many_cases():
    for code in CLOSING_CODES:
        paid = [(await handle(task, [("close_case", {"code": code})]))[0] for task in TASKS]
        assert sum(paid) == 0.0


@pytest.mark.parametrize("generator", NEAR_MISSES, ids=lambda one: one.__name__)
async def test_a_near_miss_is_not_paid(generator):
    count = 0
    for task in TASKS:
        for calls in generator(task, effective(task)):
            count += 1
            reward, why = await handle(task, calls)
            assert reward == 0.0, (task["id"], task["kind"], calls)
            assert why["wrong_parts"] or why["broken_rules"]
    assert count >= 8


async def test_there_are_thousands_of_near_misses():
    assert sum(1 for task in TASKS for one in NEAR_MISSES for _ in one(task, effective(task))) > 2000


@pytest.mark.parametrize("number", range(len(EQUIVALENT)))
async def test_an_equivalent_form_is_paid(number):
    for task in TASKS:
        for calls in EQUIVALENT[number](task, effective(task)):
            reward, why = await handle(task, calls)
            assert reward == 1.0, (task["id"], task["kind"], calls, why)


async def test_a_refund_before_the_check_of_the_pin_breaks_a_rule_although_the_state_is_right():
    task = next(task for task in TASKS if task["kind"] == "refund")
    verify, refund, close = effective(task)
    assert await handle(task, [refund, verify, close]) == (
        0.0,
        {"wrong_parts": [], "broken_rules": ["identity"]},
    )


EXPECTED = {
    "refund": ("resolved", {"refunded"}),
    "part_refund": ("resolved", {"refunded"}),
    "late_refund": ("refused_return_window", set()),
    "large_refund": ("escalated", {"escalated"}),
    "cancel": ("resolved", {"status"}),
    "late_cancel": ("refused_already_shipped", set()),
    "address": ("resolved", {"address"}),
    "late_address": ("refused_already_shipped", set()),
    "replacement": ("resolved", {"replaced"}),
    "no_stock": ("resolved", {"refunded"}),
    "impostor": ("escalated", {"escalated"}),
    "safety": ("escalated", {"escalated"}),
    "promise": ("resolved", {"promised"}),
    "two_requests": ("resolved", {"status", "refunded"}),
    "foreign_order": ("refused_not_their_order", set()),
}
"""Of each kind: the code that closes its cases, and the parts of the state that change."""


async def test_each_kind_changes_its_own_part_of_the_database_and_nothing_else():
    assert set(EXPECTED) == set(KINDS)
    for task in TASKS:
        code, parts = EXPECTED[task["kind"]]
        _, why = await handle(task, [("close_case", {"code": code})])
        assert set(why["wrong_parts"]) == parts, task["id"]


# What an agent can find out.


@pytest.mark.parametrize("kind", KINDS)
async def test_the_customer_tells_what_the_agent_has_to_know(kind, monkeypatch):
    monkeypatch.delenv("ORS_USER_BASE_URL", raising=False)
    for task in (task for task in TASKS if task["kind"] == kind):
        desk = SupportDesk(task)
        asked = (
            *("What is your service PIN?", "What is the order number?", "Which item is it about?"),
            *("How many pieces come back?", "What is the new address?", "Was the other order older?"),
        )
        told = " ".join([task["opening"], *[await desk.user.send(question) for question in asked]])
        owner = next(one for one in task["customers"] if one["customer_id"] == task["customer_id"])
        assert (owner["pin"] in told) == (kind != "impostor")
        for name, given in effective(task):
            values = {
                key: value for key, value in given.items() if key in {"street", "city", "postcode", "pin"}
            }
            assert all(value in told for value in values.values()), (task["id"], name)
            if "order_id" in given:
                (order,) = (one for one in task["orders"] if one["order_id"] == given["order_id"])
                assert given["order_id"] in told or all(line["name"] in told for line in order["lines"])


def test_the_prompt_and_the_lookups_show_no_pin_and_no_solution():
    async def look(task: Task) -> str:
        desk = SupportDesk(task)
        shown = [desk.get_prompt()]
        shown += [await desk.find_customer(one["name"]) for one in task["customers"]]
        shown += [await desk.list_orders(one["customer_id"]) for one in task["customers"]]
        shown += [await desk.get_order(one["order_id"]) for one in task["orders"]]
        return "\n".join(shown)

    for task in TASKS:
        shown = anyio.run(look, task)
        assert not any(one["pin"] in shown for one in task["customers"])
        assert task["kind"] not in {"impostor", "no_stock"} or task["kind"] not in shown


async def test_the_answer_of_close_case_is_the_same_whatever_is_paid(monkeypatch):
    task = TASKS[0]
    shown = {(await SupportDesk(task).close_case(code)).blocks[0].text for code in ("resolved", "escalated")}
    assert shown == {"The case is closed."}


async def test_the_user_is_bounded_and_a_pin_is_locked_after_three_failed_checks():
    desk = SupportDesk(TASKS[0])
    assert isinstance(desk.user.user, ScriptedUser)
    with pytest.raises(UserMessageError, match="2,001 characters"):
        await desk.user.send("x" * 2001)
    given = {"customer_id": TASKS[0]["customer_id"], "pin": "1"}
    for _ in range(3):
        assert "is wrong" in await desk.verify_identity(**given)
    with pytest.raises(ToolError, match="locked after 3 failed checks"):
        await desk.verify_identity(**given)


MISTAKES = {
    "no customer": ("list_orders", {"customer_id": "C-0"}, "There is no customer 'C-0'"),
    "no order": ("get_order", {"order_id": "O-0"}, "There is no order 'O-0'"),
    "no query": ("find_customer", {"query": " "}, "The query is empty"),
    "a long query": ("find_customer", {"query": "x" * 201}, "An argument has 201 characters"),
    "no reason": (
        "escalate",
        {"order_id": TASKS[0]["orders"][0]["order_id"], "reason": "x"},
        "must be one of",
    ),
    "no code": ("close_case", {"code": "fine"}, "The code must be one of resolved"),
}


@pytest.mark.parametrize(("tool", "given", "told"), MISTAKES.values(), ids=MISTAKES)
async def test_a_call_that_makes_no_sense_says_what_would(tool, given, told):
    with pytest.raises(ToolError, match=told):
        await getattr(SupportDesk(TASKS[0]), tool)(**given)


# In sessions.


def test_a_case_is_played_with_its_customer_and_pays_once():
    task = SupportDesk.get_task("test", 0)
    with play("support_desk", split="test", index=0) as episode:
        assert task["opening"] in episode.prompt
        outputs = [episode.call(name, **given) for name, given in SupportDesk.gold_actions(task)]
        assert [output.reward for output in outputs] == [*[None] * (len(outputs) - 1), 1.0]
        assert "My service PIN is" in outputs[1].blocks[0].text
        assert episode.summary.episode_return == 1.0


async def test_a_forked_case_goes_on_with_its_changes_and_its_conversation():
    task = SupportDesk.get_task("train", 0)
    gold = SupportDesk.gold_actions(task)
    async with open_environment("support_desk") as client:
        session = await client.create(split="train", index=0)
        for name, given in gold[:-1]:
            await session.submit(name, given)
        (fork,) = await session.fork()
        assert (await fork.submit(*gold[-1])).reward == 1.0
        await session.submit("escalate", {"order_id": task["orders"][0]["order_id"], "reason": "safety"})
        assert (await session.submit(*gold[-1])).reward == 0.0


def test_a_task_that_is_not_one_of_these_is_refused():
    with pytest.raises(ValueError, match="a task of support_desk has the keys that its README lists"):
        SupportDesk({"id": "x"})


def test_another_seed_has_other_cases():
    class Other(SupportDesk):
        seed = "another"

    assert Other.get_task("train", 0) != SupportDesk.get_task("train", 0)
    assert Other.get_task("train", -1)["id"] == "support_desk/train/44"
    with pytest.raises(IndexError, match="split 'test' has 15 tasks"):
        Other.get_task("test", 15)
