"""Games of gymnasium and MiniGrid as environments, with the real packages."""

from typing import Any

import pytest

from ors_server.adapters import from_gymnasium
from ors_server.adapters.gymnasium_games import SOURCE, find_plan
from ors_server.model.errors import EnvironmentDefinitionError, UnknownEnvironmentError
from ors_server.testing import open_environment
from ors_server.testing.environment_suite import check_environment

pytestmark = pytest.mark.external
CHECKED = ("FrozenLake-v1", "CliffWalking-v1", "Blackjack-v1", "MiniGrid-Empty-5x5-v0")


async def play(environment, actions, split="train", index=0):
    """Return the prompt, the outputs and the return of an episode."""
    async with open_environment(environment) as client:
        session = await client.create(split=split, index=index, seed=0)
        prompt = await session.prompt()
        outputs = [await session.submit("act", {"action": action}) for action in actions]
        return prompt, outputs, (await session.summary()).episode_return


@pytest.mark.parametrize("game", CHECKED)
def test_a_game_passes_the_suite(game):
    report = check_environment(f"gymnasium/{game}", tasks_per_split=2)
    assert not list(report.failed()), str(report)
    passed = {verdict.check.id for verdict in report.verdicts if verdict.outcome == "pass"}
    assert {"gold-earns-the-most", "calls-are-repeatable", "reward-range"} <= passed


@pytest.mark.parametrize(
    ("game", "options", "least"),
    [
        ("FrozenLake-v1", {"is_slippery": False}, 1),
        ("FrozenLake8x8-v1", {}, 1),
        ("Taxi-v4", {}, 3),
        ("CliffWalkingSlippery-v1", {}, -40),
        ("MiniGrid-DoorKey-5x5-v0", {}, 0.9),
    ],
)
async def test_the_oracle_knows_the_random_numbers(game, options, least):
    environment: Any = from_gymnasium(game, **options)
    for index in range(2):
        gold = environment.gold_actions(environment.get_task("test", index))
        actions = [arguments["action"] for _, arguments in gold]
        _, outputs, earned = await play(environment, actions, "test", index)
        assert outputs[-1].finished
        assert not outputs[-2].finished
        assert earned >= least


async def test_a_prompt_shows_rules_actions_and_board_without_colours():
    prompt, outputs, earned = await play(
        from_gymnasium("FrozenLake-v1", map_name="4x4", is_slippery=False), ["down", "right"]
    )
    assert "actions are `left`, `down`, `right`, `up`. The game ends after 100 steps" in prompt
    assert "SFFF\nFHFH\nFFFH\nHFFG\nYou are in row 0, column 0." in prompt
    assert "\x1b" not in prompt
    assert outputs[0].blocks[0].text.endswith("You are in row 1, column 0.")
    assert outputs[1].finished
    assert outputs[1].blocks[0].text.endswith("The game is over.")
    assert earned == 0


async def test_what_colours_show_is_written_out():
    prompt, _, _ = await play(from_gymnasium("Taxi-v4"), [])
    assert "The passenger waits at" in prompt
    assert "wants to go to" in prompt
    prompt, _, _ = await play(from_gymnasium("Blackjack-v1"), [])
    assert "The dealer shows" in prompt
    prompt, outputs, _ = await play(from_gymnasium("MiniGrid-DoorKey-5x5-v0"), ["left"])
    assert "Mission: use the key to open the door" in prompt
    assert "and carry nothing." in outputs[0].blocks[0].text


async def test_a_game_without_a_limit_of_its_own_ends():
    environment: Any = from_gymnasium("CliffWalking-v1")
    assert environment.policy.step_limit == 200
    _, outputs, earned = await play(environment, ["up"] * 200)
    assert outputs[-1].finished
    assert earned == -200


async def test_a_fork_goes_on_where_the_game_was():
    environment: Any = from_gymnasium("Taxi-v4")
    task = environment.get_task("train", 5)
    one, other = environment(task), environment(task)
    one.setup()
    views = [one.act(action).blocks[0].text for action in ("south", "east", "north")]
    other.load_state(one.save_state())
    assert other.save_state() == {"actions": ["south", "east", "north"]}
    assert other.act("west").blocks == one.act("west").blocks
    assert len(set(views)) > 1
    one.teardown()
    other.teardown()


def test_seeds_of_the_splits_are_disjoint_and_end():
    environment: Any = from_gymnasium("Taxi-v4", train_tasks=3, test_tasks=2)
    assert environment.get_task_range("train") == [{"seed": 0}, {"seed": 1}, {"seed": 2}]
    assert environment.get_task("test", -1) == {"seed": 4}
    with pytest.raises(IndexError):
        environment.get_task("test", 2)


@pytest.mark.parametrize(
    ("game", "sizes"),
    [
        ("CliffWalking-v1", {"train": 1}),
        ("MiniGrid-LavaGapS5-v0", {"train": 2, "test": 1}),
        ("Taxi-v4", {"train": 273, "test": 27}),
        ("FrozenLake-v1", {"train": 725, "test": 72}),
    ],
)
def test_games_that_begin_alike_are_one_task(game, sizes):
    environment: Any = from_gymnasium(game)
    assert {split.name: environment.num_tasks(split.name) for split in environment.list_splits()} == sizes
    views = []
    for split in [split.name for split in environment.list_splits()]:
        for task in environment.get_task_range(split):
            instance = environment(task)
            instance.setup()
            views.append(instance.get_prompt())
            instance.teardown()
    assert len(set(views)) == len(views) == sum(sizes.values())


def test_games_that_go_on_by_chance_keep_their_seeds():
    environment: Any = from_gymnasium("CliffWalkingSlippery-v1")
    assert (environment.num_tasks("train"), environment.num_tasks("test")) == (1000, 100)
    assert environment.prompts_may_repeat
    environment = from_gymnasium("CliffWalking-v1", is_slippery=True)
    assert (environment.num_tasks("test"), environment.prompts_may_repeat) == (100, True)


@pytest.mark.parametrize(
    ("game", "options", "error", "message"),
    [
        ("FrozenLake-v9", {}, UnknownEnvironmentError, "gymnasium/FrozenLake-v9: no game of that id"),
        (
            "FrozenLake-v1",
            {"colour": 1},
            EnvironmentDefinitionError,
            "refuses it with the options {'colour': 1}",
        ),
        ("MountainCarContinuous-v0", {}, EnvironmentDefinitionError, "expected discrete actions, got Box"),
        ("Taxi-v4", {"train_tasks": 0, "test_tasks": 0}, EnvironmentDefinitionError, "at least one task"),
    ],
)
def test_a_game_that_cannot_be_made_is_refused(game, options, error, message):
    with pytest.raises(error) as caught:
        from_gymnasium(game, **options)
    assert message in str(caught.value)


def test_games_without_a_plan_have_no_gold_actions():
    environment: Any = from_gymnasium("Blackjack-v1")
    plans = [environment.gold_actions(environment.get_task("train", index)) for index in range(8)]
    assert any(plan is None for plan in plans)
    assert any(plan for plan in plans)

    class Other:
        unwrapped = None

    assert find_plan(Other()) is None
    assert len(SOURCE.list_names()) == 184


@pytest.mark.parametrize("name", ["BabyAI-GoToRedBall-v0", "BabyAI-GoToSeq-v0"])
def test_a_level_whose_limit_of_steps_is_known_after_a_reset_can_be_made(name):
    limit = from_gymnasium(name, train_tasks=3, test_tasks=0).policy.step_limit
    assert limit is not None
    assert limit > 10
