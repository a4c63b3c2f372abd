"""Invented names. Each is put together from pieces, and belongs to one split for ever.

No name of a place, a book or a company has a word in it that says what it is: a gold answer "River Tamm"
would pay two thirds for the word "river".
"""

import hashlib
from collections.abc import Iterator

from ors_server_tasks.qa.draw import Draw
from ors_server_tasks.qa.english import words

_QUARTERS = {"train": (0, 1), "validation": (2,), "test": (3,)}
"""Which quarters of all possible names each split draws from."""

_PIECES = {
    "town": (
        words(
            "Brask Cald Dorv Eskar Fenn Gorl Hesk Ilmar Jorv Kels Lunn Morv Nesk Ostr Pell Quen Rask "
            "Skell Tarv Ulm Vost Wend Yarl Zell Brun Ketter Lamm Otter Pind Sorrel"
        ),
        words(
            "wick by mouth stead holt ford ham mere dale field port haven ness thorpe gate bury ley "
            "low beck combe ster worth garth firth"
        ),
    ),
    "river": (
        words(
            "Aev Brell Chard Dremm Elv Fess Gann Hoss Irv Jemm Kolt Luss Mezz Narr Oss Prenn Ryl Sarn "
            "Tamm Uld"
        ),
        words("a e el en er ia in is ona or ova une ush y ael amo etta iven olt usk"),
    ),
    "mountain": (
        words("Kor Tav Brag Hul Zor Mund Grim Shar Vel Rok Drum Skar Orr Nev Tor Gal"),
        words("rabel nagh dane vast motto ketil strand ulfa brenn hildo maren gorra"),
    ),
    "sea": (words("Pal Mir Cor Sav Ven Nor Tis Lor"), words("aveth idane ossa umbra entis arla")),
    "region": (
        words("Alder Birken Copper Dray Elder Frost Gild Hazel Iron Juniper Kestrel Linden Moss Nether"),
        words("mark shire reach moor vale lund wold march"),
    ),
    "company": (
        words("Vel Ard Brim Cant Dex Ellor Fum Gav Hex Imm Jul Kant Lor Mex Nov Optim Prax Quor Rend Sylv"),
        words("limark tonix adine orvo essa ulane imber ostat ivium arro entra oxel undo iska aphor elgo"),
    ),
    "surname": (
        words(
            "Brel Cand Dass Ever Fal Garr Holb Inch Jessam Kolb Lind Marr Nord Oak Pember Quill Rost "
            "Sed Thorn Und Vann Whit"
        ),
        words("ick ane er otte ley strom ano ecki ford in aker ette ow ander is elle"),
    ),
}
"""Beginnings and ends by kind of name."""

FIRST_NAMES = words(
    "Ada Agnes Alma Anton Astrid August Beata Bela Boris Clara Conrad Dora Edith Edmund Elsa Emil "
    "Erik Esther Felix Flora Frida Georg Gerda Greta Gustav Hanna Harald Hedda Helmut Ida Ingrid Ivo "
    "Jakob Johan Josef Judith Karin Kaspar Klara Konrad Lars Lena Leo Lidia Linus Lotte Magnus Marta "
    "Matilda Max Mina Nils Nora Olaf Olga Oskar Otto Paula Petra Ragnar Rosa Rudolf Selma Sigrid "
    "Sofia Sven Tekla Tilda Ulrich Vera Viktor Wanda"
)
_ADJECTIVES = words(
    "Amber Borrowed Broken Cold Copper Crooked Distant Drowned Empty Endless Faithful Forgotten "
    "Gilded Hollow Hungry Idle Ivory Last Lonely Lost Moonlit Narrow Northern Painted Patient Pale "
    "Quiet Restless Rusted Sapphire Scarlet Second Silent Sleeping Stolen Sunken Tattered Velvet "
    "Wandering Winter"
)
_THINGS = words(
    "Almanac Anchor Arithmetic Atlas Beekeeper Bell Bridge Candle Carousel Cartographer Cathedral "
    "Clock Compass Corridor Ferryman Garden Glassmaker Harbour Harvest Hourglass Island Kingdom "
    "Lantern Ledger Letter Lighthouse Lullaby Mirror Notebook Orchard Parliament Pilgrim Quarry "
    "Railway Sailor Shepherd Staircase Telescope Tide Wedding"
)


class Names:
    """The names of one split in a random order; none is given out twice."""

    def __init__(self, seed: str, split: str) -> None:
        """Starts with all names unused.

        Args:
            seed: Decides the order.
            split: A key of the splits; no other split has the same names.
        """
        self._draw = Draw(f"{seed}/names")
        self._split = split
        self._unused: dict[str, Iterator[str]] = {}

    def next(self, kind: str) -> str:
        """Returns an unused name.

        Args:
            kind: town, river, mountain, sea, region, company, surname, person or book.

        Raises:
            RuntimeError: If the pieces make no more of them.
        """
        if kind not in self._unused:
            usable = [name for name in _all_names(kind) if quarter(name) in _QUARTERS[self._split]]
            self._unused[kind] = iter(self._draw.shuffle(usable))
        fresh = next(self._unused[kind], None)
        if fresh is None:
            raise RuntimeError(f"there are no more names for a {kind}; add pieces")
        return fresh


def surnames() -> list[str]:
    """Every surname, in order, whichever split it belongs to."""
    return _all_names("surname")


def quarter(name: str) -> int:
    """The quarter in [0, 4) of all names to which this one belongs."""
    return hashlib.sha256(name.encode()).digest()[0] % 4


def _all_names(kind: str) -> list[str]:
    if kind == "person":
        return [f"{first} {last}" for last in _all_names("surname") for first in FIRST_NAMES]
    if kind == "book":
        return [f"The {adjective} {thing}" for adjective in _ADJECTIVES for thing in _THINGS]
    beginnings, ends = _PIECES[kind]
    return [f"{first}{last}" for first in beginnings for last in ends]
