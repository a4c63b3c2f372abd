"""The fifteen kinds of requests: each function draws one case around what its customer wants."""

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, TypeAlias

from ors_server_tasks.support_desk.case_draft import DAY, CaseDraft, Request
from ors_server_tasks.support_desk.desk import Call
from ors_server_tasks.support_desk.reading import dollars
from ors_server_tasks.support_desk.records import OrderItem, Purchase
from ors_server_tasks.support_desk.rules import LATE_DAYS

MakeRequest: TypeAlias = Callable[[CaseDraft], Request]

_VOUCHER = (
    ("voucher", "store credit", "gift card", "coupon", "discount"),
    "No, I do not want a voucher or a discount.",
)
_NUMBER = ("order number", "number of the order", "number of your order", "which order", "order id")
_PRODUCT = ("which item", "which product", "which items", "what item", "what product", "sku")
_REASON = (
    "reason",
    "why",
    "what is wrong",
    "what happened",
    "what went wrong",
    "faulty",
    "damaged",
    "defect",
)
_PREFER = ("refund", "money back", "replacement", "replace", "exchange", "prefer")


def refund(case: CaseDraft) -> Request:
    """One of two items comes back in time."""
    line = case.line()
    order = case.recent([line, case.line()])
    return _request(
        case,
        order,
        wants=f"I would like to return the {line.name}. I do not need it after all.",
        goal=f"You want the price of the {line.name} back, and nothing else.",
        facts=_about(line, "I do not need it. It is unused.", "I want my money back."),
        solution=[_refund(order, line, 1), _close("resolved")],
    )


def part_refund(case: CaseDraft) -> Request:
    """Some pieces of a line come back in time."""
    line = case.line(quantity=4)
    order = case.recent([line, case.line()])
    count = case.draw.between(1, 3)
    pieces = f"{count} of the 4"
    return _request(
        case,
        order,
        wants=f"I ordered too many pieces of the {line.name} and want to return some of them.",
        goal=f"You return {pieces} pieces of the {line.name}, and want the price of these pieces back.",
        facts=[
            (("how many", "quantity", "number of pieces"), f"I want to return {pieces}."),
            *_about(line, "They are unused, I ordered too many.", "I want my money back."),
        ],
        solution=[_refund(order, line, count), _close("resolved")],
    )


def late_refund(case: CaseDraft) -> Request:
    """An item comes back too late."""
    line = case.line()
    order = case.order("delivered", [line, case.line()], days_ago=case.draw.between(31, 60))
    return _request(
        case,
        order,
        wants=f"I want my money back for the {line.name}. I have changed my mind.",
        goal=f"You want the price of the {line.name} back, and you are not interested in rules about dates.",
        facts=[
            (
                ("30 days", "return window", "too late", "days ago"),
                "It was not that long ago, please refund it.",
            ),
            *_about(line, "I have changed my mind.", "I want my money back."),
        ],
        solution=[_close("refused_return_window")],
    )


def large_refund(case: CaseDraft) -> Request:
    """A refund is beyond the desk's limit."""
    line = case.line(is_costly=True)
    order = case.recent([line, case.line()])
    return _request(
        case,
        order,
        wants=f"I am sending the {line.name} back and want a refund.",
        goal=f"You want the whole price of the {line.name} back.",
        facts=_about(line, "It is too big for my flat.", "I want my money back."),
        solution=[_escalate(order, "over_limit"), _close("escalated")],
    )


def cancel(case: CaseDraft) -> Request:
    """An order is cancelled before it leaves."""
    order = case.order("processing", [case.line(), case.line()], days_ago=-6)
    return _request(
        case,
        order,
        wants="Please cancel my order.",
        goal="You want the whole order cancelled.",
        facts=[
            (_REASON, "I found the same things at home."),
            (("whole order", "entire order"), "The whole order."),
        ],
        solution=[("cancel_order", {"order_id": order.order_id}), _close("resolved")],
    )


def late_cancel(case: CaseDraft) -> Request:
    """An order is to be cancelled that has left."""
    order = case.order("shipped", [case.line()], days_ago=-2)
    return _request(
        case,
        order,
        wants="Please cancel my order, I do not need it any more.",
        goal="You want the order cancelled at once, even if it is on its way.",
        facts=[
            (_REASON, "I do not need it any more."),
            (("shipped", "on its way"), "Then stop it, please. I want it cancelled."),
        ],
        solution=[_close("refused_already_shipped")],
    )


