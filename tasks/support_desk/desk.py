"""The desk's database while a case is handled: what was changed, and which rules were broken.

Tools do what they are asked for, like the tools of a real desk; only what makes no sense is refused. It knows
nothing of episodes and rewards.
"""

from collections.abc import Callable
from datetime import date
from typing import Any, TypeAlias

from ors_server import JSONObject, ToolError
from ors_server_tasks.support_desk import rules
from ors_server_tasks.support_desk.reading import (
    dollars,
    key_of,
    plain,
    read_address_part,
    read_amount,
    read_code,
    read_day,
)
from ors_server_tasks.support_desk.records import Address, Customer, OrderItem, Purchase, read_order
from ors_server_tasks.support_desk.rules import Rule

MAX_CHECKS = 3
"""Checks of one customer's PIN that may fail."""

Call: TypeAlias = tuple[str, dict[str, Any]]
"""Name and arguments of a tool."""


class Desk:
    """The records of one case."""

    def __init__(self, case: JSONObject) -> None:
        """Open the records as the case has them."""
        self.today = date.fromisoformat(case["today"])
        self.contact: str = case["customer_id"]
        """Who writes, or says so."""
        self.customers = {key_of(row["customer_id"]): Customer(**row) for row in case["customers"]}
        self.orders = {key_of(row["order_id"]): read_order(row) for row in case["orders"]}
        self.stock: dict[str, int] = {key_of(sku): count for sku, count in case["stock"].items()}
        self.broken: list[Rule] = []
        """The rules that were broken, in order."""
        self.closed: str | None = None
        """The code with which the case was closed."""
        self.calls: list[Call] = []
        """Every call that had an effect, in order."""
        self._verified: set[str] = set()
        self._failed: dict[str, int] = {}
        self._refunded: dict[tuple[str, str], int] = {}
        self._replaced: dict[tuple[str, str], int] = {}
        self._promised: dict[str, date] = {}
        self._escalated: set[tuple[str, str]] = set()

    def perform(self, name: str, arguments: dict[str, Any]) -> str:
        """Carry out a call that may change something, and return what the agent reads.

        Raises:
            ToolError: If it makes no sense; then nothing has changed.
        """
        actions: dict[str, Callable[..., str]] = {
            "verify_identity": self._verify_identity,
            "refund": self._refund,
            "replace_item": self._replace_item,
            "change_address": self._change_address,
            "cancel_order": self._cancel_order,
            "promise_delivery": self._promise_delivery,
            "escalate": self._escalate,
            "close_case": self._close_case,
        }
        text = actions[name](**arguments)
        self.calls.append((name, arguments))
        return text

    def final_state(self) -> JSONObject:
        """Return everything by which a case is judged, in a form that is the same for any order of calls."""
        return {
            "closed": self.closed,
            "status": {key: order.status for key, order in sorted(self.orders.items())},
            "address": {
                key: [plain(order.address.street), plain(order.address.city), key_of(order.address.postcode)]
                for key, order in sorted(self.orders.items())
            },
            "refunded": {" ".join(line_key): cents for line_key, cents in sorted(self._refunded.items())},
            "replaced": {" ".join(line_key): count for line_key, count in sorted(self._replaced.items())},
            "promised": {key: str(day) for key, day in sorted(self._promised.items())},
            "escalated": sorted(map(list, self._escalated)),
        }

    # Looking things up

    def find_customers(self, query: str) -> list[Customer]:
        """Return the customers whose name has all the words, or whose e-mail address or number it is."""
        words = plain(query).split()
        if not words:
            raise ToolError("The query is empty: give a name, an e-mail address or a customer number.")
        return [
            customer
            for key, customer in self.customers.items()
            if key == key_of(query)
            or plain(customer.email) == plain(query)
            or set(words) <= set(plain(customer.name).split())
        ]

    def customer(self, number: str) -> Customer:
        """Return a customer by number."""
        customer = self.customers.get(key_of(number))
        if customer is None:
            raise ToolError(f"There is no customer {number[:40]!a}; find_customer finds the number.")
        return customer

    def order(self, number: str) -> Purchase:
        """Return an order by number."""
        order = self.orders.get(key_of(number))
        if order is None:
            raise ToolError(f"There is no order {number[:40]!a}; list_orders lists a customer's orders.")
        return order

    def orders_of(self, customer: Customer) -> list[Purchase]:
        """Return a customer's orders, the newest first."""
        own = [order for order in self.orders.values() if order.customer_id == customer.customer_id]
        return sorted(own, key=lambda order: (order.placed, order.order_id), reverse=True)

    def in_stock(self, line: OrderItem) -> int:
        """Return how many pieces of a line's product are in stock."""
        return self.stock.get(key_of(line.sku), 0)

    # Calls with an effect

    def _verify_identity(self, customer_id: str, pin: str) -> str:
        customer = self.customer(customer_id)
        failed = self._failed.get(customer.customer_id, 0)
        if failed >= MAX_CHECKS:
            raise ToolError(f"The PIN of {customer.customer_id} is locked after {MAX_CHECKS} failed checks.")
        if key_of(pin) == customer.pin:
            self._verified.add(customer.customer_id)
            return f"The PIN is right: {customer.name} ({customer.customer_id}) is verified."
        self._failed[customer.customer_id] = failed + 1
        return f"The PIN is wrong: {customer.customer_id} is not verified."

    def _refund(self, order_id: str, sku: str, amount: str | float) -> str:
        order, line, line_key = self._line(order_id, sku)
        cents = read_amount(amount)
        total = self._refunded.get(line_key, 0) + cents
        if total > line.price:
            raise ToolError(
                f"{dollars(line.price)} were paid for {line.sku} of {order.order_id}; {dollars(cents)} more "
                f"would be {dollars(total)}."
            )
        if order.status == "cancelled":
            raise ToolError(f"{order.order_id} is cancelled, and everything was paid back.")
        self._expect(self._owner_is_verified(order), Rule.IDENTITY)
        self._expect(rules.is_returnable(order, self.today), Rule.RETURN_WINDOW)
        self._refunded[line_key] = total
        of_order = sum(paid for (key, _), paid in self._refunded.items() if key == line_key[0])
        self._expect(of_order <= rules.REFUND_LIMIT, Rule.REFUND_LIMIT)
        return f"{dollars(cents)} for {line.name} ({line.sku}) of {order.order_id} are refunded."

    def _replace_item(self, order_id: str, sku: str, quantity: int) -> str:
        order, line, line_key = self._line(order_id, sku)
        count = self._replaced.get(line_key, 0) + quantity
        if quantity < 1 or count > line.quantity:
            raise ToolError(
                f"{order.order_id} has {line.quantity} of {line.sku}, and {quantity} more would make {count}."
            )
        if order.status == "cancelled":
            raise ToolError(f"{order.order_id} is cancelled; nothing of it can be replaced.")
        self._expect(self._owner_is_verified(order), Rule.IDENTITY)
        self._expect(rules.is_returnable(order, self.today), Rule.RETURN_WINDOW)
        self._expect(count <= self.in_stock(line), Rule.OUT_OF_STOCK)
        self._replaced[line_key] = count
        return f"{quantity} new {line.name} ({line.sku}) will be sent for {order.order_id}."

    def _change_address(self, order_id: str, street: str, city: str, postcode: str) -> str:
        order = self.order(order_id)
        address = Address(
            read_address_part(street, "street"),
            read_address_part(city, "city"),
            read_address_part(postcode, "postcode"),
        )
        self._expect(self._owner_is_verified(order), Rule.IDENTITY)
        self._expect(rules.is_changeable(order), Rule.ALREADY_SHIPPED)
        self.orders[key_of(order.order_id)] = order.with_address(address)
        return f"{order.order_id} goes to {address}."

    def _cancel_order(self, order_id: str) -> str:
        order = self.order(order_id)
        if order.status == "cancelled":
            raise ToolError(f"{order.order_id} is cancelled already.")
        self._expect(self._owner_is_verified(order), Rule.IDENTITY)
        self._expect(rules.is_changeable(order), Rule.ALREADY_SHIPPED)
        self.orders[key_of(order.order_id)] = order.with_status("cancelled")
        return f"{order.order_id} is cancelled; what was paid for it goes back to the customer."

    def _promise_delivery(self, order_id: str, date: str) -> str:
        order, day = self.order(order_id), read_day(date)
        self._expect(self._owner_is_verified(order), Rule.IDENTITY)
        self._expect(day == rules.day_to_promise(order, self.today), Rule.PROMISE)
        self._promised[key_of(order.order_id)] = day
        return f"Noted: {order.order_id} is promised for {day}."

    def _escalate(self, order_id: str, reason: str) -> str:
        order, code = self.order(order_id), read_code(reason, rules.ESCALATION_REASONS, "reason")
        if (key_of(order.order_id), code) in self._escalated:
            raise ToolError(f"{order.order_id} is with a supervisor already, with the reason {code}.")
        if code == "over_limit":
            self._expect(self._owner_is_verified(order), Rule.IDENTITY)
        if code == "identity":
            self._expect(self._failed.get(order.customer_id, 0) > 0, Rule.NO_FAILED_CHECK)
        self._escalated.add((key_of(order.order_id), code))
        return f"{order.order_id} is with a supervisor now, with the reason {code}."

    def _close_case(self, code: str) -> str:
        chosen = read_code(code, rules.CLOSING_CODES, "code")
        if chosen.startswith("refused"):
            self._expect(self.contact in self._verified, Rule.IDENTITY)
        self.closed = chosen
        return "The case is closed."

    def _line(self, order_id: str, sku: str) -> tuple[Purchase, OrderItem, tuple[str, str]]:
        order = self.order(order_id)
        key = key_of(sku)
        for line in order.lines:
            if key_of(line.sku) == key:
                return order, line, (key_of(order.order_id), key)
        skus = ", ".join(line.sku for line in order.lines)
        raise ToolError(f"{order.order_id} has no item {sku[:40]!a}; it has {skus}.")

    def _owner_is_verified(self, order: Purchase) -> bool:
        return order.customer_id in self._verified

    def _expect(self, is_kept: bool, rule: Rule) -> None:  # noqa: FBT001  (a condition, and what it breaks)
        if not is_kept:
            self.broken.append(rule)
