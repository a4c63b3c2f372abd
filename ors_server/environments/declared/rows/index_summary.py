"""What making an index of rows found."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IndexSummary:
    """What making an index found."""

    digest: str
    """Hash of the rows' content, in hexadecimal."""
    rows: int
    """Rows that are tasks."""
    skipped: int
    """Wrong rows, which are left out."""
    first_skipped: str = ""
    """The report of the first of them."""
