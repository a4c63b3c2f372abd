"""The main paths of the console in Firefox: every page opens, follows and is steered without a complaint."""

import pytest

from tests.clients.test_console_in_chromium import ERRORS, PAGES, append
from tests.fixtures import console_record as made
from tests.fixtures.console_browser import OVERFLOW, run_apart, serving
from tests.fixtures.firefox import firefox
from tests.unit.console.conftest import KEYS

pytestmark = pytest.mark.timeout(300)
"""Seconds: starting a browser with a new profile takes long on a busy machine."""
SIGN_IN = """\
document.querySelector('[name=key]').value = '%s';
document.querySelector('main form').requestSubmit()"""


@pytest.fixture(scope="module")
def console():
    with serving(api_keys=KEYS) as served:
        yield served


@pytest.fixture(scope="module")
def page(console):
    """A tab in which somebody has signed in, after a key that is wrong."""
    server, ids, _ = console
    with firefox(server.url) as opened:
        opened.open(f"/console/episodes/{ids['shell']}")
        assert "/console/sign-in?next=" in opened.evaluate("location.href")
        opened.follow(SIGN_IN % "wrong-key-0123456789")
        assert "does not know this key" in opened.evaluate("document.querySelector('[role=alert]').innerText")
        opened.follow(SIGN_IN % "trainer-key-0123456789")
        assert opened.evaluate("[location.pathname, document.cookie]") == [
            f"/console/episodes/{ids['shell']}",
            "",
        ]
        yield opened


def test_every_page_opens_at_both_widths_without_a_complaint(console, page):
    for path in (PAGES | ERRORS).values():
        page.complaints.clear()
        page.resize(1280)
        page.open(path.format_map(console[1]))
        assert page.evaluate(f"[document.querySelectorAll('h1').length, Math.max(0, {OVERFLOW})]") == [1, 0]
        page.resize(390)
        assert page.evaluate(OVERFLOW) <= 0, f"{path} scrolls sideways"
        assert page.complaints == []
    page.resize(1280)


def test_charts_are_drawn(page):
    page.open(PAGES["compared runs"])
    page.wait_for("document.querySelectorAll('[data-chart] canvas').length > 1")
    assert page.evaluate("Boolean(document.querySelector('[data-chart] ~ details table'))")


def test_a_live_episode_grows_in_place_and_ends(console, page):
    _, _, store = console
    later = made.origin("firefox", created_at=made.BEGINNING)
    run_apart(lambda: made.write(store, later, made.SHELL_STEPS[:3], stop_reason=None))
    page.complaints.clear()
    page.open(f"/console/episodes/{later.episode_id}")
    page.wait_for("document.querySelector('#connection').innerText === 'Live'")
    page.evaluate("window.untouched = true")
    append(store, later.episode_id, made.SHELL_STEPS[3], "deleted")
    page.wait_for("document.querySelector('#connection').innerText === 'Ended'")
    assert page.evaluate("[document.querySelectorAll('#list > li').length, window.untouched]") == [4, True]
    assert page.complaints == []


def test_a_list_is_filtered_and_an_episode_is_read_by_keys(console, page):
    page.open("/console/episodes")
    page.follow(
        "document.querySelector('#filter').value = 'environment=shell';"
        "document.querySelector('#filter').form.requestSubmit()"
    )
    assert page.evaluate("location.search") == "?environment=shell"
    page.open(f"/console/episodes/{console[1]['shell']}")
    page.press("jj")
    assert page.evaluate("document.activeElement.closest('li').id") == "s2"
    page.press("n")
    assert page.evaluate("document.activeElement.closest('li').id") == "s5"


def test_a_question_is_played_by_hand_and_somebody_signs_out(page):
    page.open("/console/environments/qa")
    page.follow("document.querySelector('form.start').requestSubmit()")
    assert page.evaluate("location.pathname").startswith("/console/play/")
    page.follow(
        "const form = document.querySelector('.tool-form form');"
        "form.querySelector('.field input, .field textarea').value = 'I do not know'; form.requestSubmit()"
    )
    assert page.evaluate("document.querySelectorAll('#list > li').length") == 1
    assert "I do not know" in page.evaluate("document.querySelector('#s1').innerText")
    page.follow("document.querySelector(\"form[action$='/sign-out']\").requestSubmit()")
    assert page.evaluate("location.pathname") == "/console/sign-in"
    page.open("/console")
    assert "/console/sign-in?next=" in page.evaluate("location.href")
