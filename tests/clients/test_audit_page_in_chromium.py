"""The page of an audit in a real browser: it fits, and nothing is asked of any network."""

import importlib
import os
from pathlib import Path

import pytest

from ors_server.audit.audit_page import page_of
from tests.clients.test_report_in_chromium import Watched
from tests.fixtures.made_audit import make_audit

CHROMIUM = os.environ.get("ORS_TEST_CHROMIUM", "/usr/bin/chromium")
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
WIDTH = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def browser():
    assert Path(CHROMIUM).exists(), f"the page is tried in a real browser: install {CHROMIUM}"
    api = importlib.import_module("playwright.sync_api")  # only by the process that runs these tests
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def audit_page(tmp_path_factory):
    path = tmp_path_factory.mktemp("audit") / "audit.html"
    path.write_text(page_of(make_audit()), encoding="utf-8")
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_fits_and_every_failure_can_be_seen(browser, audit_page, tmp_path, width, scheme):
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    watched = Watched(context.new_page())
    page = watched.open(audit_page)
    assert page.evaluate(WIDTH) == 0
    for one in make_audit().failed:
        card = page.locator(f"#failures #{one.id}")
        assert card.is_visible()
        box = card.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        assert one.title in card.inner_text()
    is_dark = page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
    assert is_dark == (scheme == "dark")
    page.locator("details").first.evaluate("one => { one.open = true; }")
    assert page.evaluate(WIDTH) == 0
    page.screenshot(path=tmp_path / "audit.png", full_page=True)
    watched.check(audit_page)
    context.close()


def test_without_script_everything_is_there(browser, audit_page):
    context = browser.new_context(java_script_enabled=False)
    page = Watched(context.new_page()).open(audit_page)
    assert page.locator("#verdicts tbody tr").count() == len(make_audit().classes)
    assert page.locator("#failures article").count() == 3
    assert page.locator("#warnings article").count() == 2
    assert page.locator("#theme").is_hidden()
    context.close()


def test_a_verdict_leads_to_its_failure(browser, audit_page):
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    watched = Watched(context.new_page())
    page = watched.open(audit_page)
    page.locator("#verdicts a[href='#H11']").click()
    assert page.locator("#H11").bounding_box()["y"] < 900
    watched.check(audit_page)
    context.close()
