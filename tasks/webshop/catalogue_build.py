"""Builds the folder from which a catalogue is served, out of WebShop's files."""

import json
import shutil
import tempfile
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ors_server_tasks.webshop.analysis import find_term, split_words
from ors_server_tasks.webshop.arrays import MappedArray, Rows, RowWriter, write_array, write_keys
from ors_server_tasks.webshop.data_folder import DataFolder
from ors_server_tasks.webshop.goals import SEED, GoalKind, GoalWriter, draw_price
from ors_server_tasks.webshop.inverted import PAIRS_AT_ONCE, IndexWriter
from ors_server_tasks.webshop.json_reading import CatalogueError, read_entries
from ors_server_tasks.webshop.product import (
    NO_ATTRIBUTES,
    Product,
    human_rows,
    read_product,
    texts_of,
)
from ors_server_tasks.webshop.similarity import length_code, make_growth_table

_MAX_WORDS = 1 << 20
"""Words whose terms are remembered while an index is built."""
_NO_TERM = -1
"""The number of stop words."""
_MAX_COUNTS = 1 << 16
"""Different pairs of a frequency and a length's byte in one index: their number fits into a code."""


def build_catalogue(files: DataFolder, target: Path) -> None:
    """Build the folder of a catalogue. It is there when it is whole, and only then.

    Raises:
        CatalogueError: A file has a broken entry, or the catalogue has no product.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f"{target.name}.", suffix=".partial", dir=target.parent))
    try:
        with ExitStack() as stack:
            _Build(partial, stack).run(files)
        try:
            partial.rename(target)
        except OSError:
            if not target.is_dir():  # another process was quicker
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def draw_synthetic_goals(folder: Path) -> None:
    """Write the synthetic goals of a catalogue that was built; they are many, and seldom played."""
    state = json.loads((folder / "meta.json").read_text(encoding="utf-8"))["rng"]
    rng = Random()  # noqa: S311  (a game)
    rng.setstate((state[0], tuple(state[1]), state[2]))
    prices = MappedArray(folder / "products.prices", "<f8").values
    goals = GoalWriter("synthetic", rng)
    rows = Rows(folder, "products")
    for number in range(len(rows)):
        goals.add(number, Product.from_row(rows[number]), float(prices[number]))
    goals.write(folder)


class _TermNumbers(dict[str, int]):
    """The numbers of words' terms, found once for each word."""

    def __init__(self, index: IndexWriter) -> None:
        super().__init__()
        self._index = index

    def __missing__(self, word: str) -> int:
        term = find_term(word)
        number = _NO_TERM if term is None else self._index.number_of(term)
        if len(self) < _MAX_WORDS:
            self[word] = number
        return number


