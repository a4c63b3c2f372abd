"""Takes the pictures of the console in docs/assets, over the record that its tests read.

Usage: .venv/bin/python -m scripts.console_pictures [FOLDER]
"""

import argparse
from pathlib import Path
from typing import Any

from tests.fixtures.console_browser import WatchedPage, chromium, serving
from tests.fixtures.console_record import RUNS

ASSETS = Path(__file__).resolve().parent.parent / "docs" / "assets"
PICTURES = {
    "overview": ("/console", "light", 1280, 720),
    "environment": ("/console/environments/qa", "light", 1280, 720),
    "episodes": ("/console/episodes", "light", 1280, 720),
    "episode": ("/console/episodes/{shell}", "light", 1280, 960),
    "episode-dark": ("/console/episodes/{shell}?step=2#s2", "dark", 1280, 720),
    "episode-narrow": ("/console/episodes/{shell}", "light", 390, 844),
    "compare": ("/console/compare?a={sibling}&b={shell}", "light", 1280, 720),
    "runs": (f"/console/runs?compare={RUNS[2]}&compare={RUNS[1]}&compare={RUNS[0]}", "light", 1280, 960),
    "settings": ("/console/settings", "light", 1280, 480),
}
"""Address, theme, width and height by name."""


def main() -> None:
    """Write every picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ASSETS)
    folder: Path = parser.parse_args().folder
    with serving(with_hostile=False) as (server, ids, _), chromium() as browser:
        for name, (path, theme, width, height) in PICTURES.items():
            context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
            page: Any = WatchedPage(context, server.url).open(path.format_map(ids))
            page.locator("h1").wait_for()
            page.screenshot(path=folder / f"console-{name}.png")
            context.close()
        play(browser, server.url, folder / "console-play.png")


def play(browser: Any, url: str, path: Path) -> None:
    """Play a question by hand up to its first search."""
    context = browser.new_context(viewport={"width": 1280, "height": 960}, color_scheme="light")
    page: Any = WatchedPage(context, url).open("/console/environments/qa")
    page.get_by_role("button", name="Play", exact=True).click()
    page.get_by_label("query").fill("The Gilded Clock")
    page.get_by_role("button", name="Call search").click()
    page.locator("#s1").wait_for()
    page.screenshot(path=path)
    context.close()


if __name__ == "__main__":
    main()
