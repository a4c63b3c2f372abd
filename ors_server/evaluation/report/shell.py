"""The frame of a report page, with a policy that forbids every request, and its parts."""

from base64 import b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol, cast

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ors_server import charts
from ors_server._version import __version__
from ors_server.charts.chart import LIBRARY, SCRIPT, chart_asset, packed, packed_library
from ors_server.evaluation import number_format as formats
from ors_server.evaluation.attempt_transcripts import MAX_STEPS
from ors_server.evaluation.runs import Attempt
from ors_server.model.printable import clean

_FOLDERS = (Path(__file__).parent, Path(charts.__file__).parent)


class Parts(Protocol):
    """The parts of pages: macros of `parts.html.j2`, which escape every text that is not `Markup`."""

    def __getattr__(self, name: str) -> Callable[..., Markup]:
        """Return a macro; the template says what it takes."""
        ...


def report(
    title: str,
    heading: tuple[str, str, str],
    sections: Sequence[tuple[str, str, Sequence[Markup]]],
    about: str,
    *,
    has_charts: bool = False,
) -> str:
    """Return a page of sections, each with an id, a title and its content, to which the head links.

    Its policy allows the page's own style and scripts by their hashes, and nothing else. A page with charts
    holds ECharts, packed.

    Args:
        heading: What the page is, its title, and a sentence.
    """
    style, scripts = _asset("page.css"), [_asset("page.js")]
    if has_charts:
        scripts = [f"{scripts[0]}{chart_asset(SCRIPT)}", chart_asset(LIBRARY)]
    # Agents and authors wrote much of the page's text: if some of it got through the escaping, it still
    # could not load or send anything.
    policy = (
        f"default-src 'none'; style-src {_hash_of(style)}; script-src {' '.join(map(_hash_of, scripts))}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    # Both assets are this package's own, and escaped they would mean nothing.
    own = Markup(style), Markup(scripts[0]), Markup(packed_library() if has_charts else "")  # noqa: S704
    return str(parts.document(title, policy, f"ors-server {__version__}", heading, sections, about, *own))


def _asset(name: str) -> str:
    """Return a file of this package, which is part of every page."""
    return (_FOLDERS[0] / name).read_text("utf-8")


def anchor_of(attempt: Attempt) -> str:
    """Return the id of an attempt's transcript."""
    return f"transcript:{attempt.run_id}/{attempt.split}/{attempt.index}/{attempt.attempt}"


def words_of(cell: str | float | None) -> str:
    """Return the words of a cell."""
    return cell or formats.NOTHING if isinstance(cell, str) else formats.number(cell)


def _hash_of(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


_templates = Environment(
    loader=FileSystemLoader(_FOLDERS),
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
_values.update(MAX_STEPS=MAX_STEPS, measured=formats.measured)
_filters: dict[str, Any] = {"anchor": anchor_of, "packed": packed, "visible": clean, "words": words_of}
_filters |= {name: getattr(formats, name) for name in ("between", "count_of", "duration", "number", "signed")}
_templates.filters.update(_filters)
parts = cast("Parts", _templates.get_template("parts.html.j2").module)
