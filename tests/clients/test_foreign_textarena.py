"""TextArena's games as a server plays them, with the real textarena, in its real worker processes."""

import random

import pytest

from ors_server.adapters import textarena_games
from ors_server.adapters.textarena_games import BROKEN, GAMES, PACKAGE, WORD_GAMES, from_textarena
from ors_server.environments.sources import load_source
from ors_server.model.errors import EnvironmentDefinitionError, UnknownEnvironmentError
from ors_server.testing import check_environment
from ors_server.testing.local_client import open_environment
from tests.clients.conftest import client_python

REPEATING = ("LightsOut", "LogicPuzzle", "Sokoban")
"""Puzzles with so few beginnings that two of 1,000 seeds have the same or nearly the same one."""
WORDS = [
    "apple",
    "beach",
    "chair",
    "dance",
    "eagle",
    "flame",
    "grape",
    "house",
    "igloo",
    "joker",
    "knife",
    "lemon",
    "mango",
    "night",
    "ocean",
]
PLANNED = [
    "Crosswords-v0",
    "FrozenLake-v0-random",
    "Mastermind-v0",
    "Secretary-v0",
    "Sudoku-v0-easy",
    "TowerOfHanoi-v0",
]
TWO_OF_THEM = ("FrozenLake-v0-random", "Mastermind-v0")
"""Games of one move after another and of guesses, which an ordinary run plays."""

pytestmark = [pytest.mark.external, pytest.mark.timeout(600)]


@pytest.fixture(scope="module", autouse=True)
def _interpreter(tmp_path_factory):
    """The Python that has textarena, and words in the form of nltk's data, which it reads."""
    data = tmp_path_factory.mktemp("nltk")
    for name in ("en", "en-basic"):
        (data / "corpora" / "words").mkdir(parents=True, exist_ok=True)
        (data / "corpora" / "words" / name).write_text("\n".join(WORDS), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PACKAGE.variable, str(client_python("textarena")))
        patch.setenv("NLTK_DATA", str(data))
        yield


@pytest.fixture(scope="module")
def number(_interpreter):
    return load_source("textarena").load("GuessTheNumber-v0")


async def play(client, index, *actions):
    """Plays actions until the game ends; gives the last output and the return."""
    session = await client.create(split="train", index=index)
    try:
        for action in actions:
            output = await session.submit("act", {"action": action})
            if output.finished:
                break
        return output, (await session.summary()).episode_return
    finally:
        await session.aclose()


def plan(environment, index):
    task = environment.get_task("train", index)
    return [arguments["action"] for _, arguments in environment.gold_actions(task)]


def test_the_names_are_games_of_the_package():
    assert len(GAMES) == len(set(GAMES)) == 68
    assert set(BROKEN) < set(GAMES)


async def test_a_game_pays_its_own_reward_and_its_words_are_the_prompt(number):
    (secret,) = (int(action.strip("[]")) for action in plan(number, 3))
    async with open_environment(number) as client:
        session = await client.create(split="train", index=3)
        prompt = await session.prompt()
        assert "You are playing Guess The Number" in prompt
        assert f"[{secret}]" not in prompt
        wrong = 1 if secret > 1 else 2
        hint = await session.call("act", action=f"I guess [{wrong}]")
        assert hint.blocks[0].text == f"The target number is {'higher' if secret > wrong else 'lower'}."
        assert (hint.reward, hint.finished) == (None, False)
        last = await session.call("act", action=f"[{secret}]")
        assert (last.reward, last.finished) == (1.0, True)
        assert "You guessed the correct number" in last.blocks[0].text
        assert (await session.summary()).episode_return == 1.0
        await session.aclose()


async def test_the_same_seed_is_the_same_game_and_others_differ(number):
    secrets = [plan(number, index)[0] for index in range(20)]
    assert len(set(secrets)) > 5
    async with open_environment(number) as client:
        for _ in range(2):
            for index in (0, 7):
                output, _ = await play(client, index, secrets[index])
                assert output.reward == 1.0


async def test_near_misses_and_nonsense_earn_what_the_game_says(number):
    secret = plan(number, 0)[0]
    async with open_environment(number) as client:
        for nonsense in ("nothing", secret.strip("[]"), "[]", f"[{secret}", "[99]", "[[-1]]"):
            output, total = await play(client, 0, nonsense, nonsense)
            if nonsense.endswith(secret):  # the brackets are there
                assert total == 1.0
            else:
                assert (output.finished, total) == (True, 0.0)
                assert "Invalid" in output.blocks[0].text


