"""The reports in a real browser: nothing is asked of any network, nothing fails, everything can be seen."""

import importlib
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ors_server.evaluation.attempt_transcripts import Transcript, TranscriptStep
from ors_server.evaluation.report.comparison_page import comparison_report
from ors_server.evaluation.report.page import run_report
from ors_server.evaluation.resampling import Resampling
from ors_server.evaluation.run_comparison import compare
from ors_server.evaluation.run_figures import summarise
from ors_server.evaluation.summary import FigureOptions
from tests.fixtures.console_browser import OVERFLOW
from tests.fixtures.made_runs import make_lively, make_outcome

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHROMIUM = os.environ.get("ORS_TEST_CHROMIUM", "/usr/bin/chromium")
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
LIMIT = 10_000
"""Milliseconds that the browser may take for anything."""
TASKS, ATTEMPTS = 30, 4
READING = FigureOptions(resampling=Resampling(200))


class Watched:
    """A page, what it complained about, and what it asked for."""

    def __init__(self, page: "Page") -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.set_default_timeout(LIMIT)
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def open(self, path: Path, fragment: str = "", *, has_script: bool = True) -> "Page":
        self.requests.clear()
        self.page.goto("about:blank")
        self.page.goto(f"{path.as_uri()}{fragment}")
        if has_script:  # tables count their rows when they have unpacked them
            counts = "[...document.querySelectorAll('.told')].map((told) => told.textContent)"
            self.page.wait_for_function(f"{counts}.every(Boolean)")
        return self.page

    def check(self, path: Path) -> None:
        asked = {url.partition("#")[0] for url in self.requests if not url.startswith(("about:", "data:"))}
        assert asked == {path.as_uri()}
        assert self.complaints == []


@pytest.fixture(scope="module")
def browser():
    assert Path(CHROMIUM).exists(), f"the report is tried in a real browser: install {CHROMIUM}"
    api = importlib.import_module("playwright.sync_api")  # only by the process that runs these tests
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def outcome():
    return make_lively(TASKS, ATTEMPTS)


