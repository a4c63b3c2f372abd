"""A client's own account of an episode: what it received, each call once, and whether the server agrees.

Pure: no I/O and no clock. The sum is made as the server makes it, from 0.0, one reward after the other in the
order of the steps, so that the two are the same float and may be compared for equality.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ors_server.client.client_errors import SumMismatchError
from ors_server.client.session_summary import Summary

SHOWN = 5
"""Steps of others that an error names."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a client was told of one call."""

    call_id: str
    reward: float | None = None
    finished: bool = False
    """Whether the answer said that the episode is over."""
    step: int | None = None
    """The step's number; `None` where the server did not say."""
    is_step: bool = True
    """Whether the server counts it; a call after the end is none."""
    is_failure: bool = False
    """Whether it came to nothing through no fault of the agent's; the server may have counted it."""


@dataclass(slots=True)
class Ledger:
    """Every reward that was received in an episode, counted once per call id."""

    opening: float = 0.0
    """The return when this client joined the episode."""
    opening_steps: int = 0
    """The steps when this client joined the episode."""
    _receipts: dict[str, Receipt] = field(default_factory=dict[str, Receipt])
    _open: dict[str, None] = field(default_factory=dict[str, None])

    def expect(self, call_id: str) -> None:
        """Note that a call was sent.

        Args:
            call_id: Its id.
        """
        if call_id not in self._receipts:
            self._open[call_id] = None

    def note(self, receipt: Receipt) -> None:
        """Note what a call came to; the same answer may come any number of times.

        Args:
            receipt: What the client was told.

        Raises:
            SumMismatchError: If the call was answered with another reward before.
        """
        self._open.pop(receipt.call_id, None)
        known = self._receipts.get(receipt.call_id)
        if known is None or known.is_failure:
            self._receipts[receipt.call_id] = receipt
        elif known.reward != receipt.reward and not receipt.is_failure:
            raise SumMismatchError(
                f"the call {receipt.call_id!r} was first answered with the reward {known.reward} and then "
                f"with {receipt.reward}; one call is paid once",
                received=receipt.reward,
                stated=known.reward,
            )

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """What was received: in the order of steps where the server numbers them, else as it arrived."""
        found = tuple(self._receipts.values())
        if any(receipt.step is None and receipt.reward is not None for receipt in found):
            return found
        return tuple(sorted(found, key=lambda receipt: (receipt.step is None, receipt.step or 0)))

    @property
    def rewards(self) -> tuple[float, ...]:
        """The rewards that were numbers, in the order of receipts."""
        return tuple(receipt.reward for receipt in self.receipts if receipt.reward is not None)

    @property
    def total(self) -> float:
        """The sum of the rewards: what this client takes for the episode's return."""
        total = self.opening
        for reward in self.rewards:
            total += reward
        return total

    @property
    def last_reward(self) -> float | None:
        """The last reward that was a number: what a consumer that does not sum takes for the return."""
        rewards = self.rewards
        return rewards[-1] if rewards else None

    @property
    def steps(self) -> int:
        """Steps that this client knows of; failed calls, which the server may have counted, left out."""
        known = (receipt for receipt in self._receipts.values() if receipt.is_step and not receipt.is_failure)
        return self.opening_steps + sum(1 for _ in known)

    @property
    def finished(self) -> bool:
        """Whether an answer said that the episode is over."""
        return any(receipt.finished for receipt in self._receipts.values())

    @property
    def unanswered(self) -> tuple[str, ...]:
        """Ids of the calls that were sent and never answered, in order."""
        return tuple(self._open)

    def name_strangers(self, steps: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
        """Return the steps since this client joined that none of its calls made, in words.

        Args:
            steps: The server's record, as the control API shows it.
        """
        return tuple(
            f"step {step['number']} ({step['tool']}, call {step['call_id']!r})"
            for step in steps
            if step["number"] > self.opening_steps
            and step["call_id"] not in self._receipts
            and step["call_id"] not in self._open
        )

    def check(self, summary: Summary, strangers: Sequence[str] | None = None) -> None:
        """Compare this account with the server's.

        Args:
            summary: The server's figures.
            strangers: Steps that other calls made, if that is known; for the error's words.

        Raises:
            SumMismatchError: If the sums are not the same float, the steps cannot be, or the episode is over
                for one of the two only.
        """
        if self.total != summary.episode_return:
            raise self._mismatch("sum of rewards", self.total, summary.episode_return, strangers)
        failures = sum(receipt.is_failure for receipt in self._receipts.values())
        if not self.steps <= summary.steps <= self.steps + failures + len(self._open):
            raise self._mismatch("count of steps", self.steps, summary.steps, strangers)
        if self.finished and not summary.is_over:
            raise self._mismatch("end", "finished", summary.phase, strangers)

    def _mismatch(
        self, what: str, received: object, stated: object, strangers: Sequence[str] | None
    ) -> SumMismatchError:
        hint = f"; never answered: {', '.join(self._open)}" if self._open else ""
        return SumMismatchError(
            f"the {what} that this client received is {received!r} and the server states {stated!r}{hint}. "
            f"{_suspects(strangers)}",
            received=received,
            stated=stated,
            strangers=strangers or (),
        )


def _suspects(strangers: Sequence[str] | None) -> str:
    if strangers is not None and not strangers:
        return "Every recorded step is one of this client's calls, so nobody else has played"
    others = (
        "an agent at its agent_url or with its token, another client that attached to it or was given the "
        "same session_id, or an earlier run with the same session_id"
    )
    if strangers is None:
        return f"Who else may have played the session: {others}"
    more = f" and {len(strangers) - SHOWN} more" if len(strangers) > SHOWN else ""
    shown = ", ".join(strangers[:SHOWN])
    return f"Other calls than this client's made {shown}{more}. Who may have played: {others}"
