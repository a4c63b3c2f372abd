"""The words that exercises are made of; their order is part of the tasks' identity.

Adding, removing or moving an entry changes the generated tasks; `generator.EDITION` must then change too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ors_server_tasks.shell.draw import Draw


def _list(text: str) -> tuple[str, ...]:
    return tuple(text.split())


WORDS = _list(
    "river lantern garden window copper morning bridge velvet harbor meadow candle thunder orchard "
    "pebble journey whisper marble ladder winter summer island forest castle pocket mirror kettle "
    "blanket feather needle anchor compass beacon cottage valley market station engine signal paper "
    "letter basket button hammer ribbon saddle turtle falcon badger otter salmon walnut pepper ginger "
    "barley clover thistle cedar willow maple granite cobalt crimson amber silver golden quiet narrow "
    "gentle hollow distant early bitter steady bright clever humble"
)
STOPWORDS = ("the", "and", "of", "to", "in", "on", "with", "under", "over", "from")
FIRST_NAMES = _list(
    "Ada Amina Beatriz Carla Chloe Dana Elif Emma Fatima Freya Grace Hana Ingrid Isla Jasmine Julia "
    "Kavya Keiko Leila Lucia Adam Ahmed Andre Ben Carlos Chen Daniel David Diego Elias Ethan Farid Felix "
    "Gabriel Hassan Henry Hugo Ivan Jamal Jonas"
)
LAST_NAMES = _list(
    "Abbott Baker Costa Dietrich Eriksen Fischer Garcia Hughes Ibrahim Jensen Kowalski Lindgren Moreau "
    "Nakamura Okafor Petrov Quinn Rossi Silva Tanaka Ueda Varga Weber Yilmaz Zhang"
)
USERS = _list(
    "alice bob carol dave erin frank grace heidi ivan judy kevin laura mallory nina oscar peggy quentin "
    "rupert sybil trent ursula victor walter xenia yusuf zoe"
)
CITIES = _list(
    "Lisbon Oslo Quito Nairobi Hanoi Lima Turin Ghent Osaka Perth Tampere Porto Leeds Krakow Bergen Dakar "
    "Davao Malmo"
)
PRODUCTS = _list(
    "anvil bracket caliper drill easel flange gasket hinge inverter jack kiln lathe mallet nozzle oven "
    "pulley quill rivet spanner torch union valve winch yoke"
)
SERVICES = _list(
    "auth billing catalog checkout gateway inventory mailer orders payments profile search shipping"
)
HOSTS = _list("apollo boreas ceres demeter eos fauna gaia helios iris juno kronos luna")
PAGES = _list(
    "/ /about /cart /checkout /login /logout /products /products/42 /search /api/v1/items /api/v1/users "
    "/api/v2/orders /static/app.js /static/site.css /help /contact"
)
EXTENSIONS = _list("txt md csv json log png jpg pdf py sh html yml")
MONTHS = _list("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec")
DEPARTMENTS = ("sales", "support", "research", "finance", "legal", "design", "logistics")


def words(draw: Draw, count: int) -> list[str]:
    """Draw `count` different words."""
    return draw.pick_some(WORDS, count)


def sentence(draw: Draw, least: int = 4, max_words: int = 10) -> str:
    """Draw a line of words in lower case, with small words between; the same word may come twice."""
    return " ".join(
        draw.pick(STOPWORDS if draw.chance(25) else WORDS) for _ in range(draw.between(least, max_words))
    )


def paragraph(draw: Draw, lines: int) -> str:
    """Draw several lines, each ended by a newline."""
    return "".join(f"{sentence(draw)}\n" for _ in range(lines))


def ip_address(draw: Draw) -> str:
    """Draw an address of a private network."""
    return f"10.{draw.between(0, 9)}.{draw.between(0, 99)}.{draw.between(2, 250)}"


def day(draw: Draw, year: int = 2025) -> str:
    """Draw a date such as 2025-03-09."""
    return f"{year}-{draw.between(1, 12):02d}-{draw.between(1, 28):02d}"