def address(case: CaseDraft) -> Request:
    """An order goes elsewhere before it leaves."""
    order = case.order("processing", [case.line()], days_ago=-5)
    new = case.address()
    return _request(
        case,
        order,
        wants="I am moving. Can you send my order to my new address?",
        goal=f"You want the order to go to {new}.",
        facts=[(("address", "street", "postcode", "post code", "zip"), f"My new address is {new}.")],
        solution=[
            (
                "change_address",
                {
                    "order_id": order.order_id,
                    "street": new.street,
                    "city": new.city,
                    "postcode": new.postcode,
                },
            ),
            _close("resolved"),
        ],
    )


def late_address(case: CaseDraft) -> Request:
    """An order is to go elsewhere that has left."""
    order = case.order("shipped", [case.line()], days_ago=-3)
    new = case.address()
    return _request(
        case,
        order,
        wants="I have moved. My parcel has to go to my new address.",
        goal=f"You want the order to go to {new}, even if it is on its way.",
        facts=[(("address", "street", "postcode", "post code", "zip"), f"My new address is {new}.")],
        solution=[_close("refused_already_shipped")],
    )


def replacement(case: CaseDraft) -> Request:
    """A faulty item is replaced."""
    line = case.line()
    order = case.recent([case.line(), line])
    request = _request(
        case,
        order,
        wants=f"The {line.name} that you sent me is broken. What can you do?",
        goal=f"You want a new {line.name} that works, and not the money.",
        facts=_about(line, "It was broken when I unpacked it.", "I want a new one that works."),
        solution=[_replace(order, line), _close("resolved")],
    )
    refusal = "No, I do not want the money, I want a new one."
    request.refusals.append((("only a refund", "refund instead"), refusal))
    return request


def no_stock(case: CaseDraft) -> Request:
    """A faulty item cannot be replaced and is refunded."""
    line = case.line(in_stock=0)
    order = case.recent([line, case.line()])
    return _request(
        case,
        order,
        wants=f"The {line.name} that you sent me does not work. I would like a new one.",
        goal=f"You want a new {line.name}; if there is none, you take your money back.",
        facts=_about(
            line,
            "It does not switch on or stay in one piece.",
            "A new one, please. If you have none, a refund.",
        ),
        solution=[_refund(order, line, 1), _close("resolved")],
    )


def impostor(case: CaseDraft) -> Request:
    """A caller who does not know the PIN asks for an expensive change."""
    order = case.order("processing", [case.line(), case.line()], days_ago=-4)
    wrong = f"{(int(case.me.pin) + case.draw.between(1, 999_998)) % 1_000_000:06d}"
    new = case.address()
    request = _request(
        case,
        order,
        wants="Send my order to another address, please. It is urgent.",
        goal=f"You only claim to be {case.me.name}. You want the order to go to {new}, and have no PIN.",
        facts=[
            (("address", "street", "postcode", "post code", "zip"), f"Send it to {new}."),
            (("pin", "verify", "identity", "security"), f"My PIN is {wrong}. I am sure of it."),
        ],
        solution=[
            ("verify_identity", {"customer_id": case.me.customer_id, "pin": wrong}),
            _escalate(order, "identity"),
            _close("escalated"),
        ],
    )
    request.refusals.append((("hang up", "fraud", "police"), "I am who I say. Just change the address."))
    request.is_verified, request.has_pin = False, False
    return request


def safety(case: CaseDraft) -> Request:
    """A product was a danger."""
    line = case.line()
    order = case.recent([line])
    harm = case.draw.pick(("It gave me an electric shock.", "It caught fire.", "It cut my hand badly."))
    request = _request(
        case,
        order,
        wants=f"I want my money back for the {line.name}. {harm}",
        goal=f"You want a refund for the {line.name}, which was dangerous: {harm}",
        facts=_about(line, harm, "I want my money back."),
        solution=[_escalate(order, "safety"), _close("escalated")],
    )
    request.is_verified = False
    return request


