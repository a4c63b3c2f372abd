"""The page of a run as text: it needs nothing, runs nothing that it did not bring, and bounds its size."""

import gzip
import json
import re
from base64 import b64decode, b64encode
from hashlib import sha256
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ors_server.audit.audit_page import _element as element
from ors_server.charts.chart import LIBRARY, chart_asset, ticks, widened
from ors_server.evaluation.intervals import Interval
from ors_server.evaluation.number_format import measured
from ors_server.evaluation.report import long_table as report_rows
from ors_server.evaluation.report.comparison_page import comparison_report
from ors_server.evaluation.report.page import run_report
from ors_server.evaluation.report.plots import (
    MAX_TASKS,
    histogram,
    returns_by_task,
    running_mean,
    running_means,
)
from ors_server.evaluation.resampling import Resampling
from ors_server.evaluation.run_comparison import compare
from ors_server.evaluation.run_figures import summarise
from ors_server.evaluation.run_results import results_of
from ors_server.evaluation.summary import FigureOptions
from tests.fixtures.made_runs import make_attempt, make_lively, make_outcome, make_run

QUICK = FigureOptions(resampling=Resampling(100))
EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"
VOID = {"meta", "link", "input", "br"}


def page_of(outcome):
    return run_report(summarise(outcome, QUICK), outcome)


