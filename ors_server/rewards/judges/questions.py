"""Asks a model until its reply can be read: cache, budget, corrections, accounting.

What holds: a request is counted against the budget before it is made, and its cost after; only replies that
were read are cached; and what a failed question cost is in the extras of its error.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Generic, Literal, TypeAlias, TypeVar

import anyio.to_thread

from ors_server.rewards.judges.accounting import Budget, PriceTable, Usage, usage_of
from ors_server.rewards.judges.cache import JudgeCache
from ors_server.rewards.judges.hardening import MAX_CHARACTERS, clean
from ors_server.rewards.judges.judge_model import Completion, JudgeModel, Message, Schema, key_of
from ors_server.rewards.reward_errors import JudgeError, JudgeSettingsError, UnusableReplyError

Verdict = TypeVar("Verdict")
Combine: TypeAlias = Literal["majority", "median"]
"""How several samples combine: their most frequent choice, or their median; the worse of two equal ones."""
OnError: TypeAlias = Literal["raise", "unscored"]
"""What a judge without a verdict does: raise an error, or return a result with the status error."""

MAX_CORRECTIONS = 3
MAX_QUOTED_CHARACTERS = 4_000
"""Characters of an unusable reply that are quoted to the judge."""


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """How judges judge. A number that is out of range raises `JudgeSettingsError`."""

    samples: int = 1
    """Replies to each question; their agreement is reported."""
    combine: Combine = "majority"
    """How several verdicts become one."""
    corrections: int = MAX_CORRECTIONS
    """Times that the model is asked again after an unusable reply, at most 3."""
    min_characters: int = 1
    """Minimum number of letters and digits of an answer; one with fewer is worth 0 without a question."""
    most_characters: int = MAX_CHARACTERS
    """Greatest length of each text in the prompt; what is left out is marked."""
    on_error: OnError = "raise"
    """What happens if a question gets no verdict."""
    cache: JudgeCache | None = None
    """Where replies are kept; `None` asks again each time."""
    prices: PriceTable = field(default_factory=lambda: MappingProxyType({}))
    """Prices by the model's name, for the cost in the extras."""
    budget: Budget | None = None
    """What may be spent; `None` without a limit."""

    def __post_init__(self) -> None:
        if self.samples < 1 or not 0 <= self.corrections <= MAX_CORRECTIONS or self.most_characters < 1:
            raise JudgeSettingsError(
                f"expected samples and most_characters above 0, and 0 to {MAX_CORRECTIONS} corrections"
            )


@dataclass(frozen=True, slots=True)
class Answered(Generic[Verdict]):
    """A verdict and what it cost."""

    verdict: Verdict
    """What the reply states."""
    usage: Usage
    """What the question cost."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question to a judge."""

    messages: Sequence[Message]
    """What the model reads."""
    schema: Schema | None = None
    """The JSON Schema that a reply must have."""
    sample: int = 0
    """Number of the sample, from 0, so that repeated questions have their own answers in a cache."""


async def ask(
    model: JudgeModel, question: Question, read: Callable[[str], Verdict], options: JudgeOptions
) -> Answered[Verdict]:
    """Ask until the reply can be read.

    Args:
        read: Reads a reply, or raises `UnusableReplyError` with what is wrong with it.

    Raises:
        JudgeError: The model failed, or no reply was usable. The error's extras have the cost.
        JudgeBudgetError: A limit is reached.
        JudgeSettingsError: Cost is limited and the model has no price.
    """
    if options.budget is not None:
        # Before the first request: a limit on cost without a price could never be reached.
        options.budget.check_price(model.name, options.prices.get(model.name))
    used = Usage()
    messages = list(question.messages)
    problem = ""
    for attempt in range(options.corrections + 1):
        bounded_question = Question(messages, question.schema, question.sample)
        try:
            completion, usage = await _reply(model, bounded_question, options)
        except JudgeError as error:
            # What was spent before the failure is reported with it.
            used += Usage(retries=error.extras.get("judge_retries", 0))
            error.extras = used.as_extras()
            raise
        used += usage
        try:
            # In a thread: the far side decides how long its reply is, and the first one of a process compiles
            # the patterns for it, which takes a quarter of a second.
            verdict = await anyio.to_thread.run_sync(_read, completion, read)
        except UnusableReplyError as error:
            problem = str(error)
        else:
            if options.cache is not None:
                # Only a reply that was read is kept: an unusable one must be asked again next time. In a
                # thread, since the cache is SQLite.
                await anyio.to_thread.run_sync(options.cache.put, _key(model, bounded_question), completion)
            return Answered(verdict, used)
        if attempt < options.corrections:
            used += Usage(corrections=1)
            # The model sees its own reply and what was wrong; both are data, and the reply is cut.
            messages = [*messages, *_correction(completion.text, problem)]
    raise JudgeError(
        f"{model.name} gave no usable verdict in {options.corrections + 1} replies; the last one: {problem}",
        used.as_extras(),
    )


async def _reply(model: JudgeModel, question: Question, options: JudgeOptions) -> tuple[Completion, Usage]:
    if options.cache is not None:
        cached = await anyio.to_thread.run_sync(options.cache.get, _key(model, question))
        if cached is not None:
            return cached, Usage(cached=1)
    # Counted before the request, so that concurrent questions never exceed the limit.
    if options.budget is not None:
        options.budget.start()
    try:
        completion = await model.complete(question.messages, question.schema, sample=question.sample)
    except (JudgeError, JudgeSettingsError):
        raise
    # A model may raise anything; callers handle `JudgeError` only.
    except Exception as error:
        raise JudgeError(f"{model.name} failed: {type(error).__name__}: {error}") from error
    characters = sum(len(message["content"]) for message in question.messages)
    usage = usage_of(completion, characters, options.prices.get(model.name))
    if options.budget is not None:
        options.budget.finish(usage)
    return completion, usage


def _key(model: JudgeModel, question: Question) -> str:
    return key_of(model, question.messages, question.schema, question.sample)


def _read(completion: Completion, read: Callable[[str], Verdict]) -> Verdict:
    if completion.is_cut:
        raise UnusableReplyError("the reply was cut off; be shorter")
    return read(completion.text)


def _correction(reply: str, problem: str) -> list[Message]:
    return [
        {"role": "assistant", "content": clean(reply[:MAX_QUOTED_CHARACTERS]) or "(nothing)"},
        {
            "role": "user",
            "content": f"That reply cannot be used: {problem}. Reply again, in the form that was asked for, "
            "and with nothing after it.",
        },
    ]
