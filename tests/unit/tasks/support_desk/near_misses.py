"""Plays that almost handle a case, and plays that handle it in another form; made from the gold calls."""

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, TypeAlias

Call: TypeAlias = tuple[str, dict[str, Any]]
Play: TypeAlias = list[Call]
Task: TypeAlias = dict[str, Any]

LOOKUPS = {"find_customer", "list_orders", "get_order", "message_user"}
CODES = (
    *("resolved", "refused_return_window", "refused_already_shipped"),
    *("refused_not_their_order", "escalated"),
)


def effective(task: Task) -> Play:
    """The gold calls that change something."""
    return [(name, dict(given)) for name, given in task["solution"] if name not in LOOKUPS]


def with_arguments(play: Play, place: int, **changed: Any) -> Play:
    """The play with other arguments of one call."""
    name, given = play[place]
    return [*play[:place], (name, {**given, **changed}), *play[place + 1 :]]


def places(play: Play, *names: str) -> Iterator[tuple[int, dict[str, Any]]]:
    return ((place, given) for place, (name, given) in enumerate(play) if name in names)


def before_the_end(play: Play, *calls: Call) -> Play:
    return [*play[:-1], *calls, play[-1]]


# Near misses: none is paid.


def left_out(task: Task, play: Play) -> Iterator[Play]:
    """One call is left out, the check of the PIN among them."""
    for place in range(len(play) - 1):
        yield [*play[:place], *play[place + 1 :]]


def other_codes(task: Task, play: Play) -> Iterator[Play]:
    """The case is closed with each other code."""
    for code in CODES:
        if code != play[-1][1]["code"]:
            yield with_arguments(play, len(play) - 1, code=code)


def wrong_amounts(task: Task, play: Play) -> Iterator[Play]:
    for place, given in places(play, "refund"):
        right = Decimal(given["amount"])
        for wrong in (
            right - Decimal("0.01"),
            right + Decimal("0.01"),
            right / 2,
            right * 2,
            right + 5,
            right - 1,
        ):
            yield with_arguments(play, place, amount=f"{wrong:.2f}")
        for foul in ("0", "-1", "all", "", f"{given['amount']} or less", "NaN", "1e3", f"{right}9"):
            yield with_arguments(play, place, amount=foul)


def wrong_orders(task: Task, play: Play) -> Iterator[Play]:
    """A call names another order."""
    for place, (_, given) in enumerate(play):
        for order in task["orders"]:
            if given.get("order_id", order["order_id"]) == order["order_id"]:
                continue
            more = {"sku": order["lines"][0]["sku"]} if "sku" in given else {}
            yield with_arguments(play, place, order_id=order["order_id"], **more)


def wrong_items(task: Task, play: Play) -> Iterator[Play]:
    """A call names another item of the same order."""
    for place, given in places(play, "refund", "replace_item"):
        (order,) = (one for one in task["orders"] if one["order_id"] == given["order_id"])
        for line in order["lines"]:
            if line["sku"] != given["sku"]:
                yield with_arguments(play, place, sku=line["sku"])
                price = f"{Decimal(line['unit_price']) / 100:.2f}"
                if "amount" in given:
                    yield with_arguments(play, place, sku=line["sku"], amount=price)


def wrong_customers(task: Task, play: Play) -> Iterator[Play]:
    """The PIN of another customer is checked instead, or a wrong one of the right customer."""
    for place, _ in places(play, "verify_identity"):
        for customer in task["customers"]:
            if customer["customer_id"] != task["customer_id"]:
                yield with_arguments(play, place, customer_id=customer["customer_id"], pin=customer["pin"])
        if task["kind"] != "impostor":
            yield with_arguments(play, place, pin="000000")
            yield with_arguments(play, place, pin="")


def late_checks(task: Task, play: Play) -> Iterator[Play]:
    """The PIN is checked after what needed it: the state is right, and a rule is broken."""
    if play[0][0] == "verify_identity" and len(play) > 2:
        yield [*play[1:-1], play[0], play[-1]]
        yield [play[1], play[0], *play[2:]]


