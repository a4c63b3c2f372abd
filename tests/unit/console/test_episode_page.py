"""The page of one episode, from the record to HTML."""

import html
import json
import re
from functools import partial

import anyio
import anyio.lowlevel
import pytest

from ors_server import tool
from ors_server.console.views.episode import STEPS_PER_PAGE, policy_differences, view_step, view_steps
from ors_server.console.views.marks import marks_of, word_of
from ors_server.console.views.texts import INLINE_CHARACTERS, MAX_SPANS, fold
from ors_server.model.trajectory import EpisodeRecord, StepStatus
from tests.fixtures import console_record as made
from tests.fixtures.single_task import SingleTask
from tests.unit.console.conftest import opened


def text_of(spans):
    return "".join(span.text for span in spans)


@pytest.mark.parametrize(
    ("changes", "words", "edge"),
    [
        ({}, "", ""),
        ({"status": StepStatus.REFUSED, "error_code": "not_found"}, "Refused", "w"),
        (
            {"status": StepStatus.REFUSED, "reward": -0.1, "components": {"invalid_call": -0.1}},
            "Refused",
            "b",
        ),
        ({"status": StepStatus.FAILED}, "Failed", "b"),
        ({"status": StepStatus.CANCELLED}, "Cancelled", "w"),
        ({"metadata": {"bash": {"exit_code": 2, "timed_out": False}}}, "Exit 2", "w"),
        ({"metadata": {"python": {"exit_code": None, "timed_out": True}}}, "Timed out", "w"),
        ({"metadata": {"bash": {"exit_code": 0, "timed_out": False}}}, "", ""),
        ({"error_code": "tool_error", "metadata": {"bash": {"exit_code": 1}}}, "Tool error", "w"),
        ({"reward": 0.5}, "", "g"),
        ({"reward": 0.0, "finished": True}, "Ends the episode", ""),
        ({"metadata": {"reward_status": "error"}}, "Not judged", "b"),
    ],
)
def test_a_step_is_marked_by_status_error_and_run(changes, words, edge):
    marks = marks_of(made.step(1, "bash", {}, **changes))
    assert (marks.words, marks.edge) == (words, edge)


