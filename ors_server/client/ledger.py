"""A client's account of an episode: the reward of each call, and the comparison with the server's figures.

Pure: no I/O and no clock. The rewards are added as the server adds them, from 0.0 in the order of the steps,
so that both sums are the same float.

Invariants:

- A call id is counted once, also if its answer arrives again; a failure may be replaced by a later answer.
- The sums must be equal, not close. A tolerance would hide a small reward that was lost or paid twice.
- The numbers of steps may differ by the calls that failed or were never answered: the server may have counted
  them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ors_server.client.client_errors import SumMismatchError
from ors_server.client.session_summary import Summary

MAX_SHOWN_STEPS = 5
"""Maximum number of steps of other clients that an error names."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """A client's result of one call."""

    call_id: str
    """The id of the call."""
    reward: float | None = None
    """What the step paid; `None` without a judgement."""
    finished: bool = False
    """Whether the answer reported the end of the episode."""
    step: int | None = None
    """The step's number; `None` if the server did not send it."""
    is_step: bool = True
    """Whether the server counts it; it does not count a call after the end."""
    is_failure: bool = False
    """Whether it failed without a mistake of the agent; the server may have counted it."""


@dataclass(slots=True)
class Ledger:
    """Every received reward of an episode, counted once per call id."""

    opening: float = 0.0
    """The return when this client joined the episode."""
    opening_steps: int = 0
    """The steps when this client joined the episode."""
    _receipts: dict[str, Receipt] = field(default_factory=dict[str, Receipt])
    _open: dict[str, None] = field(default_factory=dict[str, None])
    _counted_steps: int = field(default=0, init=False)
    """Receipts that are steps and no failures."""
    _finished: bool = field(default=False, init=False)

    def expect(self, call_id: str) -> None:
        """Record that a call was sent."""
        if call_id not in self._receipts:
            self._open[call_id] = None

    def note(self, receipt: Receipt) -> None:
        """Record the result of a call; `SumMismatchError` if an earlier one had another reward."""
        self._open.pop(receipt.call_id, None)
        earlier = self._receipts.get(receipt.call_id)
        if earlier is None or earlier.is_failure:
            self._receipts[receipt.call_id] = receipt
            self._counted_steps += receipt.is_step and not receipt.is_failure
            self._finished = self._finished or receipt.finished
        elif earlier.reward != receipt.reward and not receipt.is_failure:
            raise SumMismatchError(
                f"the call {receipt.call_id!r} was first answered with the reward {earlier.reward} and then "
                f"with {receipt.reward}; one call is paid once",
                received=receipt.reward,
                stated=earlier.reward,
            )

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """The receipts: in the order of steps if the server numbers them, else of arrival."""
        receipts = tuple(self._receipts.values())
        # A reward without a step's number has no place among the others, so all stay in the order of arrival.
        if any(receipt.step is None and receipt.reward is not None for receipt in receipts):
            return receipts
        return tuple(sorted(receipts, key=lambda receipt: (receipt.step is None, receipt.step or 0)))

    @property
    def rewards(self) -> tuple[float, ...]:
        """The rewards that were numbers, in the order of receipts."""
        return tuple(receipt.reward for receipt in self.receipts if receipt.reward is not None)

    @property
    def total(self) -> float:
        """The sum of the rewards: the episode's return, for this client."""
        total = self.opening
        # One by one from the opening: `sum` or `math.fsum` may round differently.
        for reward in self.rewards:
            total += reward
        return total

    @property
    def last_reward(self) -> float | None:
        """The last reward that was a number."""
        rewards = self.rewards
        return rewards[-1] if rewards else None

    @property
    def steps(self) -> int:
        """Steps that this client knows, without failed calls, which the server may have counted."""
        return self.opening_steps + self._counted_steps

    @property
    def finished(self) -> bool:
        """Whether an answer reported the end of the episode."""
        return self._finished

    @property
    def unanswered(self) -> tuple[str, ...]:
        """Ids of the calls that were sent and never answered, in order."""
        return tuple(self._open)

    def name_strangers(self, steps: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
        """Describe the recorded steps since this client joined that none of its calls made."""
        return tuple(
            f"step {step['number']} ({step['tool']}, call {step['call_id']!r})"
            for step in steps
            if step["number"] > self.opening_steps
            and step["call_id"] not in self._receipts
            and step["call_id"] not in self._open
        )

    def check(self, summary: Summary, strangers: Sequence[str] | None = None) -> None:
        """Compare this account with the server's; `strangers` are the steps of other clients, if known.

        Raises:
            SumMismatchError: If the sums, the numbers of steps or the ends contradict each other.
        """
        if self.total != summary.episode_return:
            raise self._mismatch("sum of rewards", self.total, summary.episode_return, strangers)
        failures = sum(receipt.is_failure for receipt in self._receipts.values())
        if not self.steps <= summary.steps <= self.steps + failures + len(self._open):
            raise self._mismatch("count of steps", self.steps, summary.steps, strangers)
        # The reverse is possible: another client or a time limit may have ended the episode.
        if self.finished and not summary.is_over:
            raise self._mismatch("end", "finished", summary.phase, strangers)

    def _mismatch(
        self, figure: str, received: object, stated: object, strangers: Sequence[str] | None
    ) -> SumMismatchError:
        hint = f"; never answered: {', '.join(self._open)}" if self._open else ""
        return SumMismatchError(
            f"the {figure} that this client received is {received!r} and the server states {stated!r}{hint}. "
            f"{_suspects(strangers)}",
            received=received,
            stated=stated,
            strangers=strangers or (),
        )


def _suspects(strangers: Sequence[str] | None) -> str:
    if strangers is not None and not strangers:
        return "Every recorded step is one of this client's calls, so no other client has played"
    players = (
        "an agent at its agent_url or with its token, another client that attached to it or has the "
        "same session_id, or an earlier run with the same session_id"
    )
    if strangers is None:
        return f"Possible other players of the session: {players}"
    more = f" and {len(strangers) - MAX_SHOWN_STEPS} more" if len(strangers) > MAX_SHOWN_STEPS else ""
    shown = ", ".join(strangers[:MAX_SHOWN_STEPS])
    return f"Calls of other clients made {shown}{more}. Possible players: {players}"