@pytest.fixture(scope="module")
def report(outcome, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(run_report(summarise(outcome, READING), outcome), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def comparison(outcome, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "comparison.html"
    second = make_lively(TASKS, ATTEMPTS, seed=2, skill=0.2, run_id="run-b")
    path.write_text(comparison_report(compare(outcome, second, READING)), encoding="utf-8")
    return path


@pytest.fixture
def watched(browser):
    context = browser.new_context(viewport={"width": 1280, "height": 1600})
    yield Watched(context.new_page())
    context.close()


def cells(page, table, column):
    return page.locator(f"#{table} tbody tr td:nth-child({column})").all_inner_texts()


def boxes(page, selector):
    return page.eval_on_selector_all(
        selector, "all => all.map(one => one.getBoundingClientRect()).map(box => [box.width, box.height])"
    )


PAINTED = """() => [...document.querySelectorAll(".canvas canvas")].filter((canvas) => {
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    return new Set(new Uint32Array(pixels.buffer)).size > 3;
}).length"""
"""Number of charts with more than a background."""


def test_every_plot_can_be_seen_and_nothing_is_asked_for(watched, report, tmp_path):
    page = watched.open(report)
    plots = page.locator("figure")
    assert plots.count() == 9
    for plot in plots.all():
        box = plot.locator(".canvas canvas").bounding_box()
        assert box["width"] > 300
        assert box["height"] > 80
    assert page.evaluate(PAINTED) == 9
    page.screenshot(path=tmp_path / "report.png", full_page=True)
    assert (tmp_path / "report.png").stat().st_size > 50_000
    watched.check(report)


@pytest.fixture(scope="module")
def full_report(outcome, tmp_path_factory):
    """A report whose attempts have a value in every column, and whose figures are long numbers."""
    attempts = [
        replace(
            attempt,
            tokens_in=123_456_789,
            cost=0.0087654 + number / 1000,
            penalties=-0.25,
            episode_id=f"{number:032x}",
            error=None if attempt.error is None else f"{attempt.error} {'and what followed ' * 20}",
        )
        for number, attempt in enumerate(outcome.attempts)
    ]
    longer = replace(outcome, attempts=tuple(attempts))
    transcripts = [Transcript(attempts[0], "Count.", (), 0)]
    path = tmp_path_factory.mktemp("report") / "full.html"
    path.write_text(run_report(summarise(longer, READING), longer, transcripts), encoding="utf-8")
    return path


def test_no_table_is_wider_than_a_page_of_1280_pixels(watched, full_report):
    page = watched.open(full_report)
    headings = page.locator("#attempts th").all_inner_texts()
    assert {"penalties", "tokens", "cost", "episode", "transcript", "error"} <= set(headings)
    widths = page.eval_on_selector_all(
        "#tasks .scroll, #attempts .scroll", "all => all.map(one => [one.scrollWidth, one.clientWidth])"
    )
    assert [wide <= shown for wide, shown in widths] == [True, True], widths


def test_columns_that_no_attempt_has_a_value_for_are_left_out(watched, report):
    headings = watched.open(report).locator("#attempts th").all_inner_texts()
    assert "transcript" not in headings
    assert "status" in headings


def test_a_narrow_page_does_not_scroll_sideways(browser, full_report):
    page = browser.new_context(viewport={"width": 320, "height": 900}).new_page()
    page.goto(full_report.as_uri())
    assert page.evaluate(OVERFLOW) == 0
    page.context.close()


@pytest.mark.parametrize("width", [390, 1280])
def test_each_headline_number_is_on_one_line_in_its_tile(browser, full_report, width):
    page = browser.new_context(viewport={"width": width, "height": 900}).new_page()
    page.goto(full_report.as_uri())
    tiles = page.eval_on_selector_all(
        ".tile",
        """all => all.map(one => {
            const value = one.querySelector(".value");
            const range = document.createRange();
            range.selectNodeContents(value);
            const text = range.getBoundingClientRect();
            const style = getComputedStyle(value);
            return [value.innerText, text.height < 1.9 * parseFloat(style.fontSize),
                    text.right <= one.getBoundingClientRect().right - 8];
        })""",
    )
    assert len(tiles) == 8
    assert [tile for tile in tiles if tile[1:] != [True, True]] == []
    page.context.close()


def test_attempts_are_filtered_sorted_and_paged(watched, report, outcome):
    page = watched.open(report)
    table = page.locator("#attempts")
    assert len(cells(page, "attempts", 1)) == 50
    assert table.locator(".told").inner_text() == "1-50 of 120"
    table.get_by_role("button", name="Next").click()
    table.get_by_role("button", name="Next").click()
    assert table.locator(".told").inner_text() == "101-120 of 120"
    assert table.get_by_role("button", name="Next").is_disabled()
    table.get_by_role("button", name="return", exact=True).click()
    shown = [float(text) for text in cells(page, "attempts", 4)]
    assert shown == sorted(shown)
    table.get_by_role("button", name="return", exact=True).click()
    assert float(cells(page, "attempts", 4)[0]) == max(one.episode_return or 0 for one in outcome.attempts)
    assert table.locator("th[aria-sort=descending]").count() == 1
    table.get_by_role("combobox").select_option("errored")
    assert set(cells(page, "attempts", 3)) == {"errored"}
    table.get_by_role("combobox").select_option("")
    table.get_by_role("searchbox").fill("test/3")
    assert set(cells(page, "attempts", 1)) == {"test/3"}
    assert table.locator(".told").inner_text() == "1-4 of 4 (of 120)"
    table.get_by_role("searchbox").fill("nothing like it")
    assert table.locator(".told").inner_text() == "none (of 120)"
    watched.check(report)


def test_a_task_leads_to_its_attempts_and_an_address_to_its_row(watched, report, outcome):
    page = watched.open(report)
    page.locator("#tasks").get_by_role("link", name="test/7", exact=True).click()
    page.wait_for_function("document.querySelectorAll('#attempts tbody tr').length === 4")
    assert set(cells(page, "attempts", 1)) == {"test/7"}
    last = outcome.attempts[-1]
    name = f"attempt:{last.split}/{last.index}/{last.attempt}"
    page = watched.open(report, f"#{name}")
    assert page.locator("tr.target").get_attribute("id") == name
    assert page.locator("tr.target").is_visible()
    watched.check(report)


def test_marks_tell_what_they_stand_for(watched, report):
    page = watched.open(report)
    chart = page.locator("#plot-stop-reasons .canvas")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)
    chart.get_by_text("completed:").wait_for()


def test_dark_is_dark_by_the_system_and_by_the_button(browser, watched, report):
    paper = "getComputedStyle(document.body).backgroundColor"
    page = watched.open(report)
    light = page.evaluate(paper)
    page.locator("#theme").click()
    dark = page.evaluate(paper)
    assert light != dark
    context = browser.new_context(color_scheme="dark")
    by_system = Watched(context.new_page()).open(report)
    assert by_system.evaluate(paper) == dark
    context.close()
    watched.check(report)


def test_without_script_the_plots_and_the_first_rows_are_there(browser, report):
    context = browser.new_context(java_script_enabled=False)
    page = Watched(context.new_page()).open(report, has_script=False)
    assert page.locator("figure .canvas:visible").count() == 0
    page.locator("#plot-task-returns summary").click()
    assert page.locator("#plot-task-returns tbody tr:visible").count() == TASKS
    assert page.locator("#attempts tbody tr").count() == 50
    assert page.locator("#attempts input").is_hidden()
    assert page.locator("#theme").is_hidden()
    context.close()


def test_a_comparison_can_be_seen_and_asks_for_nothing(watched, comparison):
    page = watched.open(comparison)
    assert page.locator(".canvas canvas").count() == page.evaluate(PAINTED) == 3
    assert all(
        box["width"] > 300 for box in (one.bounding_box() for one in page.locator(".canvas canvas").all())
    )
    changes = [abs(float(text)) for text in cells(page, "tasks", 2)]
    assert len(changes) == TASKS
    assert changes == sorted(changes, reverse=True)
    page.locator("#tasks").get_by_role("button", name="difference").click()
    shown = [float(text) for text in cells(page, "tasks", 2)]
    assert shown == sorted(shown)
    watched.check(comparison)


def test_what_a_run_was_asked_for_is_no_json(watched, tmp_path):
    path = tmp_path / "report.html"
    options = {
        "target": "qa",
        "limit": 4,
        "steps": 30,
        "agent_options": {"top_p": 0.5},
        "policy": {"emit": "final"},
    }
    outcome = make_outcome([[1.0, 0.0]], config={"options": options, "tags": ["a", "b"], "empty": {}})
    path.write_text(run_report(summarise(outcome, READING), outcome), encoding="utf-8")
    page = watched.open(path)
    told = dict(
        zip(page.locator("#run dt").all_inner_texts(), page.locator("#run dd").all_inner_texts(), strict=True)
    )
    assert told["most tasks"] == "4"
    assert told["budget of an attempt: tool calls"] == "30"
    assert told["agent option: top_p"] == "0.5"
    assert told["policy: emit"] == "final"
    assert told["tags"] == "a, b"
    assert not any("{" in value for value in told.values())


def test_transcripts_are_opened_from_the_attempts_and_obey_nobody(watched, tmp_path):
    path = tmp_path / "report.html"
    outcome = make_outcome([[1.0, 0.0], [None, 1.0]])
    hostile = "</pre><script>alert(1)</script>\u202eturned\x1b[2J"
    step = TranscriptStep(1, "submit<b>", '{"answer": "</details>"}', hostile, "completed, reward 0.5")
    shown = [Transcript(one, f"Prompt of {one.index}", (step,), 3) for one in outcome.attempts[:3]]
    path.write_text(run_report(summarise(outcome, READING), outcome, shown), encoding="utf-8")
    page = watched.open(path)
    assert page.locator("#attempts tbody a[href^='#transcript:']").count() == 3
    closed = page.locator("#transcripts details")
    assert closed.count() == 3
    assert not closed.first.locator("pre").first.is_visible()
    page.locator("#attempts tbody a[href^='#transcript:']").first.click()
    opened = page.locator("#transcripts details[open]")
    assert opened.count() == 1
    words = opened.inner_text()
    assert "</pre><script>alert(1)</script>\\u202eturned\\x1b[2J" in words
    assert "3 more steps not shown." in words
    watched.check(path)
    page.locator("#attempts input").fill("nothing like that")
    assert page.locator("#attempts tbody tr").count() == 0


def test_a_report_without_transcripts_says_how_to_read_them(watched, report):
    page = watched.open(report)
    assert "ors-server episodes show EPISODE" in page.locator("#transcripts").inner_text()
