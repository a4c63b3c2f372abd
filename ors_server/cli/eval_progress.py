"""The line of a run's progress bar."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ors_server.evaluation.runner import Tally


def headline(tally: "Tally") -> str:
    """Return the state of a run in a few words."""
    parts = ["no return yet" if tally.mean is None else f"mean {tally.mean:.3f}"]
    parts.append(f"{tally.succeeded} succeeded")
    if tally.errored:
        parts.append(f"{tally.errored} errored")
    if tally.over_budget:
        parts.append(f"{tally.over_budget} over budget")
    return ", ".join(parts)