class Elements(HTMLParser):
    """Every element of a page, and whether each is closed in its turn."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.open: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def named(self, name):
        return [attributes for tag, attributes in self.found if tag == name]


@pytest.fixture(scope="module")
def page():
    return page_of(make_lively(12, 3))


@pytest.fixture(scope="module")
def comparison_page():
    first, second = make_lively(12, 3), make_lively(13, 3, seed=2, run_id="run-b")
    return comparison_report(compare(first, second, QUICK))


@pytest.fixture(params=["run", "comparison"])
def either(request, page, comparison_page):
    return page if request.param == "run" else comparison_page


def test_nothing_is_loaded_from_anywhere(either):
    found = Elements(either).found
    links = [
        value for _, attributes in found for name, value in attributes.items() if name in {"src", "href"}
    ]
    assert links
    assert all(link.startswith(("#", "data:")) for link in links)
    assert not re.search(r"https?://(?!www\.w3\.org)|@import|url\(", either)


def test_the_policy_allows_the_page_s_own_style_and_script_only(either):
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', either)
    for name, pattern in (("style", "<style>(.*?)</style>"), ("script", "<script>(.*?)</script>")):
        (text,) = re.findall(pattern, either, re.DOTALL)
        digest = b64encode(sha256(text.encode()).digest()).decode()
        assert f"{name}-src &#39;sha256-{digest}&#39;" in policy
    (packed,) = re.findall(r'<script type="application/octet-stream"[^>]*>(.*?)</script>', either)
    library = gzip.decompress(b64decode(packed))
    assert library.decode() == chart_asset(LIBRARY)
    assert f" &#39;sha256-{b64encode(sha256(library).digest()).decode()}&#39;; " in policy
    assert policy.startswith("default-src &#39;none&#39;")
    assert "unsafe" not in policy


def test_no_attribute_holds_style_or_script(either):
    names = {name for _, attributes in Elements(either).found for name in attributes}
    assert "style" not in names
    assert not any(name.startswith("on") for name in names)


def test_ids_are_unique_and_links_within_the_page_lead_somewhere(either):
    elements = Elements(either)
    ids = [attributes["id"] for _, attributes in elements.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = {link["href"][1:] for link in elements.named("a")}
    assert {link for link in links if not link.startswith("attempts-of:")} <= set(ids)


def test_every_drawing_has_a_title_and_its_data_as_a_table(either):
    figures = re.findall(r"<figure.*?</figure>", either, re.DOTALL)
    assert len(figures) >= 3
    for figure in figures:
        (canvas,) = [tag for tag in Elements(figure).named("div") if "data-chart" in tag]
        assert (canvas["role"], "in the table below" in canvas["aria-label"]) == ("img", True)
        assert data_of(figure, canvas["data-chart"])["series"]
        assert "<details><summary>Data</summary>" in figure
        assert "<tbody><tr>" in figure


def test_what_agents_and_tasks_say_is_text():
    run = make_run(1, 2, environment=EVIL, agent={"kind": EVIL}, config={EVIL: EVIL}, target=EVIL)
    attempts = [
        make_attempt(0, 1, None, error=EVIL, stop_reason=EVIL),
        make_attempt(0, 2, 1.0, stop_reason=EVIL, episode_id=EVIL, metrics={EVIL: 1.0}),
    ]
    outcome = results_of([run], attempts)
    page = page_of(outcome)
    assert len(Elements(page).named("script")) == 2 + len(Elements(page).named("figure"))
    assert Elements(page).named("img") == []
    other = make_outcome([[1.0]], run_id="run-b", environment=EVIL, agent={"kind": EVIL}, split="test")
    page = comparison_report(compare(outcome, other, QUICK))
    assert len(Elements(page).named("script")) == 2 + len(Elements(page).named("figure"))
    assert Elements(page).named("img") == []


def data_of(page, name):
    (text,) = re.findall(rf'<script type="application/json" id="{name}">(.*?)</script>', page, re.DOTALL)
    return json.loads(text)


def rows_of(page, name):
    """Return the rows of a table: those in sight, and those that the page holds packed."""
    (table,) = re.findall(rf'<div class="card table" id="{name}">.*?</table></div>.*?</div>', page, re.DOTALL)
    in_sight, _, rest = table.partition('<script type="application/octet-stream">')
    more = gzip.decompress(b64decode(rest.partition("</script>")[0])).decode() if rest else ""
    return [re.findall(r'<tr id=".*?</tr>', part) for part in (in_sight, more)]


def test_all_attempts_are_in_the_page_and_the_first_are_read_without_script():
    page = page_of(make_lively(40, 3))
    in_sight, more = rows_of(page, "attempts")
    assert (len(in_sight), len(more)) == (report_rows.ROWS_PER_PAGE, 120 - report_rows.ROWS_PER_PAGE)
    assert len(set(in_sight + more)) == 120
    statuses = [re.findall('<span class="badge (.*?)">', row)[0] for row in in_sight + more]
    assert set(statuses) == {"done", "errored"}
    assert len(rows_of(page, "tasks")[0]) == 40


def test_the_page_of_very_many_attempts_is_bounded(monkeypatch):
    monkeypatch.setattr("ors_server.evaluation.report.long_table.MAX_ROWS", 30)
    outcome = make_outcome([[1.0]] * 40)
    page = page_of(outcome)
    assert [len(rows) for rows in rows_of(page, "attempts")] == [30, 0]
    assert "The first 30 of 40 are here." in page


def test_long_texts_are_cut():
    attempts = [make_attempt(0, 1, None, error="x" * 5000)]
    page = page_of(results_of([make_run(1, 1)], attempts))
    assert "x" * (report_rows.MAX_TEXT - 1) + "…" in page
    assert "x" * (report_rows.MAX_TEXT + 1) not in page


def test_ten_thousand_attempts_take_a_megabyte_and_a_half():
    attempts = [
        make_attempt(index, number, (index % 10) / 10, seconds=1.234567 * number)
        for index in range(1000)
        for number in range(1, 11)
    ]
    outcome = results_of([make_run(1000, 10)], attempts)
    reading = FigureOptions(resampling=Resampling(10))
    assert len(run_report(summarise(outcome, reading), outcome)) < 1_500_000


def test_a_run_of_nothing_has_a_page():
    page = page_of(results_of([make_run(3, 1, ended_at=None, stop_reason="tokens", versions={})], []))
    assert Elements(page).named("figure") == []
    assert "no attempt counts" in page
    assert "stopped early: tokens" in page
    assert "not ended" in page


def test_several_runs_are_told_apart():
    runs = [make_run(1, 1), make_run(1, 1, run_id="run-b", split="train")]
    attempts = [make_attempt(), make_attempt(reward=0.0, run_id="run-b", split="train")]
    page = page_of(results_of(runs, attempts))
    assert "By split" in page
    assert 'id="attempt:train/0/1/run-b"' in page
    assert "test, train" in page


def marks_of(series):
    return [(item["value"], item["words"]) for item in series["data"]]


class TestPlots:
    def test_a_histogram_has_a_bar_for_each_value_and_outcome(self):
        plot = histogram("x", "X", "x", [(0.0, False), (1.0, True), (1.0, False)])
        assert plot.rows == [("0", "0", "1"), ("1", "1", "1")]
        successes, others = (marks_of(series) for series in plot.options["series"])
        assert ([value for value, _ in successes], [value for value, _ in others]) == ([0, 1], [1, 1])
        assert successes[1][1] == "1: 2 attempts, 1 of them successes"

    def test_values_without_a_grid_are_put_into_ranges(self):
        plot = histogram("x", "X", "x", [(value, False) for value in (0.013, 0.2, 0.77, 5.0)])
        assert all(" to " in words for words, _, _ in plot.rows)
        assert sum(int(count) for _, _, count in plot.rows) == 4

    @settings(max_examples=60)
    @given(st.lists(st.tuples(st.floats(-1e4, 1e4), st.booleans()), min_size=1, max_size=60))
    def test_every_value_is_in_exactly_one_bar(self, values):
        plot = histogram("x", "X", "x", values)
        counted = sum(int(one.replace(",", "")) + int(two.replace(",", "")) for _, one, two in plot.rows)
        assert counted == len(values)

    @pytest.mark.parametrize("other", [5e-324, 1e-12, 1e12], ids=str)
    def test_values_that_are_hardly_or_hugely_apart_are_drawn(self, other):
        plot = histogram("x", "X", "x", [(0.0, False), (other, True)])
        assert plot.options["xAxis"]["data"] == [words for words, _, _ in plot.rows]
        assert sum(value for series in plot.options["series"] for value, _ in marks_of(series)) == 2
        json.dumps(plot.options, allow_nan=False)

    def test_nothing_is_drawn_of_nothing(self):
        assert histogram("x", "X", "x", []) is None
        assert running_mean([], 0.95) is None

    def test_the_running_mean_s_band_is_clustered_by_task(self):
        attempts = [
            make_attempt(index, number, float(index % 2)) for number in (1, 2, 3) for index in range(6)
        ]
        count, mean, low, high = running_means(attempts, 1.0)[-1]
        # Attempts agree within their tasks: the error is that of six numbers, half of them 0 and half 1.
        assert (count, mean) == (18, 0.5)
        assert (high - low) / 2 == pytest.approx((0.25 / 6) ** 0.5)

    def test_many_tasks_share_marks(self):
        summary = summarise(make_outcome([[number / 1000] for number in range(1000)]), QUICK)
        plot = returns_by_task(summary)
        assert len(plot.options["series"][-1]["data"]) == MAX_TASKS
        assert plot.rows[0][0].startswith("ranks 1 to 4")
        assert plot.rows[-1][0].endswith("to 1,000")

    def test_many_tasks_of_a_comparison_share_marks(self):
        first = make_outcome([[number / 1000] for number in range(1000)])
        second = make_outcome([[(number * 7 % 1000) / 1000] for number in range(1000)], run_id="run-b")
        page = comparison_report(compare(first, second, QUICK))
        assert "1,000 tasks in 240 groups" in page
        assert 1 < len(data_of(page, "options-both-returns")["series"][1]["data"]) < 1000


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6), st.integers(2, 20))
def test_ticks_are_few_and_lie_inside(low, width, wanted):
    high = low + width
    found = ticks(low, high, wanted)
    slack = 1e-6 * max(1.0, abs(low), abs(high))
    assert found == sorted(found)
    assert len(found) <= wanted + 1
    assert all(low - slack <= value <= high + slack for value in found)


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6))
def test_a_widened_range_holds_the_old_one_and_is_no_point(low, width):
    bottom, top = widened(low, low + width)
    slack = 1e-6 * max(1.0, abs(low), width)
    assert bottom <= low + slack
    assert top >= low + width - slack
    assert top > bottom


def test_markup_escapes_texts_and_attributes():
    made = element("a", "<b>", element("i", "&"), href='"x"', class_="y", data_z="1", title=None)
    assert made == '<a href="&#34;x&#34;" class="y" data-z="1">&lt;b&gt;<i>&amp;</i></a>'
    assert element("input", type="search") == '<input type="search">'


@pytest.mark.parametrize(
    ("value", "low", "high", "expected"),
    [
        (0.6616, 0.566, 0.754, ("0.662", "0.566 to 0.754")),
        (0.66, 0.566, 0.754, ("0.660", "0.566 to 0.754")),
        (7.608, 6.9, 8.4, ("7.61", "6.90 to 8.40")),
        (8383.2, 7700.0, 9100.0, ("8,380", "7,700 to 9,100")),
        (0.008708, 0.0081, 0.0093, ("0.00871", "0.00810 to 0.00930")),
        (-0.0004, -0.09, 0.09, ("0.000", "-0.090 to 0.090")),
        (1.0, 1.0, 1.0, ("1", "1 to 1")),
    ],
)
def test_a_figure_has_the_digits_that_its_interval_justifies(value, low, high, expected):
    assert measured(value, Interval(low, high, "t")) == expected


@pytest.mark.parametrize(
    ("value", "low", "high", "expected"),
    [
        (0.4273, 0.322, 0.535, ("43 %", "32 to 54 %")),
        (0.9512, 0.949, 0.953, ("95.1 %", "94.9 to 95.3 %")),
        (1.0, 0.51, 1.0, ("100 %", "51 to 100 %")),
    ],
)
def test_a_share_has_at_most_one_decimal(value, low, high, expected):
    assert measured(value, Interval(low, high, "wilson"), as_percent=True) == expected


def test_a_figure_without_an_interval_has_the_usual_digits():
    assert measured(0.66161, None) == ("0.6616", "-")
    assert measured(0.425, None, as_percent=True) == ("42.5 %", "-")


def test_pass_at_k_says_over_how_many_tasks():
    assert "over 1 of 2 tasks" in page_of(make_outcome([[1.0, 0.0], [1.0, None]]))
