"""The bundled shop against what was recorded: whole episodes of WebShop, and AgentFly's reward."""

import ast
import json
from typing import Any, ClassVar

import anyio
import pytest

from ors_server import Context, ResourcePool, WebShopSpec, reward, score, webshop_reward
from ors_server.testing import open_environment
from ors_server_tasks.webshop import WebShop
from ors_server_tasks.webshop.game import WebShopGame
from ors_server_tasks.webshop.pages import THANKS
from tests.fixtures.recorded_shop import DATA, RecordedShop
from tests.fixtures.seed_blocks import run

LIMIT = 60.0
"""Seconds within which anything in these tests happens."""


def text_of(output: Any) -> str:
    (block,) = output.blocks
    return block.text


async def test_every_recorded_episode_is_played_alike_by_the_tools():
    """Whole: the result pages come from the search, and no page, reward or part of it from the record."""
    episodes = json.loads((DATA / "webshop_transcripts.json").read_text(encoding="utf-8"))
    assert len(episodes) == 36
    with anyio.fail_after(LIMIT):
        async with open_environment(RecordedShop) as client:
            for episode in episodes:
                pages, rewards, parts = await play_again(client, episode)
                *recorded, (_, last, _, is_done) = episode["trace"]
                assert is_done
                assert last.startswith(f"{THANKS} [SEP] Your code:")
                assert pages == [*(page for _, page, _, _ in recorded), THANKS]
                assert rewards == [reward for _, _, reward, _ in episode["trace"]]
                assert parts == episode["info"]


async def play_again(client: Any, episode: dict[str, Any]) -> tuple[list[str], list[float], object]:
    """Return the pages, the rewards of the steps, and the parts of the last one."""
    goal = episode["goal"]
    first = WebShopGame(RecordedShop.data, lengths="exact").reset(env_args={"recorded_goal": goal})
    pages, rewards, output = [first.removesuffix("\nClickables: ['search']")], [0.0], None
    session = await client.create(task_spec={"task_id": 0, "recorded_goal": goal})
    assert (await session.prompt()).startswith(f"{goal['instruction_text']}\n\n")
    clickables: list[str] = []
    # The record does not name the words of its search.
    words = f"{goal['name'].partition(',')[0]} {' '.join(goal['attributes'])}"
    for recorded, _, _, _ in episode["trace"][1:]:
        action = f"search[{words}]" if recorded == "search" else recorded
        assert action.startswith("search") or action.removeprefix("click[").removesuffix("]") in clickables
        output = await session.submit("webshop_browser_action", {"action": action})
        page, _, listed = text_of(output).partition("\nClickables: ")
        if action.startswith("search"):
            asins = page.partition(" [SEP] Next > [SEP] ")[2].split(" [SEP] ")[::3]
            assert ast.literal_eval(listed) == ["back to search", "next >", *map(str.lower, asins)]
        clickables = ast.literal_eval(listed or "[]")
        pages.append(page)
        rewards.append(output.reward or 0.0)
        assert output.finished is (page == THANKS)
    await session.aclose()
    return pages, rewards, output.metadata["score_parts"]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"asin": None}, "asin: Input should be a valid string, got None"),
        ({"attributes": []}, "at least one of 'attributes'"),
        ({"price_upper": "cheap"}, "price_upper: Input should be a valid number, .* got 'cheap'"),
        (None, "the whole goal: .* got 7"),
    ],
)
def test_a_recorded_goal_that_is_none_is_refused(changes, problem):
    episode, *_ = json.loads((DATA / "webshop_transcripts.json").read_text(encoding="utf-8"))
    goal = 7 if changes is None else {**episode["goal"], **changes}
    with pytest.raises(ValueError, match=problem):
        WebShopGame(RecordedShop.data).reset(env_args={"recorded_goal": goal})


def test_the_oracle_buys_what_a_recorded_goal_wants_and_a_fork_plays_it_too():
    async def run() -> None:
        episode, *_ = json.loads((DATA / "webshop_transcripts.json").read_text(encoding="utf-8"))
        task = {"task_id": 0, "recorded_goal": episode["goal"]}
        (_, search), *clicks = RecordedShop.gold_actions(task)
        async with open_environment(RecordedShop) as client:
            session = await client.create(task_spec=task)
            await session.submit("webshop_browser_action", search)
            (fork,) = await session.fork(1)
            for one in (session, fork):
                for name, arguments in clicks:
                    output = await one.submit(name, arguments)
                assert (output.reward, output.finished) == (1.0, True)
                await one.aclose()

    anyio.run(run)


# AgentFly's reward: the block of its page, and the project's own.

