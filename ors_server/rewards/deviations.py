"""Where this library's rewards deliberately differ from the packages whose names they have: one table.

The vectors are recordings of those packages. The tests play every recorded case: either the value agrees, or
a row here says what differs and why. A row that no case needs fails the tests too. The rows are in
`deviations.toml`.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

Becomes: TypeAlias = Literal["error", "number", "accepted"]
"""What ours does: report no number, give another number, or accept what theirs refuses."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """One deliberate difference."""

    vectors: str
    """Name of the vector file, without its ending; several with spaces between."""
    theirs: str
    """What the other package does."""
    ours: str
    why: str
    becomes: Becomes
    name: str
    """Name of the difference, by which the tests find its cases; several rows may share one."""
    gives: tuple[float, ...] = ()
    """The numbers that ours may give, for the page; empty for none, or for any."""

    @property
    def what(self) -> str:
        """Both sides of the difference, as one text."""
        return f"Theirs: {self.theirs} Ours: {self.ours}"

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the vector files."""
        return tuple(self.vectors.split())


DEVIATIONS: tuple[Deviation, ...] = tuple(
    Deviation(gives=tuple(row.pop("gives", ())), **row)
    for row in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["row"]
)


def deviations_of(vectors: str) -> tuple[Deviation, ...]:
    """Return the rows about one vector file, which is named without its ending."""
    return tuple(deviation for deviation in DEVIATIONS if vectors in deviation.files)
