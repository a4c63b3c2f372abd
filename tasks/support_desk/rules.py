"""The desk's rules: what is allowed on which order, as pure functions of records and days."""

from datetime import date, timedelta
from enum import StrEnum

from ors_server_tasks.support_desk.reading import dollars
from ors_server_tasks.support_desk.records import Purchase

RETURN_DAYS = 30
"""Days after delivery in which items are refunded or replaced."""
REFUND_LIMIT = 200_00
"""Cents of the refunds of one order that the desk may pay; more needs a supervisor."""
LATE_DAYS = 3
"""Days from today in which a delivery is promised whose expected day is past."""

CLOSING_CODES = (
    "resolved",
    "refused_return_window",
    "refused_already_shipped",
    "refused_not_their_order",
    "escalated",
)
ESCALATION_REASONS = ("over_limit", "safety", "identity")


class Rule(StrEnum):
    """A rule that a call can break."""

    IDENTITY = "identity"
    """Something was done for a customer whose PIN had not been checked."""
    RETURN_WINDOW = "return_window"
    """A refund or replacement of an order that was not delivered, or too long ago."""
    REFUND_LIMIT = "refund_limit"
    """A refund beyond the desk's limit."""
    ALREADY_SHIPPED = "already_shipped"
    """A cancellation or a new address of an order that was not processing any more."""
    OUT_OF_STOCK = "out_of_stock"
    """A replacement that is not in stock."""
    PROMISE = "promise"
    """A promise of another day than the rules have, or for an order that is not on its way."""
    NO_FAILED_CHECK = "no_failed_check"
    """An escalation for a wrong PIN, without one."""


RULES_TEXT = f"""\
1. Ask the customer for the service PIN and check it with verify_identity before you change or promise
   anything, before you refuse a request, and before you escalate a refund. If the PIN is wrong, change
   nothing: escalate the order with the reason identity. An order is changed only for the customer to whom it
   belongs.
2. Items of a delivered order are refunded or replaced until {RETURN_DAYS} days after the day of delivery. A
   refund is exactly the price of the pieces that come back. Faulty pieces are replaced if the customer wants
   that and the product is in stock; if it is not in stock, they are refunded.
3. A refund of more than {dollars(REFUND_LIMIT)} needs a supervisor: pay nothing, and escalate the order with
   the reason over_limit.
4. An order is cancelled, or gets another address, only while its status is processing. A cancellation pays
   everything back by itself.
5. For a shipped order you promise, with promise_delivery, its expected day; if that day is past, the day that
   is {LATE_DAYS} days from today. You promise nothing for other orders, and no other day.
6. If a product has hurt somebody or was a danger, escalate the order with the reason safety, and do nothing
   else; for this no PIN is needed.
7. Do what the customer asks for if the rules allow it, and nothing else. Then end the case with close_case
   and a code: resolved, refused_return_window, refused_already_shipped, refused_not_their_order, or
   escalated."""


def is_returnable(order: Purchase, today: date) -> bool:
    """Return whether items of an order may be refunded or replaced."""
    return order.delivered is not None and today <= order.delivered + timedelta(days=RETURN_DAYS)


def is_changeable(order: Purchase) -> bool:
    """Return whether an order may be cancelled or sent elsewhere."""
    return order.status == "processing"


def day_to_promise(order: Purchase, today: date) -> date | None:
    """Return the only day that may be promised; `None` if no day may be promised."""
    if order.status != "shipped":
        return None
    return order.estimated if order.estimated >= today else today + timedelta(days=LATE_DAYS)
