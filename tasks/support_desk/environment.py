"""The environment: a case of a customer-service desk, judged by the database that the agent leaves behind."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from ors_server import (
    EpisodePolicy,
    IndexedTasks,
    JSONObject,
    ScriptedReply,
    SimulatedUser,
    ToolOutput,
    UserBudget,
    UserScript,
    choose_user,
    tool,
)
from ors_server_tasks.support_desk.desk import Desk
from ors_server_tasks.support_desk.generator import EDITION, SPLIT_SIZES, generate
from ors_server_tasks.support_desk.reading import dollars
from ors_server_tasks.support_desk.records import Purchase
from ors_server_tasks.support_desk.rules import RULES_TEXT

CHANGING = frozenset(
    {
        *("verify_identity", "refund", "replace_item", "change_address", "cancel_order"),
        *("promise_delivery", "escalate", "close_case"),
    }
)
"""Tools with an effect."""


class SupportDesk(IndexedTasks):
    """Cases of a customer-service desk with a simulated customer; the final database decides the reward.

    A subclass with another `seed` has other cases.
    """

    name = "support_desk"
    version = f"{EDITION}.1"
    split_sizes = SPLIT_SIZES
    """The edition of the tasks, and that of the prompt and the tools' texts."""
    policy = EpisodePolicy(step_limit=40, reward_range=(0.0, 1.0))
    return_range = (0.0, 1.0)
    toolsets = ("user",)
    user_budget = UserBudget(turns=20, characters=2_000)
    seed: ClassVar[str] = "support_desk-1"
    """Decides all cases of all splits."""

    def __init__(self, task_spec: JSONObject, secrets: Mapping[str, str] | None = None) -> None:
        """Open the records of the task's case.

        Raises:
            ValueError: The task is not one of this environment's.
        """
        super().__init__(task_spec, secrets)
        try:
            self._desk = Desk(task_spec)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(
                f"a task of support_desk has the keys that its README lists: {type(error).__name__}: {error}"
            ) from error

    @override
    @classmethod
    def make_task(cls, split: str, index: int) -> JSONObject:
        return {**generate(cls.seed, split, index)}

    @classmethod
    def gold_actions(cls, task_spec: JSONObject) -> Sequence[tuple[str, dict[str, Any]]]:
        """Return tool calls, as (name, arguments) in order, that earn the greatest return of the task."""
        return [(name, dict(arguments)) for name, arguments in task_spec["solution"]]

    @classmethod
    def blank_actions(cls, task_spec: JSONObject) -> Sequence[tuple[str, dict[str, Any]]]:
        """Return tool calls, as (name, arguments) in order, that do no work and earn the least return."""
        del task_spec  # the same for every case
        return [("close_case", {"code": "resolved"})]

    @override
    def make_user(self) -> SimulatedUser:
        part = self.task_spec["user"]
        return choose_user(
            UserScript(
                goal=part["goal"],
                facts=tuple(ScriptedReply(tuple(row["asked"]), row["says"]) for row in part["facts"]),
                refusals=tuple(ScriptedReply(tuple(row["asked"]), row["says"]) for row in part["refusals"]),
                otherwise="I do not know. Please just do what I asked for.",
            )
        )

    @override
    def save_state(self) -> JSONObject:
        return {"calls": [list(call) for call in self._desk.calls]}

    @override
    def load_state(self, state: JSONObject) -> None:
        """Carry the same calls out again."""
        self._desk = Desk(self.task_spec)
        for name, arguments in state["calls"]:
            self._desk.perform(name, arguments)

    @override
    def get_prompt(self) -> str:
        return (
            "You work at the service desk of Halden Home, a shop for household goods. Handle the case below "
            "with the tools, and write to the customer with message_user. "
            f"Today is {self.task_spec['today']}.\n\n"
            f"The rules of the desk:\n{RULES_TEXT}\n\n"
            f"The customer writes:\n{self.task_spec['opening']}"
        )

    # Looking things up

    @tool
    async def find_customer(self, query: str) -> str:
        """Find customers by name, e-mail address or customer number.

        Args:
            query: The whole name or a part of it, the e-mail address, or a number such as C-1234.
        """
        customers = self._desk.find_customers(query)
        return (
            "\n".join(f"{customer.customer_id}: {customer.name}, {customer.email}" for customer in customers)
            or "No customer is found."
        )

    @tool
    async def list_orders(self, customer_id: str) -> str:
        """List a customer's orders, the newest first.

        Args:
            customer_id: The customer's number, such as C-1234.
        """
        orders = self._desk.orders_of(self._desk.customer(customer_id))
        return "\n".join(_summary(order) for order in orders) or "The customer has no orders."

    @tool
    async def get_order(self, order_id: str) -> str:
        """Read an order: status, days, address, items with prices and stock.

        Args:
            order_id: The order's number, such as O-1234.
        """
        order = self._desk.order(order_id)
        record = order.as_json()
        record["address"] = str(order.address)
        record["lines"] = [
            {
                "sku": line.sku,
                "name": line.name,
                "quantity": line.quantity,
                "unit_price": dollars(line.unit_price),
                "in_stock": self._desk.in_stock(line),
            }
            for line in order.lines
        ]
        return json.dumps(record, indent=2)

    # Doing something

    @tool
    async def verify_identity(self, customer_id: str, pin: str) -> str:
        """Check a customer's service PIN. After three failed checks it is locked.

        Args:
            customer_id: The customer's number.
            pin: The PIN that the customer gave, six digits.
        """
        return self._desk.perform("verify_identity", {"customer_id": customer_id, "pin": pin})

    @tool
    async def refund(self, order_id: str, sku: str, amount: str | float) -> str:
        """Pay money back for an item of an order. It cannot be undone.

        Args:
            order_id: The order's number.
            sku: The item's number, such as KE-1234.
            amount: The amount in dollars, such as 12.50.
        """
        return self._desk.perform("refund", {"order_id": order_id, "sku": sku, "amount": amount})

    @tool
    async def replace_item(self, order_id: str, sku: str, quantity: int = 1) -> str:
        """Send new pieces of an item of an order. It cannot be undone.

        Args:
            order_id: The order's number.
            sku: The item's number.
            quantity: How many pieces.
        """
        return self._desk.perform("replace_item", {"order_id": order_id, "sku": sku, "quantity": quantity})

    @tool
    async def change_address(self, order_id: str, street: str, city: str, postcode: str) -> str:
        """Send an order to another address.

        Args:
            order_id: The order's number.
            street: House number and street.
            city: The city.
            postcode: The postcode.
        """
        arguments = {"order_id": order_id, "street": street, "city": city, "postcode": postcode}
        return self._desk.perform("change_address", arguments)

    @tool
    async def cancel_order(self, order_id: str) -> str:
        """Cancel a whole order, which pays everything back. It cannot be undone.

        Args:
            order_id: The order's number.
        """
        return self._desk.perform("cancel_order", {"order_id": order_id})

    @tool
    async def promise_delivery(self, order_id: str, date: str) -> str:
        """Promise the customer the day on which an order arrives.

        Args:
            order_id: The order's number.
            date: The day, such as 2031-05-09.
        """
        return self._desk.perform("promise_delivery", {"order_id": order_id, "date": date})

    @tool
    async def escalate(self, order_id: str, reason: str) -> str:
        """Hand an order to a supervisor.

        Args:
            order_id: The order's number.
            reason: over_limit, safety or identity.
        """
        return self._desk.perform("escalate", {"order_id": order_id, "reason": reason})

    @tool(exclusive=True)
    async def close_case(self, code: str) -> ToolOutput:
        """Close the case, which ends it. Do this once, when everything is done.

        Args:
            code: resolved, refused_return_window, refused_already_shipped, refused_not_their_order or
                escalated.
        """
        text = self._desk.perform("close_case", {"code": code})
        expected, state = self._expected_state(), self._desk.final_state()
        wrong = [key for key, value in state.items() if value != expected[key]]
        broken = [rule.value for rule in self._desk.broken]
        output = ToolOutput.final(text, reward=float(not wrong and not broken))
        return output.model_copy(update={"metadata": {"wrong_parts": wrong, "broken_rules": broken}})

    def _expected_state(self) -> JSONObject:
        desk = Desk(self.task_spec)
        for name, arguments in self.gold_actions(self.task_spec):
            if name in CHANGING:
                desk.perform(name, arguments)
        return desk.final_state()


def _summary(order: Purchase) -> str:
    items = ", ".join(f"{line.quantity} {line.name}" for line in order.lines)
    return f"{order.order_id}: {order.status}, placed on {order.placed}: {items}"
