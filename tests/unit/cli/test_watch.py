"""`watch`: a run that is played for real, with a trouble or without, from a store and from a server."""

import json

import anyio
import anyio.lowlevel
import pytest

from ors_server import Environment, Split, TextBlock, ToolOutput, create_app, tool
from ors_server.alarms.watched_runs import POLL_SECONDS, AlarmBook, RunReader
from ors_server.cli.main import main
from ors_server.model.settings import Settings
from ors_server.testing import FakeClock


class Quiz(Environment):
    """A task that pays what the agent says, or nothing at all."""

    @classmethod
    def list_splits(cls):
        return [Split(name="train", type="train")]

    @classmethod
    def list_tasks(cls, split):
        return [{"number": number} for number in range(20)]

    def get_prompt(self):
        return [TextBlock(text="Say a number.")]

    @tool
    def say(self, reward: float | None = None) -> ToolOutput:
        """End the episode."""
        return ToolOutput(blocks=[TextBlock(text="ok")], reward=reward, finished=True)


async def play(client, run, rewards, **labels):
    for number, reward in enumerate(rewards):
        place = {"split": "train", "index": number % 20, "labels": {"run": run, **labels}}
        async with client.episode("quiz", **place) as episode:
            await episode.call("say", {"reward": reward})


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    """A record with two runs: one is well, in the other every third episode has no grade."""
    path = tmp_path_factory.mktemp("watch") / "episodes.db"

    async def make():
        app = create_app([Quiz], Settings(store=str(path)))
        async with app.running():
            client = app.client()
            await play(client, "well", [float(number % 3 > 0) for number in range(100)])
            await play(client, "ill", [None if number % 3 == 0 else 1.0 for number in range(100)])

    anyio.run(make)
    return path


def test_a_run_that_is_well_ends_with_status_0(record, capfd):
    assert main(["watch", "--run", "well", "--once", "--store", str(record)]) == 0
    out, err = capfd.readouterr()
    assert (out, err) == ("", "ors-server: 100 ended episodes of the run 'well', no alarm\n")


def test_an_alarm_is_explained_and_ends_with_status_1(record, capfd):
    assert main(["watch", "--run", "ill", "--once", "--store", str(record)]) == 1
    lines = capfd.readouterr().out.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("ungraded: "))
    assert lines[start] == "ungraded: Episodes without a grade (after 80 ended episodes)"
    assert lines[start + 1] == "  ungraded episodes / episodes in W > 0.05: 0.338, threshold 0.05"
    assert lines[start + 2].startswith("  look at ")


def test_json_has_every_figure_of_an_alarm(record, capfd):
    words = ["watch", "--run", "ill", "--once", "--json", "--store", str(record)]
    assert main(words) == 1
    alarms = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    alarm = next(alarm for alarm in alarms if alarm["alarm"] == "ungraded")
    assert alarm["run"] == "ill"
    assert alarm["since"] == 80
    assert alarm["value"] == pytest.approx(27 / 80)
    assert len(alarm["episodes"]) == 5


def test_thresholds_and_alarms_to_ignore_decide(record, capfd):
    words = ["watch", "--run", "ill", "--once", "--store", str(record)]
    assert main([*words, "--ignore", "ungraded"]) == 0
    assert main([*words, "--threshold", "ungraded=0.4"]) == 0
    capfd.readouterr()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--threshold", "ungraded"], "expected NAME=NUMBER, got 'ungraded'"),
        (["--threshold", "nothing=1"], "expected a threshold of window"),
        (
            ["--threshold", "window=-3"],
            "a whole number above 0 and up to 100,000 for window, got -3",
        ),
        (["--threshold", "window=inf"], "expected a whole number above 0"),
        (["--threshold", "look_every=0.5"], "expected a whole number above 0"),
        (["--threshold", "jump=nan"], "expected a number above 0"),
        (["--success-at", "nan"], "--success-at: expected a number, got nan"),
        (["--ignore", "nothing"], "expected one of dead-groups"),
        (["--baseline", "none"], "expected at least 50 ended episodes of the run 'none', got 0"),
    ],
)
def test_mistakes_name_what_was_expected(record, capfd, words, message):
    assert main(["watch", "--run", "ill", "--once", "--store", str(record), *words]) == 2
    assert message in capfd.readouterr().err


async def test_episodes_that_end_in_another_order_are_each_read_once(tmp_path):
    app = create_app([Quiz], Settings(store=str(tmp_path / "episodes.db")))
    async with app.running():
        client = app.client()
        reader = RunReader(app.manager.services.store, "r")

        async def poll():
            return [facts.episode_return async for facts in reader.poll()]

        assert await poll() == []
        async with client.episode("quiz", split="train", index=0, labels={"run": "r"}) as first:
            async with client.episode("quiz", split="train", index=1, labels={"run": "r"}) as second:
                assert await poll() == []
                await second.call("say", {"reward": 2.0})
            assert await poll() == [2.0]
            assert await poll() == []
            await first.call("say", {"reward": 1.0})
        assert await poll() == [1.0]
        await play(client, "other", [3.0])
        assert await poll() == []


async def test_a_book_keeps_the_runs_that_were_asked_for_last(tmp_path):
    app = create_app([Quiz], Settings(store="memory"))
    async with app.running():
        book = AlarmBook(app.manager.services.store)
        await play(app.client(), "ill", [None if number % 3 == 0 else 1.0 for number in range(100)])
        opened, _ = await book.of("ill").update()
        assert "ungraded" in {alarm.name for alarm in opened}
        assert await book.of("ill").update() == ([], [])
        assert {run for run, _ in book.open} == {"ill"}
        for number in range(40):
            book.of(f"run-{number}")
        assert book.open == []


@pytest.mark.parametrize("where", [["--url", "http://127.0.0.1:1"], ["--store", "plain"]])
def test_a_record_that_cannot_be_read_is_no_alarm(tmp_path, monkeypatch, capfd, where):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain").write_text("no database")
    assert main(["watch", "--run", "r", "--once", *where]) == 2
    assert capfd.readouterr().err


async def test_a_label_of_many_digits_names_no_step_and_one_run_does_not_end_the_watch(caplog):
    app = create_app([Quiz], Settings(store="memory"))
    async with app.running():
        client = app.client()
        await play(client, "digits", [1.0], step="9" * 200)
        book = AlarmBook(app.manager.services.store)
        assert (await book.update("digits")).alarms.episodes == 1
        await play(client, "ill", [None if number % 3 == 0 else 1.0 for number in range(100)])
        await book.update("ill")
    assert sum("alarm_opened" in record.getMessage() for record in caplog.records) >= 1


async def test_questions_about_other_runs_close_no_alarm_of_an_active_one():
    app = create_app([Quiz], Settings(store="memory"))
    clock = FakeClock()
    async with app.running(), anyio.create_task_group() as tasks:
        book = AlarmBook(app.manager.services.store)
        await play(app.client(), "ill", [None if number % 3 == 0 else 1.0 for number in range(100)])
        tasks.start_soon(book.watch, app.manager.services.meters.ended_by_run, clock)
        await clock.until_sleeping()
        await clock.advance(POLL_SECONDS)
        with anyio.fail_after(30):
            while not book.open:
                await anyio.lowlevel.checkpoint()
        for number in range(80):
            await book.update(f"odd-{number}")
        assert {run for run, _ in book.open} == {"ill"}
        tasks.cancel_scope.cancel()
