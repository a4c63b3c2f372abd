"""The cost of judging, and limits on it."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

from ors_server.rewards.judges.judge_model import Completion
from ors_server.rewards.reward_errors import JudgeBudgetError, JudgeSettingsError

TOKENS_PER_PRICE = 1_000_000
"""Number of tokens of a price."""
CHARACTERS_PER_TOKEN = 3
"""Characters of an estimated token, where an endpoint does not count tokens; rather too few."""


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a million tokens, in any one currency."""

    prompt: float
    """For a million tokens of prompts."""
    completion: float
    """For a million tokens of replies."""


PriceTable: TypeAlias = Mapping[str, Price]
"""Price by the model's name."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Figures of one or more questions; two of them can be added."""

    calls: int = 0
    """Replies from an endpoint."""
    cached: int = 0
    """Replies from the cache, which cost nothing."""
    prompt_tokens: int = 0
    """Tokens of the prompts."""
    completion_tokens: int = 0
    """Tokens of the replies."""
    estimated: int = 0
    """Calls without token counts from the endpoint, whose tokens are estimated."""
    cost: float | None = None
    """Amount in the currency of the price table; `None` if no model that was used has a price."""
    latency: float = 0.0
    """Sum, in seconds."""
    retries: int = 0
    """Requests that were repeated."""
    corrections: int = 0
    """Unusable replies after which the model was asked again."""

    def __add__(self, other: "Usage") -> "Usage":
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        names = [figure.name for figure in fields(self) if figure.name != "cost"]
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        return Usage(**sums, cost=sum(costs) if costs else None)

    def as_extras(self) -> dict[str, Any]:
        """Return the figures as metrics by name."""
        shown: dict[str, Any] = {
            "judge_calls": self.calls,
            "judge_cached": self.cached,
            "judge_prompt_tokens": self.prompt_tokens,
            "judge_completion_tokens": self.completion_tokens,
            "judge_latency_s": self.latency,
            "judge_retries": self.retries,
            "judge_corrections": self.corrections,
        }
        if self.estimated:
            shown["judge_estimated_calls"] = self.estimated
        return shown if self.cost is None else {**shown, "judge_cost": self.cost}


def usage_of(completion: Completion, prompt_length: int, price: Price | None) -> Usage:
    """Return what one reply used; `prompt_length` is the messages' length in characters, for an estimate."""
    prompt = _count_or_estimate(completion.prompt_tokens, prompt_length)
    written = _count_or_estimate(completion.completion_tokens, len(completion.text))
    cost = None if price is None else (prompt * price.prompt + written * price.completion) / TOKENS_PER_PRICE
    is_estimate = completion.prompt_tokens is None or completion.completion_tokens is None
    return Usage(
        calls=1,
        prompt_tokens=prompt,
        completion_tokens=written,
        estimated=int(is_estimate),
        cost=cost,
        latency=completion.latency,
        retries=completion.retries,
    )


@dataclass
class Budget:
    """A limit on all questions that share it, also between threads and tasks.

    Calls are counted before they are made and never exceed their limit. Tokens and cost are known afterwards:
    they may exceed theirs by the calls that are under way when it is reached.
    """

    most_calls: int | None = None
    """Requests to the model; `None` without a limit."""
    most_tokens: int | None = None
    """Tokens of prompts and replies; `None` without a limit."""
    most_cost: float | None = None
    """Limit in the currency of the price table; with a limit, a model without a price is refused."""
    spent: Usage = field(default_factory=Usage)
    """What has been used so far."""
    _started: int = field(default=0, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def check_price(self, model: str, price: Price | None) -> None:
        """Refuse a limit on the cost of a model without a price.

        Raises:
            JudgeSettingsError: If cost is limited and there is no price.
        """
        if self.most_cost is not None and price is None:
            raise JudgeSettingsError(
                f"the budget limits cost, and the price table has no price of {model!r}: add it"
            )

    def start(self) -> None:
        """Count one more call.

        Raises:
            JudgeBudgetError: If a limit is reached.
        """
        with self._lock:
            tokens = self.spent.prompt_tokens + self.spent.completion_tokens
            for what, used, limit in (
                ("calls", self._started, self.most_calls),
                ("tokens", tokens, self.most_tokens),
                ("cost", self.spent.cost or 0.0, self.most_cost),
            ):
                if limit is not None and used >= limit:
                    raise JudgeBudgetError(f"the judge's budget is spent: {used:g} of {limit:g} {what}")
            self._started += 1

    def finish(self, usage: Usage) -> None:
        """Add what a call used."""
        with self._lock:
            self.spent += usage


def _count_or_estimate(tokens: int | None, characters: int) -> int:
    return -(-characters // CHARACTERS_PER_TOKEN) if tokens is None else tokens
