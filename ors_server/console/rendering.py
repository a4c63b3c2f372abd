"""Writes pages from templates: every value is escaped, and a name that is missing is a defect."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ors_server._version import __version__
from ors_server.console.static_files import StaticFile
from ors_server.console.views import formats

FOLDER = Path(__file__).parent / "templates"


def make_templates(static: Mapping[str, StaticFile], root: str) -> Environment:
    """Return the templates; `root` is the path of the console, with which every address begins."""
    # Files end in .html.j2, so the choice by name would miss them: everything is escaped.
    templates = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    templates.globals.update(
        root=root,
        version=__version__,
        static={name: f"{root}/{file.address}" for name, file in static.items()},
    )
    templates.filters.update(
        reward=formats.reward,
        amount=formats.amount,
        share=formats.share,
        duration=formats.duration,
        count=formats.count,
        moment=formats.moment,
        path_part=formats.path_part,
        query=formats.query,
        sign=formats.sign_class,
    )
    return templates


def _finalize(value: Any) -> Any:
    """Make characters visible that a page would hide or act on, in every text of others.

    Markup, which is a class of its own, passes: `| e` keeps a value exact where a form sends it back.
    """
    return formats.visible(value) if type(value) is str else value


def render(templates: Environment, name: str, values: Mapping[str, Any]) -> bytes:
    """Return a page in UTF-8; characters that UTF-8 has not are replaced."""
    return templates.get_template(f"{name}.html.j2").render(**values).encode(errors="replace")
