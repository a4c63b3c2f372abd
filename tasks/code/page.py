"""Reads a problem's page: Markdown with a title, some facts, and named sections of code."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_TITLE = re.compile(r"# (?P<title>.+)\n\n(?P<facts>(?:\w+: .+\n)+)\n")
_SECTION = re.compile(r"^## ([A-Z].*)\n", re.MULTILINE)
_FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


class PageError(ValueError):
    """A page has a wrong layout."""


@dataclass(frozen=True, slots=True)
class Fence:
    """A fenced block of a section."""

    language: str
    """The word after the opening fence; may be empty."""
    code: str
    """The text between the fences, ending with a newline unless it is empty."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page."""

    title: str
    facts: Mapping[str, str]
    """The `key: value` lines below the title."""
    statement: str
    """The text between the facts and the first section, stripped; may be empty."""
    sections: Mapping[str, tuple[Fence, ...]]
    """The fenced blocks of each section, by its heading."""

    def code(self, section: str) -> str:
        """Return the only block of a section; raises PageError unless there is exactly one."""
        fences = self.sections.get(section, ())
        if len(fences) != 1:
            raise PageError(f"{self.title}: expected one block in section {section!r}, found {len(fences)}")
        return fences[0].code


def read_page(text: str) -> Page:
    """Read a page.

    Raises:
        PageError: It does not begin with a title and facts, or has a heading twice.
    """
    head = _TITLE.match(text)
    if head is None:
        raise PageError(f"expected '# Title', an empty line and 'key: value' lines, found {text[:60]!r}")
    facts = dict(line.split(": ", 1) for line in head["facts"].splitlines())
    statement, *rest = _SECTION.split(text[head.end() :])
    headings, bodies = rest[::2], rest[1::2]
    if len(set(headings)) != len(headings):
        raise PageError(f"{head['title']}: it has a heading twice: {headings}")
    sections = {
        heading: tuple(Fence(fence["language"], fence["code"]) for fence in _FENCE.finditer(body))
        for heading, body in zip(headings, bodies, strict=True)
    }
    return Page(head["title"], facts, statement.strip(), sections)