def test_long_texts_keep_both_ends():
    text = "".join(f"line {number}\n" for number in range(100))
    folded = fold(text)
    assert text_of(folded.head) == "\n".join(f"line {n}" for n in range(20))
    assert text_of(folded.tail) == "\n".join(f"line {n}" for n in range(80, 100))
    assert (folded.lines, folded.hidden_lines) == (100, 60)
    assert text_of(folded.middle).startswith("line 20\n")
    assert not folded.is_cut
    huge = fold("x" * 100 + ("\n" + "x" * 100) * (INLINE_CHARACTERS // 50))
    assert huge.middle == ()
    assert huge.is_cut


def test_terminal_colours_become_classes_and_nothing_else_acts():
    folded = fold(
        "\x1b[1;31mred\x1b[0m \x1b[38;2;0;200;10mgreen\x1b[0m \x1b[44mback\x1b[0m\x1b[2J\u202e done"
    )
    looks = {span.text: span.style for span in folded.head}
    assert looks["red"] == "a-b a-31"
    assert looks["green"] == "a-32"
    assert looks["back"] == "a-u"
    assert "\\u202e done" in text_of(folded.head)
    assert "\x1b" not in text_of(folded.head)


def test_a_text_of_very_many_colours_has_one():
    folded = fold("".join(f"\x1b[3{n % 7}mx" for n in range(1000)) * 1 + "\n")
    assert len(folded.head) <= MAX_SPANS
    many = fold("\n".join("".join(f"\x1b[3{n % 7}mx" for n in range(300)) for _ in range(40)))
    assert len(many.head) == 1
    assert text_of(many.head).count("x") == 40 * 300


def test_what_was_typed_is_apart_from_the_other_arguments():
    view = view_step(made.step(1, "bash", {"command": "ls", "time_limit": 5}))
    assert (view.sign, text_of(view.typed.head), [a.name for a in view.arguments]) == (
        "$",
        "ls",
        ["time_limit"],
    )
    code = view_step(made.SHELL_STEPS[6]).arguments[1]
    assert code.is_code
    assert any(span.style == "h-k" for span in code.text.head)


def test_an_error_that_repeats_the_output_is_shown_once():
    assert view_step(made.SHELL_STEPS[5]).blocks == ()
    assert view_step(made.CHART_STEPS[0]).blocks[0].text is not None


def test_the_return_so_far_counts_from_the_first_step_only():
    views = view_steps(made.CHART_STEPS)
    assert [view.total for view in views] == [0.1, None, 0.0, None, None]
    assert all(view.total is None for view in view_steps(made.CHART_STEPS[2:]))


@pytest.mark.parametrize(
    ("stop_reason", "steps", "word"),
    [
        ("completed", made.SHELL_STEPS, "Not solved"),
        ("completed", made.SHELL_STEPS[:2], "Ungraded"),
        ("completed", (made.step(1, "submit", {}, reward=1.0),), "Solved"),
        ("step_limit", made.SHELL_STEPS[:2], "Step limit"),
        ("deleted", made.SHELL_STEPS[:2], "Ended early"),
        ("completed", made.CHART_STEPS, "Environment failed"),
        (None, made.SHELL_STEPS[:1], "Live"),
    ],
)
def test_the_word_of_an_episode(stop_reason, steps, word):
    origin = made.origin("word")
    record = EpisodeRecord(origin, made.summary(origin, steps, stop_reason))
    assert word_of(record).word == word


def test_only_rules_that_differ_are_listed():
    origin = made.origin(
        "word", policy={"step_limit": 8, "discount": 1.0, "emit": "final", "call_time_limit": 600.0}
    )
    assert policy_differences(origin.policy) == [("step limit", "8"), ("emit", "final")]


async def test_the_page_has_the_steps_the_strip_and_the_figures(filled):
    client, ids = filled
    page = (await client.get(f"/console/episodes/{ids['shell']}")).text
    assert page.count('<li class="step') == 10
    assert page.count('href="#s') == 30 + 0
    assert "Show 385 more lines of 425 (32 KiB)" in page
    assert "14 passed" in page
    assert "10 steps, 4 marked" in page
    assert "Same task, 5 episodes" in page
    assert '<span class="mark warn">Not solved</span>' in page


async def test_steps_come_a_hundred_at_a_time(filled):
    client, ids = filled
    first = (await client.get(f"/console/episodes/{ids['long']}")).text
    assert first.count('<li class="step') == STEPS_PER_PAGE
    third = (await client.get(f"/console/episodes/{ids['long']}?step=243")).text
    assert re.findall(r'<li class="step [^"]*" id="s(\d+)"', third) == [str(n) for n in range(201, 251)]
    beyond = await client.get(f"/console/episodes/{ids['long']}?step=99999")
    assert (beyond.status_code, beyond.text.count('<li class="step')) == (200, 0)


async def test_an_episode_without_steps_and_one_that_is_unknown(filled):
    client, ids = filled
    page = (await client.get(f"/console/episodes/{ids['bare']}")).text
    assert "No step yet." in page
    assert "The prompt was never requested." not in page or "prompt" in page
    missing = await client.get("/console/episodes/none-such")
    assert missing.status_code == 404
    assert "the store has no episode" in missing.text


async def test_blocks_are_saved_and_only_safe_images_are_shown(filled):
    client, ids = filled
    steps = f"/console/episodes/{ids['chart']}/steps"
    shown = await client.get(f"{steps}/1/blocks/2")
    assert shown.headers["content-type"] == "image/png"
    assert shown.content == made.chart_png()
    svg = await client.get(f"{steps}/4/blocks/1")
    assert svg.headers["content-type"] == "application/octet-stream"
    assert svg.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in svg.headers["content-security-policy"]
    text = await client.get(f"/console/episodes/{ids['shell']}/steps/3/blocks/1")
    assert text.headers["content-disposition"].startswith("attachment")
    assert text.text.count("\n") == 425
    for path in ("/steps/0", "/steps/11", "/steps/x", "/steps/1/blocks/9", "/prompt/9"):
        assert (await client.get(f"/console/episodes/{ids['shell']}{path}")).status_code == 404
    raw = (await client.get(f"/console/episodes/{ids['shell']}/steps/2")).text
    assert "\\u001b[31mFAILED" in raw


async def test_no_text_of_others_becomes_markup(filled):
    """Stored XSS: every field of the record holds a text that tries to leave its place."""
    client, ids = filled
    episode = f"/console/episodes/{ids['hostile']}"
    for path in (
        episode,
        f"{episode}/steps/1",
        f"{episode}/steps/2",
        "/console/episodes",
        f"{episode}?list=a=%3Cscript%3E",
    ):
        page = (await client.get(path)).text
        assert "alert(1)" in page, path
        assert not re.search(r"<(script|img)\b(?! src=\"/console/)", page), path
        assert not re.search(r"\son\w+=", re.sub(r"&lt;.*?&gt;", "", page)), path
        assert "49'\"" not in html.unescape(page), "a template was evaluated"
        assert "\u202e" not in page
        assert "\x1b" not in page


async def test_the_list_a_page_came_from_gives_its_neighbours(filled):
    client, ids = filled
    page = (await client.get(f"/console/episodes/{ids['long']}?list=environment%3Dshell")).text
    following = re.search(r'id="following" href="/console/episodes/(\w+)\?list=environment%3Dshell', page)
    previous = re.search(r'id="previous" href="/console/episodes/(\w+)', page)
    assert following[1] != ids["hostile"]  # which is between them, and of another environment
    assert previous[1] == ids["bare"]


async def test_a_live_episode_is_streamed_as_it_is_shown(filled):
    client, ids = filled
    store = client.app.manager.services.store
    steps = made.SHELL_STEPS[:4]
    origin = (await store.find(ids["live"])).origin
    await store.append(ids["live"], steps[3], partial(made.summary, origin, steps, None))
    await store.close(ids["live"], made.summary(origin, steps))
    answer = await client.get(f"/console/episodes/{ids['live']}/events?after=3")
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = re.findall(r"event: (\w+)\ndata: (.*)\n", answer.text)
    assert [name for name, _ in events] == ["step", "summary", "end"]
    step = json.loads(events[0][1])
    assert step["number"] == 4
    assert 'id="s4"' in step["step"]
    assert "git status --short" in step["outline"]
    assert "Ungraded after 4 steps" in json.loads(events[1][1])["end"]


async def test_a_call_that_runs_is_on_the_page_until_its_step_is():
    released = anyio.Event()

    class Slow(SingleTask):
        name = "slow"

        @tool
        async def wait(self, command: str, minutes: int) -> str:
            """Waits."""
            await released.wait()
            return command

    async with opened(environment=Slow) as client, anyio.create_task_group() as tasks:
        created = (await client.post("/_ors/sessions", json={"split": "train", "index": 0})).json()
        calls = f"/_ors/sessions/{created['session_id']}"
        call = {"name": "wait", "arguments": {"command": "sleep <b>", "minutes": 7}}
        tasks.start_soon(partial(client.post, f"{calls}/calls", json=call))
        address = f"/console/episodes/{created['session_id']}"
        with anyio.fail_after(20):
            while "step running" not in (page := (await client.get(address)).text):
                await anyio.lowlevel.checkpoint()
        assert "sleep &lt;b&gt;" in page
        assert 'id="s1"' not in page
        pieces = []

        async def note(message):
            pieces.append(message.get("body", b"").decode())
            if "event: running" in pieces[-1]:
                released.set()
            if "event: step" in pieces[-1]:
                tasks.start_soon(client.delete, calls)

        scope = {"type": "http", "method": "GET", "path": f"{address}/events", "query_string": b"after=0"}
        scope |= {"headers": [(b"host", b"localhost:8080")], "http_version": "1.1", "scheme": "http"}
        with anyio.fail_after(20):
            await client.app(scope, anyio.Event().wait, note)
    events = re.findall(r"event: (\w+)\ndata: (.*)\n", "".join(pieces))
    names = [name for name, _ in events]
    cards = [json.loads(data)["html"] for name, data in events if name == "running"]
    assert "sleep &lt;b&gt;" in cards[0]
    assert names.index("running") < names.index("step")
    assert names[-1] == "end"


async def test_a_live_session_is_ended_from_its_page(filled):
    client, _ = filled
    created = (await client.post("/_ors/sessions", json={"split": "train", "index": 0})).json()
    page = (await client.get(f"/console/episodes/{created['session_id']}")).text
    token = re.search(r'name="csrf" value="([^"]+)"', page)[1]
    path = re.search(r'action="(/console/episodes/\w+/end)"', page)[1]
    answer = await client.post(path, data={"csrf": token}, headers={"origin": "http://localhost:8080"})
    assert answer.status_code == 303
    gone = (await client.get(answer.headers["location"])).text
    assert "Ended early" in gone
    assert "End the session" not in gone
