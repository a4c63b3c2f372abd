"""The interface of all searches, and the construction of their findings."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from ors_server.audit.judgement import AuditVerdict
from ors_server.audit.recorded.batch import Batch
from ors_server.audit.recorded.recorded_report import FindingKind, NotJudged, RecordedFinding


class Search(Protocol):
    """Searches the episodes of one environment for one kind of finding."""

    def __call__(self, batch: Batch, seed: int) -> Iterator[RecordedFinding | NotJudged]:
        """Yield its findings, or why it could not judge."""
        ...


def make_finding(
    batch: Batch,
    kind: FindingKind,
    verdict: AuditVerdict,
    positions: Sequence[int],
    message: str,
    *,
    of_wins: bool = True,
) -> RecordedFinding:
    """Write a finding.

    Args:
        batch: The environment's episodes.
        positions: The episodes that show it.
        of_wins: Whether its share is one of the winning episodes; otherwise it is one of all.
    """
    ids = batch.shown(positions)
    whole = len(batch.wins) if of_wins else len(batch.episodes)
    return RecordedFinding(
        kind=kind,
        hack_class=kind.hack_class,
        environment=batch.name,
        verdict=verdict,
        message=message,
        episodes=len(positions),
        share=round(len(positions) / whole, 6) if whole else 0.0,
        of="winning episodes" if of_wins else "episodes",
        episode_ids=ids,
        command=f"ors-server episodes show {ids[0]}" if ids else "",
    )


def not_judged(batch: Batch, kind: FindingKind, reason: str) -> NotJudged:
    """Say why a kind of finding could not be judged."""
    return NotJudged(kind=kind, environment=batch.name, reason=reason)


def percent(share: float) -> str:
    """Write a share as percent."""
    return f"{100 * share:.0f} %"
