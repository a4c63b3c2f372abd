"""Questions to a language model that judges, and its replies: pure data and one interface."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

Message: TypeAlias = Mapping[str, str]
"""A chat message: `role` and `content`."""
Schema: TypeAlias = Mapping[str, Any]
"""A JSON schema."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a model samples its reply; `None` leaves a setting to the endpoint."""

    temperature: float | None = 0.0
    """At least 0; `None` leaves it to the endpoint."""
    max_tokens: int | None = 2048
    """Tokens of one reply; after a reply that is cut off there, the model is asked again."""
    seed: int | None = None
    """The n-th sample of a question uses this seed plus n."""
    extra: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Further entries of the request's body, such as `reasoning_effort`."""

    def as_body(self, sample: int = 0) -> dict[str, Any]:
        """Return the settings as entries of a request's body, for a sample, counted from 0."""
        seed = None if self.seed is None else self.seed + sample
        settings = {"temperature": self.temperature, "max_tokens": self.max_tokens, "seed": seed}
        return {**{name: value for name, value in settings.items() if value is not None}, **self.extra}


@dataclass(frozen=True, slots=True)
class Completion:
    """One reply of a model."""

    text: str
    """The model's reply."""
    prompt_tokens: int | None = None
    """`None` if the endpoint does not count them."""
    completion_tokens: int | None = None
    """Tokens of the reply; `None` if the endpoint does not state them."""
    is_cut: bool = False
    """Whether the reply reached the limit on its length."""
    latency: float = 0.0
    """Seconds, failed tries included."""
    retries: int = 0
    """Failed tries before this one."""

    def as_json(self) -> dict[str, Any]:
        """Return the fields that are kept in caches and recordings."""
        return {
            "text": self.text,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "is_cut": self.is_cut,
        }


class JudgeModel(Protocol):
    """A language model. `ScriptedJudge` is one without a network."""

    @property
    def name(self) -> str:
        """The model's name, under which prices are looked up."""
        ...

    @property
    def sampling(self) -> Sampling:
        """How it samples its replies."""
        ...

    async def complete(
        self, messages: Sequence[Message], schema: Schema | None = None, *, sample: int = 0
    ) -> Completion:
        """Return one reply to a conversation.

        Args:
            schema: JSON schema of the reply; a model that knows no schemas ignores it.
            sample: Number of the sample, from 0, when the same question is asked several times.

        Raises:
            JudgeError: If there is no reply. Any other error becomes one.
        """
        ...


def key_of(
    model: JudgeModel, messages: Sequence[Message], schema: Schema | None = None, sample: int = 0
) -> str:
    """Return the key of a question: the SHA-256 of model, sampling, messages and schema."""
    request = {
        "model": model.name,
        "sampling": {**model.sampling.as_body(sample), "sample": sample},
        "messages": [dict(message) for message in messages],
        "schema": schema,
    }
    text = json.dumps(request, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