@pytest.mark.parametrize(
    "game",
    [game if game in TWO_OF_THEM else pytest.param(game, marks=pytest.mark.stress) for game in PLANNED],
)
async def test_plans_win(game):
    environment = from_textarena(game, train_tasks=40, test_tasks=0)
    async with open_environment(environment) as client:
        for index in {0, 25 % len(environment.get_task_range("train"))}:
            output, total = await play(client, index, *plan(environment, index))
            assert (output.finished, total) == (True, 1.0)


def test_a_game_that_shows_everything_has_as_many_tasks_as_begin_differently():
    tower = from_textarena("TowerOfHanoi-v0")
    assert [(split.name, tower.num_tasks(split.name)) for split in tower.list_splits()] == [("train", 1)]
    lake = from_textarena("FrozenLake-v0")
    assert {split.name: lake.num_tasks(split.name) for split in lake.list_splits()} == {
        "train": 303,
        "test": 30,
    }
    for environment in (tower, lake):
        report = check_environment(environment, only=["splits-are-disjoint", "tasks-are-distinct"])
        assert [verdict.outcome for verdict in report.verdicts] == ["pass", "pass"], report


async def test_games_of_words_read_them_from_the_disk():
    wordle = from_textarena("Hangman-v0")
    word = plan(wordle, 0)[0].strip("[]").lower()
    assert word in WORDS
    async with open_environment(wordle) as client:
        assert (await play(client, 0, f"[{word}]"))[1] == 1.0


@pytest.mark.parametrize("game", [name for name in GAMES if name.startswith(WORD_GAMES)][:2])
def test_missing_words_are_named_with_the_command_that_installs_them(game, monkeypatch, tmp_path):
    monkeypatch.setenv("NLTK_DATA", str(tmp_path))
    with pytest.raises(EnvironmentDefinitionError, match=r"needs nltk's words; run .*nltk.downloader words"):
        from_textarena(game)


async def test_an_action_that_breaks_the_game_ends_it_with_its_least_reward():
    countdown = load_source("textarena").load("Countdown-v0", is_forced=True)
    async with open_environment(countdown) as client:
        output, total = await play(client, 0, *["nonsense"] * 4)
        assert (output.finished, output.reward, total) == (True, 0.0, 0.0)
        assert "for a reward" in output.metadata["broke_the_game"]


async def test_random_texts_never_break_the_server_or_leave_the_range():
    environment = from_textarena("Bandit-v0")
    randoms = random.Random(1)  # noqa: S311
    async with open_environment(environment) as client:
        for index in range(30):
            text = "".join(chr(randoms.choice([91, 93, 48, 32, 10, 0x202E, 0x1F600])) for _ in range(40))
            output, total = await play(client, index, *[text] * 60)
            assert output.finished
            assert -1.0 <= total <= 1.0


async def test_a_saved_game_goes_on_in_another_session(number):
    secret = plan(number, 5)[0]
    async with open_environment(number) as client:
        session = await client.create(split="train", index=5)
        await session.call("act", action="[1]" if secret != "[1]" else "[2]")
        (fork,) = await session.fork(1)
        assert (await fork.submit("act", {"action": secret})).reward == 1.0
        assert (await session.submit("act", {"action": secret})).reward == 1.0
        await fork.aclose()
        await session.aclose()


async def test_long_actions_are_refused(number):
    async with open_environment(number) as client:
        session = await client.create(split="train", index=0)
        refused = await session.submit("act", {"action": "1" * 4001})
        assert "4,001 characters; at most 4,000" in refused.blocks[0].text
        assert (refused.reward, refused.finished) == (None, False)
        await session.aclose()


def test_other_names_and_splits_without_tasks_are_refused():
    with pytest.raises(UnknownEnvironmentError, match="the nearest are Wordle-v0"):
        from_textarena("Wordl-v0")
    with pytest.raises(EnvironmentDefinitionError, match="is listed as broken: an invalid move earns a text"):
        textarena_games.SOURCE.load("Slitherlink-v0")
    with pytest.raises(EnvironmentDefinitionError, match="expected at least one task, got train_tasks=0"):
        from_textarena("FrozenLake-v0", train_tasks=0, test_tasks=0)


def test_passes_the_checks(number):
    report = check_environment(number, tasks_per_split=1)
    assert [verdict for verdict in report.verdicts if verdict.outcome == "fail"] == []


@pytest.mark.stress
@pytest.mark.parametrize(
    "game", [name for name in GAMES if name not in BROKEN and not name.startswith(WORD_GAMES)]
)
def test_every_game_passes_the_checks(game):
    report = check_environment(from_textarena(game))
    failed = {verdict.check.id for verdict in report.verdicts if verdict.outcome == "fail"}
    assert failed <= ({"tasks-are-distinct", "splits-are-unlike"} if game.startswith(REPEATING) else set())
