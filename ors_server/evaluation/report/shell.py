"""The frame of a report page, with a policy that forbids every request, and its parts."""

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files

from ors_server._version import __version__
from ors_server.charts.chart import LIBRARY, SCRIPT, Chart, chart_asset, packed_library
from ors_server.evaluation.report.long_table import as_data, plain_table
from ors_server.evaluation.report.markup import Markup, element, join


def document(
    title: str, header: Markup, body: Sequence[Markup], about: str, *, has_charts: bool = False
) -> str:
    """Return a whole page.

    Its policy allows the page's own style and scripts by their hashes, and nothing else. A page with charts
    holds ECharts, packed.
    """
    style, script = asset("page.css"), asset("page.js")
    scripts = [_hash_of(script)]
    packed = Markup("")
    if has_charts:
        script = Markup(f"{script}{chart_asset(SCRIPT)}")
        scripts = [_hash_of(script), _hash_of(chart_asset(LIBRARY))]
        packed = element(
            "script", Markup(packed_library()), type="application/octet-stream", id="echarts-packed"
        )
    # Agents and authors wrote much of the page's text: if some of it got through the escaping, it still
    # could not load or send anything.
    policy = "; ".join(
        (
            "default-src 'none'",
            f"style-src '{_hash_of(style)}'",
            "script-src " + " ".join(f"'{digest}'" for digest in scripts),
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="generator", content=f"ors-server {__version__}"),
        element("title", title),
        element("link", rel="icon", href="data:,"),
        element("style", style),
    )
    page = element(
        "body", header, element("main", *body), element("footer", about), packed, element("script", script)
    )
    return f"<!doctype html>\n{element('html', head, page, lang='en', class_='no-script')}\n"


def asset(name: str) -> Markup:
    """Return a file of this package, which is part of every page."""
    return Markup((files("ors_server.evaluation.report") / name).read_text("utf-8"))


def header(eyebrow: str, title: str, lead: str, sections: Sequence[tuple[str, str]]) -> Markup:
    """Return a page's header; `sections` has the ids and names of its sections."""
    return element(
        "header",
        element(
            "div",
            element(
                "div",
                element("p", eyebrow, class_="eyebrow"),
                element("h1", title),
                element("p", lead, class_="lead"),
            ),
            element("button", "Light or dark", type="button", id="theme", class_="scripted"),
            class_="top",
        ),
        element(
            "nav", *(element("a", name, href=f"#{id_}") for id_, name in sections), aria_label="Sections"
        ),
    )


def section(name: str, title: str, *content: Markup) -> Markup:
    """Return a section."""
    return element("section", element("h2", title), *content, id=name)


def tile(what: str, value: str, aside: str, drawing: Markup | None = None, style: str = "") -> Markup:
    """Return a figure with a note and a drawing of its interval."""
    return element(
        "div",
        element("span", what, class_="what"),
        element("span", value, class_=f"value {style}".strip()),
        drawing or Markup(""),
        element("span", aside, class_="aside"),
        class_="tile",
    )


def figures(plots: Sequence[Chart | None]) -> Markup:
    """Return the plots that are not `None`, each with its data as a table."""
    return element("div", *(_figure(plot) for plot in plots if plot is not None), class_="plots")


def remarks(words: Sequence[str]) -> Markup:
    """Return a list of remarks, if there are any."""
    return element("ul", *(element("li", word) for word in words), class_="remarks") if words else Markup("")


def facts(pairs: Sequence[tuple[str, str]]) -> Markup:
    """Return a list of names and values."""
    return element("dl", *(join((element("dt", name), element("dd", value))) for name, value in pairs))


def _figure(plot: Chart) -> Markup:
    legend = [element("span", element("i", class_=f"key {ink}"), words) for ink, words in plot.legend]
    return element(
        "figure",
        element("div", element("h3", plot.title), element("div", *legend, class_="legend"), class_="head"),
        element(
            "div",
            class_=f"canvas scripted{f' entries-{plot.entries}' if plot.entries else ''}",
            data_chart=f"options-{plot.name}",
            role="img",
            aria_label=f"{plot.title}; the same numbers are in the table below",
        ),
        element("script", as_data(plot.options), type="application/json", id=f"options-{plot.name}"),
        element("figcaption", plot.caption),
        element("details", element("summary", "Data"), plain_table(plot.headings, plot.rows)),
        id=f"plot-{plot.name}",
        class_="wide" if plot.is_wide else None,
    )


def _hash_of(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
