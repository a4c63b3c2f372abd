"""What mkdocs does in addition to its plugins: pages from outside of docs/, diagrams, llms.txt.

mkdocs.yml names this file; it runs in the environment of `make site`, which has neither the package nor its
dependencies.
"""

import posixpath
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import mmdr
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
ADDRESSES = {"README.md": "index.md", "tasks/README.md": "tasks/index.md"} | {
    f"{name}.md": f"{name.lower()}.md" for name in ("ARCHITECTURE", "CHANGELOG", "CONTRIBUTING", "SECURITY")
}
"""Pages outside of docs/, by their address in the site."""
ADDRESSES |= {
    f"tasks/{folder.parent.name}/README.md": f"tasks/{folder.parent.name}.md"
    for folder in sorted(ROOT.glob("tasks/*/README.md"))
}
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#\s]*)(#[^)\s]*)?\)")
PICTURE = re.compile(r"(!\[[^\]]*\]\()docs/([^)\s]+\))")
"""A picture on a page at the root of the project."""
FENCE = re.compile(r"^```(\w+) ([^\n]+)$", re.MULTILINE)
DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
written: dict[str, str] = {}
"""The Markdown of each page, by its address."""


def on_config(config: Any) -> Any:
    """Replace `folder/*` in the navigation by the pages of that folder."""
    config.nav = expand(config.nav, Path(config.docs_dir))
    return config


def expand(nav: list[Any], folder: Path) -> list[Any]:
    """Expand the entries of one level of the navigation."""
    entries: list[Any] = []
    for entry in nav:
        if isinstance(entry, dict):
            ((title, below),) = entry.items()
            entries.append({title: expand(below, folder) if isinstance(below, list) else below})
        elif entry.endswith("/*"):
            entries += sorted(path.relative_to(folder).as_posix() for path in folder.glob(f"{entry}.md"))
        else:
            entries.append(entry)
    return entries


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are not in docs/."""
    for source, address in ADDRESSES.items():
        files.append(File.generated(config, address, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Lead links to where pages are in the site, draw diagrams, and keep the text for llms.txt."""
    address = page.file.src_uri
    written[address] = text = PICTURE.sub(r"\1\2", relink(markdown, address))
    drawn = DIAGRAM.sub(lambda match: draw(match[1], address, config, files), text)
    return FENCE.sub(with_title, drawn)


def draw(diagram: str, address: str, config: Any, files: Any) -> str:
    """Add a Mermaid diagram to the site as an SVG file, and return the Markdown that shows it."""
    there = f"assets/diagrams/{sha256(diagram.encode()).hexdigest()[:16]}.svg"
    if files.get_file_from_path(there) is None:
        files.append(File.generated(config, there, content=mmdr.render(diagram).svg()))
    kind = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", diagram.split(maxsplit=1)[0].removesuffix("-v2")).lower()
    path = posixpath.relpath(there, posixpath.dirname(address) or ".")
    return f"![{kind}, as in the Markdown of this page]({path}){{ .diagram }}"


def relink(text: str, address: str) -> str:
    """Rewrite the links of a page from the project's folders to the site's; others become plain text."""
    source = next((path for path, there in ADDRESSES.items() if there == address), f"docs/{address}")

    def lead(match: re.Match[str]) -> str:
        words, link, anchor = match[1], match[2], match[3] or ""
        if not link or "://" in link or link.startswith("mailto:"):
            return match[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
        there = ADDRESSES.get(target, target.removeprefix("docs/") if target.startswith("docs/") else "")
        if not there.endswith(".md"):
            return words
        return f"[{words}]({posixpath.relpath(there, posixpath.dirname(address) or '.')}{anchor})"

    kept = [match.span() for match in CODE.finditer(text)]
    return LINK.sub(lambda match: match[0] if inside(match.start(), kept) else lead(match), text)


def inside(place: int, spans: list[tuple[int, int]]) -> bool:
    """Tell whether a place is in code."""
    return any(start <= place < end for start, end in spans)


def with_title(match: re.Match[str]) -> str:
    """Show the file that an example is as the title of its block."""
    name = re.search(r"file=(\S+)", match[2])
    return f'```{match[1]} title="{name[1]}"' if name else f"```{match[1]}"


def on_post_build(config: Any) -> None:
    """Write each page's Markdown beside its HTML, and llms.txt, which lists them as the navigation does."""
    folder = Path(config.site_dir)
    for address, text in written.items():
        (folder / address).write_text(text, encoding="utf-8")
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    for section in config.nav:
        ((title, entries),) = section.items()
        lines += [f"## {title}", "", *(llms_line(address) for address in addresses(entries)), ""]
    (folder / "llms.txt").write_text("\n".join(lines), encoding="utf-8")


def addresses(nav: Any) -> list[str]:
    """List the pages of a part of the navigation, in order."""
    if isinstance(nav, str):
        return [nav]
    below = nav.values() if isinstance(nav, dict) else nav
    return [address for entry in below for address in addresses(entry)]


def llms_line(address: str) -> str:
    """Write a page's line: its title, its address, the first sentence of its text."""
    text = written[address]
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    if title is None:
        raise ValueError(f"{address} has no title: begin the page with '# Title'")
    rest = CODE.sub(lambda match: match[0] if not match[0].startswith("```") else "", text[title.end() :])
    rest = re.sub(r"<!--.*?-->", "", rest, flags=re.DOTALL)
    paragraph = next((p for p in rest.split("\n\n") if re.match(r"[\w`*\[]", p.strip())), "")
    words = " ".join(LINK.sub(r"\1", paragraph).split())
    sentence = re.match(r".+?\.(?=\s|$)", words)
    return f"- [{title[1].replace('`', '')}]({address}): {sentence[0] if sentence else words}"