class _Build:
    """One pass over the products."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._rows = stack.enter_context(closing(RowWriter(folder, "products")))
        self._terms = stack.enter_context(closing(IndexWriter(folder, "terms")))
        self._groups = stack.enter_context(closing(IndexWriter(folder, "groups")))
        self._numbers: dict[str, int] = {}
        self._prices: list[float] = []
        self._instructed: list[tuple[int, Product]] = []
        self._words = _TermNumbers(self._terms)
        self._counts: dict[tuple[int, int], int] = {}
        self._lengths = array("I")
        self._rng = Random(SEED)  # noqa: S311  (a game)

    def run(self, files: DataFolder) -> None:
        attributes = _read_attributes(files.attributes)
        human = {} if files.human is None else _read_human(files.human)
        for line, _, raw in read_entries(files.products, "a product"):
            product = read_product(raw, f"{files.products}, line {line}")
            if product is not None and product.asin not in self._numbers:
                extra = attributes.get(product.asin, {})
                self._add(replace(product, **extra, human=human.get(product.asin, ())))
        if not self._numbers:
            raise CatalogueError(f"{files.products}: no products: expected at least one")
        self._finish()

    def _add(self, product: Product) -> None:
        number = len(self._numbers)
        self._numbers[product.asin] = number
        self._rows.append(product.as_row())
        self._prices.append(draw_price(product, self._rng))
        if product.human:
            self._instructed.append((number, product))
        groups = {
            f"c:{product.category}",
            f"q:{product.query}",
            *(f"a:{attribute}" for attribute in product.attributes),
        }
        self._groups.add(number, {self._groups.number_of(key): 0 for key in sorted(groups)})
        self._add_terms(number, product.searched_text)

    def _add_terms(self, number: int, text: str) -> None:
        terms = Counter(map(self._words.__getitem__, split_words(text)))
        terms.pop(_NO_TERM, 0)
        length = terms.total()
        self._lengths.append(length)
        rounded = length_code(length)
        self._terms.add(number, {term: self._code_of(count, rounded) for term, count in terms.items()})

    def _code_of(self, frequency: int, rounded: int) -> int:
        code = self._counts.setdefault((frequency, rounded), len(self._counts))
        if code == _MAX_COUNTS:
            raise CatalogueError(
                f"expected at most {_MAX_COUNTS:,} different pairs of how often a word is in a product and "
                f"how many words the product has, and there are more"
            )
        return code

    def _finish(self) -> None:
        self._rows.finish()
        self._terms.finish()
        self._groups.finish()
        write_array(self._folder / "products.prices", np.array(self._prices, dtype="<f8"))
        self._write_asins()
        documents = sum(map(bool, self._lengths))
        average = sum(self._lengths) / documents if documents else 1.0
        write_array(self._folder / "products.lengths", np.array(self._lengths, dtype="<u4"))
        counts = np.array(list(self._counts), dtype="<u4").reshape(-1, 2)
        write_array(self._folder / "terms.counts", counts)
        _write_peaks(self._folder, make_growth_table(average, counts))
        state = self._rng.getstate()
        self._write_goals("human")
        meta = {
            "products": len(self._numbers),
            "documents": documents,
            "average_length": average,
            "rng": state,
        }
        (self._folder / "meta.json").write_text(json.dumps(meta), encoding="utf-8")

    def _write_asins(self) -> None:
        asins = sorted(
            (asin.encode("utf-8", "surrogatepass"), number) for asin, number in self._numbers.items()
        )
        write_keys(self._folder, "asins", [asin for asin, _ in asins])
        numbers = np.array([number for _, number in asins], dtype="<u4")
        ranks = np.empty_like(numbers)
        ranks[numbers] = np.arange(len(numbers), dtype="<u4")
        write_array(self._folder / "asins.numbers", numbers)
        write_array(self._folder / "asins.ranks", ranks)

    def _write_goals(self, kind: GoalKind) -> None:
        goals = GoalWriter(kind, self._rng)
        for number, product in self._instructed:
            goals.add(number, product, self._prices[number])
        goals.write(self._folder)


def _write_peaks(folder: Path, growth: NDArray[np.float32]) -> None:
    """Write for each term the largest entry of the growth table among its products."""
    starts = MappedArray(folder / "terms.starts", "<i8").values
    codes = MappedArray(folder / "terms.codes", "<u2").values
    peaks = np.empty(len(starts) - 1, dtype="<f4")
    first = 0
    while first < len(peaks):
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + PAIRS_AT_ONCE, side="right")) - 1)
        values = growth[codes[starts[first] : starts[last]]]
        peaks[first:last] = np.maximum.reduceat(values, starts[first:last] - starts[first])
        first = last
    write_array(folder / "terms.peaks", peaks)


def _read_attributes(path: Path) -> dict[str, dict[str, Any]]:
    return dict(_attribute_rows(path))


def _attribute_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    shared: dict[tuple[str, ...], tuple[str, ...]] = {}
    for line, asin, raw in read_entries(path, "the attributes of a product"):
        where = f"{path}, line {line}"
        if not asin or not isinstance(raw, dict):
            raise CatalogueError(f"{where}: expected an object of attributes by asin, got {raw!r:.80}")
        entry = cast("Mapping[str, Any]", raw)
        attributes = texts_of(entry.get("attributes", list(NO_ATTRIBUTES)), "'attributes'", where)
        wanted = texts_of(entry.get("instruction_attributes") or [], "'instruction_attributes'", where)
        instruction = entry.get("instruction")
        if instruction is not None and not isinstance(instruction, str):
            raise CatalogueError(f"{where}: expected 'instruction' as a text, got {instruction!r:.80}")
        yield (
            asin,
            {
                "attributes": shared.setdefault(attributes, attributes),
                "instruction": instruction,
                "instruction_attributes": shared.setdefault(wanted, wanted),
            },
        )


def _read_human(path: Path) -> dict[str, tuple[dict[str, Any], ...]]:
    return {
        asin: human_rows(raw, f"{path}, line {line}")
        for line, asin, raw in read_entries(path, "the instructions for a product")
    }
