"""What judging costs, and the cap on it."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ors_server.rewards.judges.completion import Completion
from ors_server.rewards.judges.errors import JudgeBudgetError, JudgeSettingsError

PER = 1_000_000
"""Tokens for which a price is given."""
CHARACTERS_PER_TOKEN = 3
"""By which tokens are estimated where an endpoint does not count them; rather too many than too few."""


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs, in one currency, for a million tokens."""

    prompt: float
    completion: float


PriceTable: TypeAlias = Mapping[str, Price]
"""Price by the model's name."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What was used; two of them add up."""

    calls: int = 0
    """Replies that an endpoint gave."""
    cached: int = 0
    """Replies that came from the cache, which cost nothing."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: int = 0
    """Calls whose tokens the endpoint did not count, so that they are estimated."""
    cost: float | None = None
    """In the currency of the price table; `None` if nothing that was used has a price."""
    latency: float = 0.0
    """Seconds, added up."""
    retries: int = 0
    corrections: int = 0
    """Replies that could not be used and were asked for again."""

    def __add__(self, other: "Usage") -> "Usage":
        """Add what another attempt used."""
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Usage(
            calls=self.calls + other.calls,
            cached=self.cached + other.cached,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            estimated=self.estimated + other.estimated,
            cost=sum(costs) if costs else None,
            latency=self.latency + other.latency,
            retries=self.retries + other.retries,
            corrections=self.corrections + other.corrections,
        )

    def as_extras(self) -> dict[str, Any]:
        """Render the figures as metrics by name."""
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


def usage_of(completion: Completion, asked: int, price: Price | None) -> Usage:
    """Say what one reply used.

    Args:
        completion: The reply.
        asked: Characters of the messages, for an estimate.
        price: What the model costs, if that is known.
    """
    prompt = _counted(completion.prompt_tokens, asked)
    written = _counted(completion.completion_tokens, len(completion.text))
    cost = None if price is None else (prompt * price.prompt + written * price.completion) / PER
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
    """A cap for everything that is judged with it; safe to share between threads and tasks.

    Calls are counted before they are made and never exceed their cap. Tokens and cost are known afterwards:
    they may exceed theirs by the calls that were under way when it was reached.
    """

    most_calls: int | None = None
    most_tokens: int | None = None
    most_cost: float | None = None
    """In the currency of the price table; a model without a price is refused then."""
    spent: Usage = field(default_factory=Usage)
    _started: int = field(default=0, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def check_price(self, model: str, price: Price | None) -> None:
        """Refuse a cap on the cost of what has no price.

        Args:
            model: The model's name.
            price: What it costs, if that is known.

        Raises:
            JudgeSettingsError: If cost is capped and there is no price.
        """
        if self.most_cost is not None and price is None:
            raise JudgeSettingsError(
                f"the budget caps cost, and the price table has no {model!r}; add its price"
            )

    def start(self) -> None:
        """Ask for one more call.

        Raises:
            JudgeBudgetError: If a cap is reached.
        """
        with self._lock:
            tokens = self.spent.prompt_tokens + self.spent.completion_tokens
            for what, used, most in (
                ("calls", self._started, self.most_calls),
                ("tokens", tokens, self.most_tokens),
                ("cost", self.spent.cost or 0.0, self.most_cost),
            ):
                if most is not None and used >= most:
                    raise JudgeBudgetError(f"the judge's budget is spent: {used:g} of {most:g} {what}")
            self._started += 1

    def finish(self, usage: Usage) -> None:
        """Add what a call used.

        Args:
            usage: What it used.
        """
        with self._lock:
            self.spent += usage


def _counted(tokens: int | None, characters: int) -> int:
    return -(-characters // CHARACTERS_PER_TOKEN) if tokens is None else tokens
