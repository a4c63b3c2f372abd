"""The site of the documents: it builds without a network, holds every page, and its links lead somewhere."""

import os
import posixpath
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
MKDOCS = Path(os.environ.get("ORS_TEST_VENVS", ROOT / ".venvs")) / "site" / "bin" / "mkdocs"
LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src"}
LOADED_LINKS = {"stylesheet", "icon", "preload", "modulepreload", "preconnect", "dns-prefetch", "prefetch"}


class Page(HTMLParser):
    """One page: its anchors, its links, and what a browser loads for it."""

    def __init__(self, path):
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.classes: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        self.classes |= set((given.get("class") or "").split())
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag in LOADS and given.get(LOADS[tag]):
            self.loaded.append(given[LOADS[tag]])
        if tag == "link" and set((given.get("rel") or "").split()) & LOADED_LINKS:
            self.loaded.append(given["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if not MKDOCS.exists():
        pytest.fail("the site's environment is not there; run `make site`")
    folder = tmp_path_factory.mktemp("site") / "site"
    ran = subprocess.run(
        [MKDOCS, "build", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "HTTPS_PROXY": "http://127.0.0.1:9"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=480,
    )
    assert ran.returncode == 0, ran.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {path.relative_to(site).as_posix(): Page(path) for path in site.rglob("*.html")}


pytestmark = pytest.mark.timeout(600)


def test_every_page_of_the_documents_is_in_the_site_with_its_markdown(site):
    for page in (ROOT / "docs").rglob("*.md"):
        address = page.relative_to(ROOT / "docs")
        assert (site / address.with_suffix(".html")).is_file()
        assert (site / address).is_file()


def test_llms_txt_lists_every_page_by_its_markdown(site):
    text = (site / "llms.txt").read_text()
    listed = re.findall(r"^- \[[^\]]+\]\(([^)]+)\): \S", text, re.MULTILINE)
    assert len(listed) == len(set(listed)) == text.count("\n- ")
    assert set(listed) == {path.relative_to(site).as_posix() for path in site.rglob("*.md")}
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Tutorial", "How-to", "Reference", "Explanation"]


def test_every_link_and_every_anchor_leads_somewhere(site, pages):
    broken = []
    names = {path.relative_to(site).as_posix() for path in [site, *site.rglob("*")]}
    for address, page in pages.items():
        for link in page.links:
            there = urlsplit(link)
            if there.scheme or there.netloc or address == "404.html":
                continue
            path = posixpath.join(posixpath.dirname(address), unquote(there.path)) if there.path else address
            name = posixpath.normpath(path)
            anchors = pages[name].anchors if name in pages else set()
            if name not in names or (there.fragment and unquote(there.fragment) not in anchors):
                broken.append(f"{address}: {link}")
    assert broken == []


def test_links_between_the_markdown_pages_lead_somewhere(site):
    for page in site.rglob("*.md"):
        text = re.sub(r"^```.*?^```|`[^`\n]+`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for link in re.findall(r"(?<!!)\[[^\]]*\]\(([^)#\s]+)", text):
            assert "://" in link or (page.parent / link).is_file(), f"{page.relative_to(site)}: {link}"


def test_nothing_is_loaded_from_elsewhere(site, pages):
    for address, page in pages.items():
        outside = [url for url in page.loaded if urlsplit(url).scheme or urlsplit(url).netloc]
        assert outside == [], address
        assert not {"mermaid", "language-mermaid"} & page.classes, f"{address}: a diagram is shown as code"
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(?:@import\s*|url\(\s*)[\"']?(?:https?:)?//", sheet.read_text()), sheet.name


def test_every_diagram_is_a_picture_of_the_site(site, pages):
    for address, page in pages.items():
        pictures = [url for url in page.loaded if url.endswith(".svg")]
        markdown = (site / address).with_suffix(".md")
        blocks = re.findall(r"^```mermaid$", markdown.read_text(), re.MULTILINE) if markdown.is_file() else []
        assert len(pictures) == len(blocks), address
        for url in pictures:
            assert (site / address).parent.joinpath(url).read_text().startswith("<svg"), url
    assert len(list(site.glob("assets/diagrams/*.svg"))) >= 4


def test_search_works_in_pages_that_are_opened_as_files(site, pages):
    assert (site / "search" / "search_index.js").stat().st_size > 100_000
    assert "assets/iframe-worker.js" in pages["index.html"].loaded


def test_the_reference_has_an_anchor_for_every_name_that_its_index_lists(pages):
    listed = [link for link in pages["reference/python/index.html"].links if ".html#" in link]
    assert len(listed) > 150
    for link in listed:
        address, _, anchor = link.partition("#")
        assert anchor in pages[f"reference/python/{address}"].anchors, link
