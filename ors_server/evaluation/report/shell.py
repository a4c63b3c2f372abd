"""The frame of a report page, with a policy that forbids every request, and its parts."""

from base64 import b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol, cast

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ors_server import charts
from ors_server._version import __version__
from ors_server.charts.chart import LIBRARY, SCRIPT, chart_asset, packed, packed_library
from ors_server.evaluation.attempt_transcripts import MAX_STEPS
from ors_server.evaluation.number_format import (
    NOTHING,
    between,
    chance,
    count_of,
    duration,
    measured,
    number,
    signed,
)
from ors_server.evaluation.runs import Attempt
from ors_server.model.printable import clean


class Parts(Protocol):
    """The parts of pages: macros of `parts.html.j2`, which escape every text that is not `Markup`."""

    def __getattr__(self, name: str) -> Callable[..., Markup]:
        """Return a macro; the template says what it takes."""
        ...


def document(title: str, header: str, body: Sequence[str], about: str, *, has_charts: bool = False) -> str:
    """Return a whole page.

    Its policy allows the page's own style and scripts by their hashes, and nothing else. A page with charts
    holds ECharts, packed.
    """
    style, script = asset("page.css"), asset("page.js")
    scripts = [f"'{_hash_of(script)}'"]
    if has_charts:
        script = f"{script}{chart_asset(SCRIPT)}"
        scripts = [f"'{_hash_of(text)}'" for text in (script, chart_asset(LIBRARY))]
    # Agents and authors wrote much of the page's text: if some of it got through the escaping, it still
    # could not load or send anything.
    policy = (
        f"default-src 'none'; style-src '{_hash_of(style)}'; "
        f"script-src {' '.join(scripts)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    library = packed_library() if has_charts else ""
    content = parts.body(header, body, about)
    # Both assets are this package's own, and escaped they would mean nothing.
    own = (Markup(style), content, Markup(library), Markup(script))  # noqa: S704
    return str(parts.document(title, policy, f"ors-server {__version__}", *own))


def report(
    title: str,
    heading: tuple[str, str, str],
    sections: Sequence[tuple[str, str, Sequence[Markup]]],
    about: str,
    *,
    has_charts: bool = False,
) -> str:
    """Return a page of sections, each with an id, a title and its content, to which the head links.

    Args:
        heading: What the page is, its title, and a sentence.
    """
    header = parts.header(*heading, [(name, words) for name, words, _ in sections])
    body = [parts.section(name, words, *content) for name, words, content in sections]
    return document(title, header, body, about, has_charts=has_charts)


def asset(name: str) -> str:
    """Return a file of this package, which is part of every page."""
    return (files("ors_server.evaluation.report") / name).read_text("utf-8")


def anchor_of(attempt: Attempt) -> str:
    """Return the id of an attempt's transcript."""
    return f"transcript:{attempt.run_id}/{attempt.split}/{attempt.index}/{attempt.attempt}"


def words_of(cell: str | float | None) -> str:
    """Return the words of a cell."""
    return cell or NOTHING if isinstance(cell, str) else number(cell)


def _hash_of(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


_folders = [Path(__file__).parent, Path(charts.__file__).parent]
_templates = Environment(
    loader=FileSystemLoader(_folders),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.policies["json.dumps_kwargs"] = {
    "ensure_ascii": False,
    "allow_nan": False,
    "separators": (",", ":"),
}
_values: dict[str, Any] = _templates.globals
_values.update(MAX_STEPS=MAX_STEPS, measured=measured)
_filters: dict[str, Any] = {"anchor": anchor_of, "packed": packed, "visible": clean, "words": words_of}
_filters |= {spell.__name__: spell for spell in (between, chance, count_of, duration, number, signed)}
_templates.filters.update(_filters)
parts = cast("Parts", _templates.get_template("parts.html.j2").module)
