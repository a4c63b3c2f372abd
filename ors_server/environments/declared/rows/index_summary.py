"""The summary of an index of rows."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IndexSummary:
    """The result of reading all rows for an index."""

    digest: str
    """Hash of the rows' content, in hexadecimal."""
    rows: int
    """Rows that are tasks."""
    skipped: int
    """Wrong rows, which are left out."""
    first_skipped: str = ""
    """The report of the first of them."""
