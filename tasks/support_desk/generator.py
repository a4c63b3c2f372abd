"""Makes a task of a seed, a split and an index; the same on every machine."""

from dataclasses import asdict
from functools import lru_cache
from typing import Any

from ors_server import JSONObject
from ors_server_tasks.support_desk.case_draft import CaseDraft, Request
from ors_server_tasks.support_desk.draw import Draw
from ors_server_tasks.support_desk.requests import KINDS

EDITION = "1"
"""Changes whenever a change here or in the other modules changes a task."""
SPLIT_SIZES = {"train": 45, "test": 15}
"""Tasks of each split; multiples of the number of kinds."""

_PIN = ("pin", "verify", "verification", "identity", "security code", "confirm who you are")
_SECRETS = (
    ("password", "card number", "credit card", "bank account", "iban"),
    "I do not give out passwords or numbers of cards.",
)
_PIN_QUESTION = "Thank you for writing. Before I look into this, please tell me your service PIN."


@lru_cache(maxsize=256)
def _generate(seed: str, split: str, index: int) -> JSONObject:
    kind = list(KINDS)[index % len(KINDS)]
    draft = CaseDraft(Draw(f"{seed}/{split}/{index}"))
    request = KINDS[kind](draft)
    draft.fill()
    return {
        "id": f"support_desk/{split}/{index}",
        "kind": kind,
        "today": str(draft.today),
        "customer_id": draft.me.customer_id,
        "opening": request.opening,
        "user": _user(draft, request),
        "customers": [
            asdict(customer)
            for customer in sorted(draft.customers, key=lambda customer: customer.customer_id)
        ],
        "orders": [order.as_json() for order in sorted(draft.orders, key=lambda order: order.order_id)],
        "stock": dict(sorted(draft.stock.items())),
        "solution": [list(call) for call in _solution(draft, request)],
    }


def generate(seed: str, split: str, index: int) -> JSONObject:
    """Return a task; what it has is described in the environment's README."""
    return _generate(seed, split, index)


def _user(draft: CaseDraft, request: Request) -> dict[str, Any]:
    facts = list(request.facts)
    if request.has_pin:
        facts.insert(0, (_PIN, f"My service PIN is {draft.me.pin}."))
    return {
        "goal": f"You are {draft.me.name}. {request.goal}" if request.has_pin else request.goal,
        "facts": [{"asked": list(words), "says": says} for words, says in facts],
        "refusals": [{"asked": list(words), "says": says} for words, says in (*request.refusals, _SECRETS)],
    }


def _solution(draft: CaseDraft, request: Request) -> list[tuple[str, dict[str, Any]]]:
    """Return the calls of the oracle: it asks for the PIN, checks it, and handles the request."""
    me = draft.me
    calls: list[tuple[str, dict[str, Any]]] = [("find_customer", {"query": me.name})]
    if request.is_verified or not request.has_pin:
        calls.append(("message_user", {"text": _PIN_QUESTION}))
    if request.is_verified:
        calls.append(("verify_identity", {"customer_id": me.customer_id, "pin": me.pin}))
    calls.append(("list_orders", {"customer_id": me.customer_id}))
    return [*calls, *request.solution]