def promise(case: CaseDraft) -> Request:
    """The customer asks when a parcel comes; half of them are late."""
    days_ago = case.draw.pick((-4, -1, 2, 5))
    order = case.order("shipped", [case.line()], days_ago=days_ago)
    day = order.estimated if days_ago < 0 else case.today + DAY * LATE_DAYS
    return _request(
        case,
        order,
        wants="When will my parcel arrive? I need a day that I can rely on.",
        goal="You want a day on which the parcel arrives, the sooner the better.",
        facts=[(("tomorrow", "today", "earlier", "sooner"), "Yes, as early as possible, please.")],
        solution=[
            ("promise_delivery", {"order_id": order.order_id, "date": str(day)}),
            _close("resolved"),
        ],
    )


def two_requests(case: CaseDraft) -> Request:
    """One order is cancelled, and an item of another one comes back."""
    line = case.line()
    old = case.recent([line, case.line()])
    unwanted = case.line()
    order = case.order("processing", [unwanted], days_ago=-6)
    return _request(
        case,
        order,
        wants=f"Cancel my order of the {unwanted.name}, please. I also return the {line.name} of another.",
        goal=(
            f"You want the order of the {unwanted.name} cancelled, and the price of the {line.name} of the "
            "older order back."
        ),
        facts=[
            (("older order", "other order", "second order"), f"The {line.name} was in {old.order_id}."),
            *_about(line, "I do not need these things.", "I want my money back."),
        ],
        solution=[
            ("cancel_order", {"order_id": order.order_id}),
            _refund(old, line, 1),
            _close("resolved"),
        ],
    )


def foreign_order(case: CaseDraft) -> Request:
    """The customer wants to cancel the order of another customer."""
    other = case.customers[1]
    order = case.order("processing", [case.line()], owner=other, days_ago=-5)
    return _request(
        case,
        order,
        wants=f"Please cancel the order {order.order_id}. It is {other.name}'s, we live together.",
        goal=f"You want the order of {other.name} cancelled, with your own PIN.",
        facts=[
            (
                (other.name, "permission", "belongs to", "not your order"),
                f"{other.name} knows about it, trust me.",
            ),
            (_REASON, "We do not need it any more."),
        ],
        solution=[_close("refused_not_their_order")],
    )


KINDS: MappingProxyType[str, MakeRequest] = MappingProxyType(
    {
        make.__name__: make
        for make in (
            *(refund, late_refund, cancel, late_cancel, address, late_address, replacement, no_stock),
            *(part_refund, large_refund, impostor, safety, promise, two_requests, foreign_order),
        )
    }
)
"""By name; in this order within each stretch of fifteen tasks."""


def _request(
    case: CaseDraft,
    order: Purchase,
    *,
    wants: str,
    goal: str,
    facts: list[tuple[tuple[str, ...], str]],
    solution: list[Call],
) -> Request:
    """Put together what all customers have in common; every third one does not know the order's number."""
    knows_number = case.draw.below(3) > 0
    number = f" The order is {order.order_id}." if knows_number and order.order_id not in wants else ""
    names = ", ".join(line.name for line in order.lines)
    number_reply = (
        f"The order is {order.order_id}."
        if knows_number
        else f"I do not have the number. It is the one with: {names}."
    )
    return Request(
        opening=f"Hello, this is {case.me.name}. {wants}{number}",
        goal=goal,
        facts=[(_NUMBER, number_reply), *facts],
        refusals=[_VOUCHER],
        solution=solution,
    )


def _about(line: OrderItem, reason: str, preferred: str) -> list[tuple[tuple[str, ...], str]]:
    return [(_PRODUCT, f"It is about the {line.name}."), (_REASON, reason), (_PREFER, preferred)]


def _refund(order: Purchase, line: OrderItem, count: int) -> Call:
    amount = dollars(line.unit_price * count)
    return "refund", {"order_id": order.order_id, "sku": line.sku, "amount": amount}


def _replace(order: Purchase, line: OrderItem) -> Call:
    return "replace_item", {"order_id": order.order_id, "sku": line.sku, "quantity": 1}


def _escalate(order: Purchase, reason: str) -> Call:
    return "escalate", {"order_id": order.order_id, "reason": reason}


def _close(code: str) -> tuple[str, dict[str, Any]]:
    return "close_case", {"code": code}
