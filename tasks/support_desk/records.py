"""The shop's records: customers, and orders with their lines. Data with a JSON form; amounts are cents."""

from dataclasses import asdict, dataclass, replace
from datetime import date
from typing import Any


@dataclass(frozen=True, slots=True)
class Customer:
    """A customer of the shop."""

    customer_id: str
    name: str
    email: str
    pin: str
    """The service PIN, six digits, which the desk checks and never sees."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where an order goes."""

    street: str
    city: str
    postcode: str

    def __str__(self) -> str:
        """Return the address on one line."""
        return f"{self.street}, {self.postcode} {self.city}"


@dataclass(frozen=True, slots=True)
class OrderItem:
    """Some pieces of one product."""

    sku: str
    name: str
    unit_price: int
    quantity: int

    @property
    def price(self) -> int:
        """The price of all pieces."""
        return self.unit_price * self.quantity


@dataclass(frozen=True, slots=True)
class Purchase:
    """An order of a customer."""

    order_id: str
    customer_id: str
    status: str
    """processing, shipped, delivered or cancelled."""
    placed: date
    estimated: date
    """The day on which it is expected to arrive."""
    delivered: date | None
    """The day on which it arrived; `None` before."""
    lines: tuple[OrderItem, ...]
    address: Address

    def as_json(self) -> dict[str, Any]:
        """Return the order as JSON."""
        days = {"placed": str(self.placed), "estimated": str(self.estimated)}
        delivered = None if self.delivered is None else str(self.delivered)
        return {
            **asdict(self),
            **days,
            "delivered": delivered,
            "lines": [asdict(line) for line in self.lines],
        }

    def with_status(self, status: str) -> "Purchase":
        """Return the order with another status."""
        return replace(self, status=status)

    def with_address(self, address: Address) -> "Purchase":
        """Return the order with another address."""
        return replace(self, address=address)


def read_order(record: dict[str, Any]) -> Purchase:
    """Read an order's JSON."""
    return Purchase(
        order_id=record["order_id"],
        customer_id=record["customer_id"],
        status=record["status"],
        placed=date.fromisoformat(record["placed"]),
        estimated=date.fromisoformat(record["estimated"]),
        delivered=None if record["delivered"] is None else date.fromisoformat(record["delivered"]),
        lines=tuple(OrderItem(**line) for line in record["lines"]),
        address=Address(**record["address"]),
    )
