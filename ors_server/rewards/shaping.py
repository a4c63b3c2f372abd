"""Pays for progress so that no cycle of states earns anything: potential-based shaping.

Source: Ng, Harada and Russell, "Policy invariance under reward transformations" (ICML 1999). A step that
moves from a state with the potential `before` to one with `after` earns `gamma * after - before`, and the
last state's potential counts as 0. However often an agent goes in circles, the sum over the episode depends
on the potential of the first state alone, so the best policy stays the best.

With a discount below 1 that holds for discounted returns. The server's return is not discounted; there a
circle costs `(1 - gamma)` times the potentials on it, which is a gain where they are negative. Such
potentials are refused.
"""

import math
from dataclasses import dataclass

from ors_server.rewards.reward_errors import RewardDefinitionError, RewardValueError

_FARMED = (
    "with a discount below 1, a potential times its scale is at least 0: staying where it is negative would "
    "add to the return without end"
)


@dataclass(slots=True)
class PotentialShaping:
    """Turns a potential, such as the share of a task that is done, into rewards of steps.

    One instance belongs to one episode; its four fields are its whole state. An episode that ends without a
    call of `finish`, such as by a step limit, keeps the value of its last state.
    """

    potential: float = 0.0
    """The potential of the current state."""
    discount: float = 1.0
    """The trainer's discount factor, in (0, 1]; 1 for plain returns."""
    scale: float = 1.0
    """The value of a full potential of 1."""
    is_over: bool = False

    def __post_init__(self) -> None:
        """Raise `RewardDefinitionError` for numbers outside of their ranges."""
        if not 0 < self.discount <= 1:
            raise RewardDefinitionError(f"expected a discount in (0, 1], got {self.discount}")
        if not (math.isfinite(self.potential) and math.isfinite(self.scale)):
            raise RewardDefinitionError("a potential and its scale are finite numbers")
        if self._can_be_farmed(self.potential):
            raise RewardDefinitionError(_FARMED)

    def move(self, potential: float) -> float:
        """Return the reward of a step to a state with this potential.

        Raises:
            RewardValueError: The potential or the reward is not finite, the potential is negative though the
                discount is below 1, or the episode is over.
        """
        if not math.isfinite(potential):
            raise RewardValueError(f"expected a finite potential, got {potential}")
        if self._can_be_farmed(potential):
            raise RewardValueError(_FARMED)
        return self._step(potential)

    def finish(self) -> float:
        """Return what the last step earns in addition to its own reward: the potential is paid back."""
        earned = self._step(0.0)
        self.is_over = True
        return earned

    def _step(self, potential: float) -> float:
        if self.is_over:
            raise RewardValueError("the episode is over; a shaping belongs to one episode")
        earned = self.scale * (self.discount * potential - self.potential)
        if not math.isfinite(earned):
            raise RewardValueError(
                f"the step from {self.potential:g} to {potential:g}: expected a finite reward, got {earned}"
            )
        self.potential = potential
        return earned

    def _can_be_farmed(self, potential: float) -> bool:
        return self.discount < 1 and self.scale * potential < 0
