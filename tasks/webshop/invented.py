"""The invented catalogue, in the format of WebShop's files: the same bytes on every machine.

Every text is made here; nothing comes from a shop. A larger catalogue of the same form is made for tests of
size.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any, Self

from ors_server_tasks.webshop.vocabulary import ProductKind, read_vocabulary

EDITION = "2"
"""Changes whenever a product or an instruction changes."""
_SEED = "webshop/1"
"""Beginning of the seeds of products and instructions."""
PRODUCTS = 1000
"""Products of the catalogue."""
INSTRUCTIONS = 2
"""Instructions for each product."""

_FILES = (("items_shuffle.json", "[]"), ("items_ins_v2.json", "{}"), ("items_human_ins.json", "{}"))
_ASIN_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ASIN_LENGTH = 8
_SHARE_OF_RANGES = 5
"""One of so many products has a range of prices."""


def write_invented(folder: Path, products: int = PRODUCTS) -> Path:
    """Write the three files of a catalogue if the folder is not there, and return the folder.

    Args:
        products: How many; the first ones of a larger catalogue are those of a smaller one. Those after the
            first 1,000 have no instructions.
    """
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", suffix=".partial", dir=folder.parent))
    try:
        _write(partial, products)
        try:
            partial.rename(folder)
        except OSError:
            if not folder.is_dir():  # another process was quicker
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def _write(folder: Path, products: int) -> None:
    with ExitStack() as stack:
        files = [stack.enter_context(_JsonFile(folder / name, brackets)) for name, brackets in _FILES]
        shuffle, attributed, human = files
        texts: set[str] = set()
        for number, (raw, attributes) in enumerate(make_products(products)):
            shuffle.add(raw)
            attributed.add(_synthetic(raw, attributes), raw["asin"])
            if number < PRODUCTS:
                rows = [_draw_new(raw, attributes, f"{number}/{turn}", texts) for turn in range(INSTRUCTIONS)]
                human.add(rows, raw["asin"])


class _JsonFile:
    """A JSON list or object with one entry in each line."""

    def __init__(self, path: Path, brackets: str) -> None:
        self._file = path.open("w", encoding="utf-8")
        self._end = f"\n{brackets[1]}\n"
        self._before = f"{brackets[0]}\n"

    def add(self, value: object, key: str | None = None) -> None:
        name = "" if key is None else f"{json.dumps(key)}: "
        self._file.write(f"{self._before}{name}{json.dumps(value, ensure_ascii=False)}")
        self._before = ",\n"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.write(self._end)
        self._file.close()


def make_products(count: int) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Yield products as rows of WebShop's file, each with its attributes."""
    asins: set[str] = set()
    kinds = read_vocabulary().kinds
    for number in range(count):
        rng = Random(f"{_SEED}/{number}")  # noqa: S311  (a game)
        asin = _asin(rng)
        while asin in asins:
            asin = _asin(rng)
        asins.add(asin)
        yield _make_product(asin, kinds[number % len(kinds)], rng)


def _make_product(asin: str, kind: ProductKind, rng: Random) -> tuple[dict[str, Any], list[str]]:
    words = read_vocabulary()
    brand = "".join(rng.sample(words.syllables, 2)).capitalize() + rng.choice(words.endings)
    noun, style, purpose = rng.choice(kind.nouns), rng.choice(words.styles), rng.choice(words.purposes)
    attributes = rng.sample(kind.attributes, rng.randint(2, 4))
    model = f"{rng.choice(words.syllables).upper()}-{rng.randint(100, 9999)}"
    shown = ", ".join(attribute.title() for attribute in attributes[:2])
    care = [text.format(brand=brand) for text in rng.sample(words.care, 2)]
    low = rng.randint(kind.prices[0] * 100, kind.prices[1] * 100)
    pricing = f"${low / 100:.2f}"
    if rng.randrange(_SHARE_OF_RANGES) == 0:
        pricing += f" to ${(low + rng.randint(100, 2500)) / 100:.2f}"
    raw = {
        "name": f"{brand} {style} {noun} {model}, {shown} for {purpose}",
        "asin": asin,
        "category": kind.category,
        "query": kind.query,
        "product_category": kind.path,
        "pricing": pricing,
        "full_description": (
            f"The {brand} {noun.lower()} {model} has a {style.lower()} look and is for {purpose.lower()}. "
            f"It is {', '.join(attributes)}. {care[0]}"
        ),
        "small_description": [
            *(
                f"{attribute.capitalize()}: a {noun.lower()} that {brand} stands for"
                for attribute in attributes
            ),
            care[1],
        ],
        "customization_options": {
            name: [{"value": value} for value in _choose(values, rng)]
            for name, values in kind.options.items()
        },
        "images": [f"https://example.invalid/{asin}.jpg"],
    }
    return raw, attributes


def _choose(values: list[str], rng: Random) -> list[str]:
    chosen = set(rng.sample(values, rng.randint(2, min(6, len(values)))))
    return [value for value in values if value in chosen]


def _asin(rng: Random) -> str:
    return "B0" + "".join(rng.choices(_ASIN_LETTERS, k=_ASIN_LENGTH))


def _synthetic(raw: dict[str, Any], attributes: list[str]) -> dict[str, Any]:
    wanted = attributes[:2]
    return {
        "attributes": attributes,
        "instruction": f"Find me {' and '.join(wanted)} {raw['query']}",
        "instruction_attributes": wanted,
    }


_BEGINNINGS = ("i am looking for", "i need", "i want to buy", "find me", "please get me")


def _draw_new(raw: dict[str, Any], attributes: list[str], seed: str, texts: set[str]) -> dict[str, Any]:
    """Return an instruction whose text is not among the texts, and add it: equal texts would be one task."""
    rng = Random(f"{_SEED}/{seed}")  # noqa: S311  (a game)
    row = _instruct(raw, attributes, rng)
    while row["instruction"] in texts:
        row = _instruct(raw, attributes, rng)
    texts.add(row["instruction"])
    return row


def _instruct(raw: dict[str, Any], attributes: list[str], rng: Random) -> dict[str, Any]:
    wanted = rng.sample(attributes, rng.randint(1, min(2, len(attributes))))
    groups = [name for name in raw["customization_options"] if rng.randrange(3)]
    chosen = {name: rng.choice(raw["customization_options"][name])["value"].lower() for name in groups}
    noun = next(noun for kind in read_vocabulary().kinds for noun in kind.nouns if f" {noun} " in raw["name"])
    text = f"{rng.choice(_BEGINNINGS)} a {wanted[0]} {noun.lower()}"
    text += f" that is also {wanted[1]}" if len(wanted) > 1 else ""
    text += "".join(f", {name} {value}" for name, value in chosen.items())
    values = [value.strip().replace("/", " | ") for value in chosen.values()]
    return {
        "asin": raw["asin"],
        "instruction": f"{text}.",
        "attributes": attributes,
        "options": [f"{name}: {value}" for name, value in zip(chosen, values, strict=True)],
        "instruction_attributes": wanted,
        "instruction_options": values,
        "assignment_id": "",
        "worker_id": "",
    }