def extra_refunds(task: Task, play: Play) -> Iterator[Play]:
    for order in task["orders"]:
        if ("cancel_order", {"order_id": order["order_id"]}) in play:
            continue  # the tool refuses, for everything was paid back
        line = order["lines"][-1]
        given = {"order_id": order["order_id"], "sku": line["sku"]}
        if not any(one.get("sku") == line["sku"] and name == "refund" for name, one in play):
            yield before_the_end(play, ("refund", {**given, "amount": "1.00"}))
            price = f"{Decimal(line['unit_price']) / 100:.2f}"
            yield before_the_end(play, ("refund", {**given, "amount": price}))


def extra_changes(task: Task, play: Play) -> Iterator[Play]:
    """Something else is done to an order beside what was asked for."""
    elsewhere = {"street": "1 Wrong Way", "city": "Nowhere", "postcode": "11111"}
    for order in task["orders"]:
        number = {"order_id": order["order_id"]}
        done = [name for name, given in play if given.get("order_id") == order["order_id"]]
        if "cancel_order" not in done:
            yield before_the_end(play, ("cancel_order", number))
        if "change_address" not in done:
            yield before_the_end(play, ("change_address", {**number, **elsewhere}))
        if not {"replace_item", "cancel_order"}.intersection(done):
            sku = order["lines"][0]["sku"]
            yield before_the_end(play, ("replace_item", {**number, "sku": sku, "quantity": 1}))
        for reason in ("over_limit", "safety", "identity"):
            if ("escalate", {**number, "reason": reason}) not in play:
                yield before_the_end(play, ("escalate", {**number, "reason": reason}))
        if "promise_delivery" not in done:
            yield before_the_end(play, ("promise_delivery", {**number, "date": order["estimated"]}))


def undone_changes(task: Task, play: Play) -> Iterator[Play]:
    """The state is right in the end, and a rule was broken on the way."""
    for order in task["orders"]:
        number = {"order_id": order["order_id"]}
        there_and_back = (
            ("change_address", {**number, "street": "1 Wrong Way", "city": "Nowhere", "postcode": "11111"}),
            ("change_address", {**number, **order["address"]}),
        )
        is_own = order["customer_id"] == task["customer_id"]
        if order["status"] != "processing" or not is_own or task["kind"] == "impostor":
            yield before_the_end(play, *there_and_back)
    for place, given in places(play, "promise_delivery"):
        yield [*play[:place], ("promise_delivery", {**given, "date": "2039-01-01"}), *play[place:]]


def wrong_days(task: Task, play: Play) -> Iterator[Play]:
    for place, given in places(play, "promise_delivery"):
        day = given["date"]
        for wrong in (task["today"], "2031-12-31", f"{int(day[:4]) - 1}{day[4:]}", "tomorrow", "", day[:7]):
            yield with_arguments(play, place, date=wrong)


def wrong_addresses(task: Task, play: Play) -> Iterator[Play]:
    for place, given in places(play, "change_address"):
        for part in ("street", "city", "postcode"):
            yield with_arguments(play, place, **{part: ""})
            yield with_arguments(play, place, **{part: f"{given[part]}1"})
        yield with_arguments(play, place, street=given["city"], city=given["street"])


def wrong_quantities(task: Task, play: Play) -> Iterator[Play]:
    for place, _ in places(play, "replace_item"):
        for quantity in (0, -1, 2, 100):
            yield with_arguments(play, place, quantity=quantity)


def wrong_reasons(task: Task, play: Play) -> Iterator[Play]:
    for place, given in places(play, "escalate"):
        for reason in ("over_limit", "safety", "identity", "angry", ""):
            if reason != given["reason"]:
                yield with_arguments(play, place, reason=reason)


def parts_of_refunds(task: Task, play: Play) -> Iterator[Play]:
    """A part of a refund is paid, or a cent is paid on top of a part of a line."""
    for place, given in places(play, "refund"):
        half = f"{Decimal(given['amount']) / 2:.2f}"
        yield with_arguments(play, place, amount=half)
        if task["kind"] == "part_refund":
            yield before_the_end(play, ("refund", {**given, "amount": "0.01"}))


def early_ends(task: Task, play: Play) -> Iterator[Play]:
    """The case is closed first, with its own code."""
    if len(play) > 1:
        yield [play[-1]]


