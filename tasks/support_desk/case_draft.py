"""A case while it is drawn: a small shop with customers, products and orders, around one request."""

from dataclasses import dataclass, field
from datetime import date, timedelta

from ors_server_tasks.support_desk.desk import Call
from ors_server_tasks.support_desk.draw import Draw
from ors_server_tasks.support_desk.records import Address, Customer, OrderItem, Purchase

FIRST_NAMES = (
    *("Ada", "Bruno", "Carla", "Dmitri", "Elif", "Farid", "Greta", "Hugo", "Ines", "Jonas", "Keiko", "Luca"),
    *(
        "Marta",
        "Nadia",
        "Oskar",
        "Paula",
        "Quentin",
        "Rosa",
        "Sami",
        "Tilda",
        "Umar",
        "Vera",
        "Wanda",
        "Yusuf",
    ),
)
SURNAMES = (
    *("Abara", "Bergholt", "Castellan", "Drummel", "Eskildsen", "Fontane", "Grabow", "Halloran", "Ibsgaard"),
    *("Jarosz", "Kettering", "Lindqvist", "Moreau", "Nakata", "Okonjo", "Pellworth", "Rastogi", "Sandoval"),
)
STREETS = (
    *(
        "Harbour Road",
        "Mill Lane",
        "Station Street",
        "Elm Avenue",
        "Quarry Hill",
        "Orchard Close",
        "Canal Walk",
    ),
    *("Foundry Street", "Lime Grove", "Chapel Row", "Bridge Street", "Meadow View"),
)
CITIES = (
    "Millfield",
    "Port Arden",
    "Eastholm",
    "Brackwater",
    "Lower Senn",
    "Tallow Bay",
    "Wexmoor",
    "Overby",
)
CHEAP = (
    *(
        ("kettle", 34_90),
        ("toaster", 42_50),
        ("desk lamp", 27_95),
        ("wool blanket", 58_00),
        ("frying pan", 39_90),
    ),
    *(
        ("wall clock", 24_50),
        ("teapot", 31_20),
        ("bath towel", 14_75),
        ("bread knife", 22_40),
        ("mirror", 61_30),
    ),
    *(("coat rack", 48_60), ("storage box", 17_80), ("kitchen scale", 29_15), ("door mat", 19_99)),
)
COSTLY = (
    *(("armchair", 349_00), ("espresso machine", 419_50), ("bookcase", 268_00), ("garden table", 289_90)),
    *(("vacuum cleaner", 244_00), ("air purifier", 231_75)),
)
"""Products and their prices in cents; one of the costly ones is above the limit of a refund."""

DAY = timedelta(days=1)


@dataclass(slots=True)
class Request:
    """What the customer of a case wants, and what handles it."""

    opening: str
    """The customer's first message."""
    goal: str
    facts: list[tuple[tuple[str, ...], str]]
    """Phrases, and what the customer says when a message has one."""
    refusals: list[tuple[tuple[str, ...], str]]
    """Phrases, and how the customer refuses what a message proposes with one."""
    solution: list[Call]
    """The calls after the check of the PIN that handle the case, with the last one."""
    is_verified: bool = True
    """Whether the PIN is asked for and checked before."""
    has_pin: bool = True
    """Whether the customer knows the PIN."""


@dataclass(slots=True)
class CaseDraft:
    """Customers, orders and stock of one case; the first customer is the one who writes."""

    draw: Draw
    today: date = field(init=False)
    customers: list[Customer] = field(init=False)
    orders: list[Purchase] = field(default_factory=list[Purchase], init=False)
    stock: dict[str, int] = field(default_factory=dict[str, int], init=False)
    _products: list[tuple[str, int]] = field(init=False)
    _costly: list[tuple[str, int]] = field(init=False)
    _numbers: list[int] = field(init=False)

    def __post_init__(self) -> None:
        draw = self.draw
        self.today = date(2031, 3, 1) + DAY * draw.below(200)
        self._products = draw.pick_some(CHEAP, len(CHEAP))
        self._costly = draw.pick_some(COSTLY, len(COSTLY))
        self._numbers = draw.pick_some(range(1000, 10_000), 40)
        surnames = draw.pick_some(SURNAMES, 3)
        names = zip(draw.pick_some(FIRST_NAMES, 4), [surnames[0], *surnames], strict=True)
        self.customers = [self._make_customer(first, last) for first, last in names]

    @property
    def me(self) -> Customer:
        """The customer who writes."""
        return self.customers[0]

    def _make_customer(self, first: str, last: str) -> Customer:
        pin = f"{self.draw.between(0, 999_999):06d}"
        email = f"{first}.{last}@{self.draw.pick(('postbox', 'inbox', 'letters'))}.example".lower()
        return Customer(f"C-{self._number()}", f"{first} {last}", email, pin)

    def _number(self) -> int:
        return self._numbers.pop()

    def line(self, *, is_costly: bool = False, quantity: int = 1, in_stock: int = 9) -> OrderItem:
        """Make a line of a product that no other order has."""
        name, price = (self._costly if is_costly else self._products).pop()
        initials = "".join(word[0] for word in f"{name} {name[1:]}".split())[:2].upper()
        sku = f"{initials}-{self._number()}"
        self.stock[sku] = in_stock
        return OrderItem(sku, name, price, quantity)

    def address(self) -> Address:
        """Make an address."""
        draw = self.draw
        street = f"{draw.between(1, 98)} {draw.pick(STREETS)}"
        return Address(street, draw.pick(CITIES), f"{draw.between(10_000, 98_999)}")

    def order(
        self, status: str, lines: list[OrderItem], *, owner: Customer | None = None, days_ago: int = 0
    ) -> Purchase:
        """Add an order.

        Args:
            days_ago: Days since a delivered order arrived, or since the expected day of another order.
        """
        arrival = self.today - DAY * days_ago
        order = Purchase(
            order_id=f"O-{self._number()}",
            customer_id=(owner or self.me).customer_id,
            status=status,
            placed=min(arrival, self.today) - DAY * self.draw.between(3, 6),
            estimated=arrival,
            delivered=arrival if status == "delivered" else None,
            lines=tuple(lines),
            address=self.address(),
        )
        self.orders.append(order)
        return order

    def recent(self, lines: list[OrderItem]) -> Purchase:
        """Add an order that was delivered within the days of returns."""
        return self.order("delivered", lines, days_ago=self.draw.between(2, 28))

    def fill(self) -> None:
        """Add orders that have nothing to do with the request."""
        kinds = (("processing", -5), ("shipped", -2), ("delivered", 12), ("delivered", 55))
        for owner in self.customers:
            for status, days_ago in self.draw.pick_some(kinds, 1 + (owner is not self.me)):
                if self._products:
                    self.order(status, [self.line()], owner=owner, days_ago=days_ago)
