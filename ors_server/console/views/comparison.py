"""Two episodes side by side, aligned by their calls."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest

from ors_server.console.views.episode import StepView, view_step
from ors_server.model.trajectory import Step
from ors_server.model.wire import compact_json

MAX_STEPS = 300
"""Steps of each episode that are compared."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Steps that belong together: the same in both, or different."""

    is_same: bool
    left: tuple[StepView, ...]
    right: tuple[StepView, ...]
    is_first_difference: bool = False

    @property
    def pairs(self) -> Sequence[tuple[StepView | None, StepView | None]]:
        """The steps in rows; the shorter side ends with `None`."""
        return list(zip_longest(self.left, self.right))


def compare_steps(left: Sequence[Step], right: Sequence[Step]) -> Sequence[Stretch]:
    """Return both episodes in stretches; steps are the same if tool, arguments, output and reward are."""
    matcher = SequenceMatcher(None, list(map(_key, left)), list(map(_key, right)), autojunk=False)
    stretches: list[Stretch] = []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        is_same = tag == "equal"
        is_first = not is_same and all(stretch.is_same for stretch in stretches)
        stretches.append(
            Stretch(
                is_same, tuple(map(view_step, left[i1:i2])), tuple(map(view_step, right[j1:j2])), is_first
            )
        )
    return stretches


def _key(step: Step) -> str:
    blocks = [block.model_dump(mode="json") for block in step.blocks]
    return compact_json([step.tool, step.arguments, step.status, step.reward, blocks])