NEAR_MISSES: tuple[Callable[[Task, Play], Iterator[Play]], ...] = (
    *(left_out, other_codes, wrong_amounts, wrong_orders, wrong_items, wrong_customers, late_checks),
    *(extra_refunds, extra_changes, undone_changes, wrong_days, wrong_addresses, wrong_quantities),
    *(wrong_reasons, parts_of_refunds, early_ends),
)


# Equivalent forms: all are paid.


def _spelled(spell: Callable[[str, Any], Any]) -> Callable[[Task, Play], Iterator[Play]]:
    def spelled(task: Task, play: Play) -> Iterator[Play]:
        yield [(name, {key: spell(key, value) for key, value in given.items()}) for name, given in play]

    return spelled


def _numbers(spell: Callable[[str], str]) -> Callable[[str, Any], Any]:
    return lambda key, value: spell(value) if key in {"order_id", "customer_id", "sku"} else value


def _amounts(spell: Callable[[str], Any]) -> Callable[[str, Any], Any]:
    return lambda key, value: spell(value) if key == "amount" else value


def looked_up(task: Task, play: Play) -> Iterator[Play]:
    """Harmless lookups and messages at every place."""
    orders, customers = task["orders"], task["customers"]
    extra: Play = [
        ("get_order", {"order_id": orders[0]["order_id"]}),
        ("list_orders", {"customer_id": customers[-1]["customer_id"]}),
        ("find_customer", {"query": customers[0]["email"]}),
        ("find_customer", {"query": "no such person"}),
        ("get_order", {"order_id": "O-1"}),
    ]
    for lookup in extra:
        yield [call for one in play for call in (lookup, one)]


def mistaken(task: Task, play: Play) -> Iterator[Play]:
    """Calls that make no sense, and change nothing."""
    yield before_the_end(
        play,
        ("refund", {"order_id": "O-0", "sku": "X", "amount": 1}),
        ("refund", {"order_id": task["orders"][0]["order_id"], "sku": "X", "amount": 1}),
        ("escalate", {"order_id": task["orders"][0]["order_id"], "reason": "angry"}),
        ("promise_delivery", {"order_id": task["orders"][0]["order_id"], "date": "soon"}),
        ("close_case", {"code": "done"}),
    )
    if task["kind"] != "impostor" and play[0][0] == "verify_identity":
        yield [("verify_identity", {**play[0][1], "pin": "12"}), *play]
        yield [play[0], play[0], *play[1:]]


def reordered(task: Task, play: Play) -> Iterator[Play]:
    """Changes that do not depend on each other, in the other order."""
    if task["kind"] == "two_requests":
        yield [play[0], play[2], play[1], play[3]]


def split_refunds(task: Task, play: Play) -> Iterator[Play]:
    """One refund in two parts."""
    for place, given in places(play, "refund"):
        rest = Decimal(given["amount"]) - 1
        parts = [("refund", {**given, "amount": amount}) for amount in ("1", str(rest))]
        yield [*play[:place], *parts, *play[place + 1 :]]


def corrected(task: Task, play: Play) -> Iterator[Play]:
    """A wrong address that is corrected in time."""
    for place, given in places(play, "change_address"):
        yield [*play[:place], ("change_address", {**given, "street": "1 Wrong Way"}), *play[place:]]


EQUIVALENT: tuple[Callable[[Task, Play], Iterator[Play]], ...] = (
    *(looked_up, mistaken, reordered, split_refunds, corrected),
    *map(
        _spelled,
        (
            _numbers(str.lower),
            _numbers(lambda text: f"  {text} "),
            _numbers(lambda text: f"#{text.replace('-', ' ')}"),
            _numbers(lambda text: text.replace("-", "").lower()),
            _amounts(float),
            _amounts(lambda text: f"${text}"),
            _amounts(lambda text: f" {text}0 "),
            lambda key, value: " ".join(value) if key == "pin" else value,
            lambda key, value: f"{value[:3]}-{value[3:]}" if key == "pin" else value,
            lambda key, value: value.upper().replace("_", " ") if key in {"code", "reason"} else value,
            lambda key, value: value.replace("_", "-").title() if key in {"code", "reason"} else value,
            lambda key, value: (
                f" {value.upper().replace(' ', '  ')} ," if key in {"street", "city", "postcode"} else value
            ),
            lambda key, value: value.replace("-0", "-") if key == "date" else value,
        ),
    ),
)
