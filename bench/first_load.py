"""The console's first pages in a Chromium with an empty cache, over loopback: first paint, and files sent.

The server is restarted for each round, and the browser has a new profile, so nothing is warm but the files of
the system. `compressed` counts what the server sends of styles, scripts and fonts. Pages without charts come
first; that of compared runs has them.
"""

import statistics
from collections.abc import Mapping
from typing import Any

from bench.report import Goal, Row
from tests.fixtures.console_browser import chromium, serving
from tests.fixtures.console_record import RUNS

ROUNDS = 5
PAGES: Mapping[str, str] = {
    "episode": "/console/episodes/{live}",
    "compared runs": f"/console/runs?compare={RUNS[0]}&compare={RUNS[1]}",
}
MILLISECONDS, KILOBYTES = 1_000, 350
SETTLED = 3_000
"""Milliseconds after which a page has loaded everything."""
PAINT = """\
() => new Promise(resolve => {
    const seen = () => performance.getEntriesByName('first-contentful-paint')[0]?.startTime;
    const look = () => seen() === undefined ? setTimeout(look, 10) : resolve(seen());
    look();
})"""
FILES = """\
() => performance.getEntriesByType('resource')
    .filter(entry => entry.name.includes('/static/'))
    .reduce((total, entry) => total + entry.encodedBodySize, 0)"""


def measure() -> list[Row]:
    """Open each page some times."""
    rows: list[Row] = []
    for name, path in PAGES.items():
        opened = [_open(path) for _ in range(ROUNDS)]
        paints, sizes = zip(*opened, strict=True)
        paint, size = statistics.median(paints), max(sizes) / 1_000
        rows += [
            Row(f"first paint, {name}", "ms", paint, max(paints), "slowest", Goal("ours", most=MILLISECONDS)),
            Row(
                f"static files, {name}", "KB compressed", size, KILOBYTES, "bar", Goal("ours", most=KILOBYTES)
            ),
        ]
    return rows


def _open(path: str) -> tuple[float, float]:
    """Return the milliseconds to the first paint and the bytes of static files of one page."""
    with serving() as (server, ids, _), chromium() as browser:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        page: Any = context.new_page()
        page.goto(server.url + path.format(live=next(iter(ids.values()))), wait_until="load")
        paint = float(page.evaluate(PAINT))
        page.wait_for_timeout(SETTLED)  # charts are loaded behind the page
        return paint, float(page.evaluate(FILES))