THEIR_REWARD = run("agentfly", "stateful", reward=reward)["webshop_reward"]


async def shop(context: Context, actions: list[str], task_id: int) -> None:
    """Do as AgentFly's tools do."""
    env = await context.acquire_resource(spec=WebShopSpec, scope="global", backend="local")
    await env.reset(env_args={"task_id": task_id})
    for action in actions:
        await env.step(action)


@pytest.mark.parametrize("asked", [THEIR_REWARD, webshop_reward], ids=["page", "own"])
def test_agentfly_s_example_meets_the_shop_that_its_tools_have_used(asked):
    task = WebShop.get_task("test", 2)
    actions = [arguments["action"] for _, arguments in WebShop.gold_actions(task)]
    pool = ResourcePool(bindings={WebShopSpec: WebShopSpec.local(WebShopGame)})
    context = Context("rollout-1", pool=pool)
    fields = {"final_response": "", "context": context}
    anyio.run(shop, context, actions[:-1], task["task_id"])
    before = score(asked, **fields, task_id=task["task_id"])
    assert before.reward == 0.0
    assert "Buy Now" in before.extras["output"]
    anyio.run(shop, context, actions, task["task_id"])
    after = score(asked, **fields, task_id=task["task_id"])
    assert (after.reward, after.extras["output"]) == (1.0, THANKS)
    other = WebShop.get_task("test", 3)
    assert 0.0 <= (score(asked, **fields, task_id=other["task_id"]).reward or 0.0) < 1.0


class WatchedGame(WebShopGame):
    """Keeps the steps that were asked for."""

    steps: ClassVar[list[list[Any]]] = []

    def step(self, action: str, task_id: int | None = None) -> Any:
        self.steps.append([action, task_id])
        return super().step(action, task_id)


RECORDED_REWARDS = json.loads((DATA / "rewards/agentfly_webshop_reward.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("asked", [THEIR_REWARD, webshop_reward], ids=["page", "own"])
@pytest.mark.parametrize("case", RECORDED_REWARDS["cases"][:2], ids=["right", "similar"])
def test_the_recorded_rewards_come_from_the_real_shop_as_from_the_scripted_one(case, asked):
    task = WebShop.get_task("test", 2)
    actions = [arguments["action"] for _, arguments in WebShop.gold_actions(task)]
    if case["input"]["env_step_returns"]["reward"] < 1.0:
        actions = [action for action in actions if "b0" in action or action.startswith("search")]
        actions.append("click[buy now]")  # without its options
    game = WebShopGame()
    game.reset(task["task_id"])
    for action in actions:
        game.step(action)
    paid = game.step("get_reward")["reward"]
    pool = ResourcePool(bindings={WebShopSpec: WebShopSpec.local(WatchedGame)})
    context = Context("rollout-1", pool=pool)
    anyio.run(shop, context, actions, task["task_id"])
    WatchedGame.steps.clear()
    result = score(asked, final_response="", context=context, task_id=task["task_id"])
    assert WatchedGame.steps == [[call, task["task_id"]] for call, _ in case["env_calls"]]
    assert result.extras == {"output": THANKS}
    assert result.reward == paid
    assert (paid == 1.0) is (case["output"]["value"]["reward"] == 1.0)


def test_where_the_recorded_reward_is_a_failure_the_shop_gives_no_number_to_the_own_one():
    (case,) = [one for one in RECORDED_REWARDS["cases"] if one["input"] == "acquire raises"]
    spec = WebShopSpec.local(WebShopGame, {"data": "/nowhere/at/all"})
    contexts = [Context("rollout-1", pool=ResourcePool(bindings={WebShopSpec: spec})) for _ in range(2)]
    theirs = score(THEIR_REWARD, final_response="", context=contexts[0], task_id=7)
    ours = score(webshop_reward, context=contexts[1], task_id=7)
    assert theirs.reward == case["output"]["value"]["reward"]
    assert theirs.extras["output"].startswith("Error webshop reward function: ")
    assert ours.reward is None
    assert all("expected a folder with WebShop's files" in str(one) for one in (theirs.extras, ours.reason))


def test_no_page_of_the_shop_gives_text_instead_of_a_reward():
    """The third recorded case: a text."""
    game = WebShopGame()
    task = WebShop.get_task("test", 2)
    game.reset(task["task_id"])
    for _, arguments in WebShop.gold_actions(task):
        assert game.step("get_reward", task["task_id"]) == {
            "observation": game.observation.partition("\nClickables: ")[0],
            "reward": 0.0,
        }
        game.step(arguments["action"])
    assert game.step("get_reward", task["task_id"]) == {"observation": THANKS, "reward": 1.0}
