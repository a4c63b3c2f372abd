"""The people, things and places of the stories; their order is part of the tasks' identity.

Adding, removing or moving an entry changes the generated tasks; `generator.EDITION` must then change too.
"""

from __future__ import annotations

from ors_server_tasks.math_word_problems.draw import Draw
from ors_server_tasks.math_word_problems.english import Person, noun

_WOMEN = (
    "Ada Amina Beatriz Carla Chloe Dana Elif Emma Fatima Freya Grace Hana Ingrid Isla Jasmine Julia Kavya "
    "Keiko Leila Lucia Maya Mei Nadia Naomi Nora Olivia Petra Priya Rosa Ruth Sofia Tara Valeria Yara "
    "Zainab Zoe"
)
_MEN = (
    "Adam Ahmed Andre Ben Carlos Chen Daniel David Diego Elias Ethan Farid Felix Gabriel Hassan Henry Hugo "
    "Ivan Jamal Jonas Kenji Kofi Leo Liam Luca Malik Marco Mateo Noah Omar Oscar Pavel Ravi Samuel Tomas "
    "Victor Yusuf"
)
PEOPLE = (
    *(Person(name, "she", "her", "her") for name in _WOMEN.split()),
    *(Person(name, "he", "him", "his") for name in _MEN.split()),
)

KEEPSAKES = (
    noun("marble"),
    noun("sticker"),
    noun("stamp"),
    noun("baseball card"),
    noun("seashell"),
    noun("button"),
    noun("bead"),
    noun("coin"),
    noun("postcard"),
    noun("badge"),
    noun("bookmark"),
    noun("toy car"),
    noun("key ring"),
    noun("comic book"),
    noun("fridge magnet"),
    noun("fossil"),
)
"""Small things that people collect, give away and share."""

FRUIT = (
    noun("apple"),
    noun("orange"),
    noun("pear"),
    noun("peach", "peaches"),
    noun("plum"),
    noun("lemon"),
    noun("mango", "mangoes"),
    noun("apricot"),
    noun("fig"),
    noun("tomato", "tomatoes"),
    noun("lime"),
    noun("tangerine"),
)

BAKED = (
    noun("cookie"),
    noun("muffin"),
    noun("cupcake"),
    noun("bagel"),
    noun("roll"),
    noun("scone"),
    noun("doughnut"),
    noun("pretzel"),
    noun("croissant"),
    noun("pie"),
)

SUPPLIES = (
    noun("pencil"),
    noun("eraser"),
    noun("marker"),
    noun("crayon"),
    noun("folder"),
    noun("notebook"),
    noun("ruler"),
    noun("envelope"),
    noun("paintbrush", "paintbrushes"),
    noun("glue stick"),
)
"""Things that come in packs and are handed out."""

CHEAP_GOODS = (
    noun("notebook"),
    noun("candle"),
    noun("mug"),
    noun("sandwich", "sandwiches"),
    noun("pen"),
    noun("bottle of juice", "bottles of juice"),
    noun("magazine"),
    noun("bar of soap", "bars of soap"),
    noun("greeting card"),
    noun("jar of honey", "jars of honey"),
    noun("plant pot"),
    noun("loaf of bread", "loaves of bread"),
    noun("pair of socks", "pairs of socks"),
    noun("box of tea", "boxes of tea"),
)
"""Things that cost between $1 and $10."""

COSTLY_GOODS = (
    noun("jacket"),
    noun("backpack"),
    noun("lamp"),
    noun("bicycle"),
    noun("tent"),
    noun("keyboard"),
    noun("guitar"),
    noun("armchair"),
    noun("telescope"),
    noun("coffee machine"),
    noun("sewing machine"),
    noun("winter coat"),
    noun("pair of boots", "pairs of boots"),
    noun("drone"),
    noun("desk"),
    noun("printer"),
)
"""Things that cost between $40 and $400."""

CONTAINERS = (
    noun("box", "boxes"),
    noun("basket"),
    noun("bag"),
    noun("crate"),
    noun("tray"),
    noun("carton"),
)

SEATED_PLACES = ("theater", "concert hall", "cinema", "lecture hall", "circus tent", "stadium stand")
VISITED_PLACES = (
    "museum",
    "zoo",
    "aquarium",
    "castle",
    "botanical garden",
    "science center",
    "water park",
    "planetarium",
)
CLUBS = ("chess club", "swimming club", "choir", "hiking club", "book club", "drama club", "robotics club")
SHOPS = ("shop", "department store", "market stall", "garden center", "online store", "gift shop")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
COLORS = ("red", "blue", "green", "yellow", "white", "black", "purple")
TOWNS = (
    "Ashford",
    "Brookfield",
    "Cedarville",
    "Dunmore",
    "Eastwick",
    "Fairview",
    "Glenwood",
    "Harlow",
    "Kingsport",
)


def people(draw: Draw, count: int) -> list[Person]:
    """Draws `count` different people, in random order."""
    return draw.pick_some(PEOPLE, count)


def person(draw: Draw) -> Person:
    """Draws one person."""
    return draw.pick(PEOPLE)
