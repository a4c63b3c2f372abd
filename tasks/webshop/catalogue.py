"""A catalogue as it is served: read-only, shared by all sessions of the process, on disk."""

import json
import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import cast

from ors_server import child_variables
from ors_server_tasks.webshop.arrays import Keys, MappedArray, Rows
from ors_server_tasks.webshop.catalogue_build import build_catalogue, draw_synthetic_goals
from ors_server_tasks.webshop.data_folder import FORMAT, DataFolder, find_files, hash_of
from ors_server_tasks.webshop.goals import Goal, GoalKind, GoalTable, has_goals
from ors_server_tasks.webshop.invented import EDITION, write_invented
from ors_server_tasks.webshop.inverted import InvertedIndex
from ors_server_tasks.webshop.json_reading import CatalogueError
from ors_server_tasks.webshop.product import Product
from ors_server_tasks.webshop.ranking import Ranking
from ors_server_tasks.webshop.similarity import Lengths

MAX_RESULTS = 50
"""Products that a search by words finds at most."""
MAX_KEPT = 2048
"""Products that are kept in memory."""
MAX_INLINE_BYTES = 64 << 20
"""Bytes of files up to which a catalogue is built in this process, and not in a separate one."""

_GROUPS = {"<a>": "a:", "<c>": "c:", "<q>": "q:"}


class Catalogue:
    """The products of one catalogue, its search and its goals."""

    def __init__(self, folder: Path, kind: GoalKind, files: DataFolder, lengths: Lengths) -> None:
        """Open a folder that `build_catalogue` made."""
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        self._files = files
        self._stamp = files.stamp()
        self._rows = Rows(folder, "products")
        self._prices = MappedArray(folder / "products.prices", "<f8").values
        self._asins = Keys(folder, "asins")
        self._numbers = MappedArray(folder / "asins.numbers", "<u4").values
        self._groups = InvertedIndex(folder, "groups")
        self._ranking = Ranking(folder, meta["documents"], meta["average_length"], lengths)
        self.goals = GoalTable(folder, kind)
        self._load = lru_cache(maxsize=MAX_KEPT)(self._read)

    def __len__(self) -> int:
        """Return how many products there are."""
        return len(self._rows)

    def check_unchanged(self) -> None:
        """Raise CatalogueError if the files are no longer those that were opened."""
        changed = [path for path, stamp in self._files.stamp().items() if stamp != self._stamp[path]]
        if changed:
            raise CatalogueError(
                f"{', '.join(changed)}: changed while it was served, and the environment's version is that "
                "of the old file: restart the server"
            )

    def product(self, number: int) -> Product:
        """Return a product by its number."""
        return self._load(number)

    def find_number(self, asin: str) -> int:
        """Return the number of a product; KeyError for an unknown asin."""
        index = self._asins.find(asin)
        if index is None:
            raise KeyError(asin)
        return int(self._numbers[index])

    def price(self, number: int) -> float:
        """Return the price at which a product is sold, in dollars."""
        return float(self._prices[number])

    def goal(self, task_id: int) -> Goal:
        """Return a goal by its position before the goals were shuffled; IndexError if it does not exist."""
        if not 0 <= task_id < len(self.goals):
            raise IndexError(f"task_id must be from 0 to {len(self.goals) - 1}, got {task_id}")
        return self.goals.make(task_id, self.product(self.goals.product_of(task_id)))

    def search(self, query: str, rng: Random) -> list[int]:
        """Return the numbers of the products that a query finds, in WebShop's order.

        Args:
            query: Words; or `<r>` for random products, `<a> attribute`, `<c> category`, `<q> query`.
            rng: What random products are drawn from.
        """
        first, *words = query.split(" ")
        if first == "<r>":
            return rng.sample(range(len(self)), k=min(MAX_RESULTS, len(self)))
        if first in _GROUPS:
            key = (words[0] if words else "") if first == "<c>" else " ".join(words)
            group_index = self._groups.keys.find(_GROUPS[first] + key.strip())
            return (
                [] if group_index is None else cast("list[int]", self._groups.numbers(group_index).tolist())
            )
        return self._ranking.find(query, MAX_RESULTS)

    def _read(self, number: int) -> Product:
        return Product.from_row(self._rows[number])


def cache_folder() -> Path:
    """Return where catalogues are built: WEBSHOP_CACHE, or a folder in the user's cache."""
    own = os.environ.get("WEBSHOP_CACHE")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "ors-server" / "webshop"
    except RuntimeError:
        text = "the user has no home folder: set HOME, XDG_CACHE_HOME or WEBSHOP_CACHE"
        raise CatalogueError(text) from None


def name_catalogue(data: str) -> str:
    """Return the name of a catalogue: the hash of its files, or the edition of the invented one.

    Raises:
        CatalogueError: The folder lacks a file.
    """
    return hash_of(find_files(Path(data)), cache_folder()) if data else f"invented-{EDITION}.{FORMAT}"


@lru_cache(maxsize=8)
def open_catalogue(data: str, kind: GoalKind, lengths: Lengths = "lucene") -> Catalogue:
    """Open a catalogue, and build its index first if that was never done.

    Args:
        data: The folder of WebShop's files; the invented catalogue if it is empty.
        kind: Whether goals are the instructions by people, or made from attributes and options.
        lengths: How the search counts the length of a product's text: `lucene` rounds it to one byte, as
            WebShop's search engine does; `exact` does not.

    Raises:
        CatalogueError: A file is missing or broken, or the catalogue has no goals of this kind.
    """
    cache = cache_folder()
    files = find_files(Path(data) if data else write_invented(cache / f"invented-{EDITION}-files"))
    folder = cache / name_catalogue(data)
    if not folder.is_dir():
        _build(files, folder)
    if kind == "synthetic" and not has_goals(folder, kind):
        draw_synthetic_goals(folder)
    catalogue = Catalogue(folder, kind, files, lengths)
    if not len(catalogue.goals):
        raise CatalogueError(
            f"{files.products.parent}: expected {kind} goals, and there are none; "
            "set WEBSHOP_GOALS to human or synthetic, as the catalogue has them"
        )
    return catalogue


def _build(files: DataFolder, folder: Path) -> None:
    if files.total_size() <= MAX_INLINE_BYTES:
        build_catalogue(files, folder)
        return
    size = files.total_size() / 2**20
    print(  # noqa: T201  (a server that starts says why it takes long)
        f"webshop: building the index of {files.products} ({size:,.0f} MiB), once; this takes minutes",
        file=sys.stderr,
        flush=True,
    )
    command = [sys.executable, "-m", "ors_server_tasks.webshop", "build", str(files.products.parent)]
    variables = child_variables(["WEBSHOP_CACHE"])
    done = subprocess.run(  # noqa: S603  (this program)
        command, capture_output=True, text=True, check=False, env=variables
    )
    if done.returncode:
        raise CatalogueError(
            done.stderr.strip().rpartition("\n")[2] or f"{files.products}: building its index failed"
        )
