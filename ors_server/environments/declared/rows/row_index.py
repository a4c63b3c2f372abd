"""Finds a row by its number: an index on disk of the rows' positions, made once for unchanged data.

Making it reads and checks every row. Opening it again compares size, time and inode of the data with the
recorded ones, and reads no row.

Invariants:

- The index's files are named by the rows' content and written under other names first, so a reader never sees
  half of one, and two processes that make the same index do not disturb each other.
- The summary, with the stamp of the data, is written last: without it the index does not exist.
- A row is returned only if the data is unchanged since it was indexed and the row's checksum agrees. Damage
  is repaired by making the index again, provided that its content is the same; changed data is an error,
  because the environment's version would be wrong.
"""

import hashlib
import json
import os
import struct
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO
from zlib import crc32

from ors_server.environments.declared.row_faults import BadRowsError, RowFaultError, RowReport
from ors_server.environments.declared.rows.index_process import is_made_elsewhere
from ors_server.environments.declared.rows.index_summary import IndexSummary
from ors_server.environments.declared.rows.row_source import (
    RowReader,
    ScannedRow,
    check_line,
    too_large,
    unpacked_limit,
    write_row,
)
from ors_server.files.atomic_file import atomic_file, open_private
from ors_server.model.clock import SystemClock
from ors_server.model.errors import DeclarationError, EnvironmentDefinitionError, EnvironmentFailedError
from ors_server.model.logs import get_logger
from ors_server.model.user_folders import user_folder
from ors_server.model.wire import JSONObject

log = get_logger("ors_server.environments")

FORMAT = "4"
"""Changes whenever the files of an index change their form."""
MAX_REPORTS = 20
"""Wrong rows that are reported one by one."""
MIN_ALIKE_ROWS = 100
"""Rows from the first on after which a fault that all of them share is the declaration's."""
ROWS_A_MESSAGE = 200_000
"""Rows after each of which the log says how far the making of an index is."""
MAX_UNUSED_DAYS = 90
"""Days after its last use that an index is kept."""
_SPAN = struct.Struct("<QQL")
"""Offset and length of a row's bytes, and their CRC-32."""

CheckRow = Callable[[JSONObject], object]
"""Raises `RowFaultError` for a row that is not a task."""


def cache_folder() -> Path:
    """Return the folder of all indices, in the user's cache."""
    return user_folder("XDG_CACHE_HOME", ".cache") / "ors-server" / "rows"


MakeIndex = Callable[[], IndexSummary]
"""Writes the files of an index."""


class RowIndex:
    """The rows of one split, by number."""

    def __init__(
        self, source: RowReader, files: "IndexFiles", summary: IndexSummary, remake: MakeIndex
    ) -> None:
        self._source, self._index_files, self._remake = source, files, remake
        self._data = files.rows if source.is_copied else source.files[0]
        self.summary = summary
        self._stamp = source.stamp()
        self._lock = Lock()

    def __len__(self) -> int:
        return self.summary.rows

    def read(self, number: int) -> JSONObject:
        """Return a row.

        Raises:
            IndexError: If the number is out of range.
            EnvironmentFailedError: If the data has changed since it was loaded, or cannot be read.
        """
        if not 0 <= number < len(self):
            raise IndexError(f"{self._source.name}: row {number} is out of range ({len(self)} rows)")
        try:
            return self._read(number)
        except (OSError, struct.error, _DamagedError, RowFaultError) as error:
            log.warning("rows_index_damaged", file=self._source.name, error=str(error))
        try:
            with self._lock:  # another call may have made it again by now
                try:
                    return self._read(number)
                except (OSError, struct.error, _DamagedError, RowFaultError):
                    self._restore()
                    return self._read(number)
        except OSError as error:
            raise EnvironmentFailedError(
                f"{error.filename or self._source.name} cannot be read any more: {error.strerror}; "
                "restart the server"
            ) from error
        except (EnvironmentDefinitionError, struct.error, _DamagedError, RowFaultError) as error:
            raise _changed(self._source) from error

    def _read(self, number: int) -> JSONObject:
        with self._index_files.spans.open("rb", buffering=0) as spans:
            offset, length, checksum = _SPAN.unpack(os.pread(spans.fileno(), _SPAN.size, number * _SPAN.size))
        # A copy cannot change with the data. Data that is read in place is compared for every row, which
        # costs a stat of each file.
        if not self._source.is_copied and self._source.stamp() != self._stamp:
            raise _changed(self._source)
        with self._data.open("rb", buffering=0) as data:
            if offset + length > os.fstat(data.fileno()).st_size:  # read nothing that is not there
                raise _DamagedError(f"row {number} is beyond the end of {self._data}")
            content = os.pread(data.fileno(), length, offset)
        if crc32(content) != checksum:
            raise _DamagedError(f"row {number} of {self._data} is not as it was written")
        return self._source.decode(content)

    def _restore(self) -> None:
        """Make the files of a damaged index again; the data must be the same."""
        if self._source.stamp() != self._stamp:
            raise _changed(self._source)
        # The stamp agrees, but only the content decides.
        if self._remake().digest != self.summary.digest:
            raise _changed(self._source)

    @property
    def source_files(self) -> tuple[Path, ...]:
        """The files of the data."""
        return self._source.files

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file that has rows: the data, and the index's copy."""
        return (*self._source.files, self._data)


class _DamagedError(Exception):
    """The files of an index are not what was written."""


@dataclass(frozen=True, slots=True)
class IndexFiles:
    """The paths of one content's index in the cache."""

    spans: Path
    rows: Path
    """The copy of the rows; it is empty for a source that is read in place."""

    @classmethod
    def of(cls, cache: Path, key: str, digest: str) -> "IndexFiles":
        """Return them by the hash of the content."""
        stem = f"{key}-{digest[:24]}"
        return cls(cache / f"{stem}.spans", cache / f"{stem}.rows")


def _changed(source: RowReader) -> EnvironmentFailedError:
    return EnvironmentFailedError(
        f"{source.name}: expected the data that was loaded, and it has changed since, so that the "
        "environment's version would be wrong; restart the server, or serve with --reload"
    )


class IndexRequest:
    """The index of a source's rows by a check; opened, or made first."""

    def __init__(self, source: RowReader, check: CheckRow, check_key: str, *, skip_bad: bool) -> None:
        """Read nothing yet.

        Args:
            check_key: A text that is different for every other check.
        """
        self._source, self._skip_bad = source, skip_bad
        # Everything that decides which rows are right, and how they are kept.
        names = json.dumps([FORMAT, str(source), _places(source), check_key])
        self._key = hashlib.sha256(names.encode()).hexdigest()[:40]
        self._cache = cache_folder()
        self._maker = _Maker(source, check, self._cache, self._key, skip_bad=skip_bad)

    def make(self) -> IndexSummary:
        """Read and check all rows, and write the files under names that have the content's hash.

        Raises:
            BadRowsError: If rows are wrong, and are not skipped.
            EnvironmentDefinitionError: If the data cannot be read.
            OSError: If a file cannot be read or written.
        """
        self._cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        return self._maker.make()

    def open(self, make_elsewhere: MakeIndex) -> RowIndex:
        """Return the index; make it first if that was never done for this data and check.

        Args:
            make_elsewhere: Calls `make` of an equal request in a separate process.

        Raises:
            BadRowsError: If rows are wrong, and are not skipped.
            EnvironmentDefinitionError: If the data cannot be read, or has no rows.
        """
        source = self._source
        try:
            stamp = {"format": FORMAT, "files": source.stamp()}
            summary_file = self._cache / f"{self._key}.json"
            summary = _read_known(summary_file, stamp)
            if summary is None:
                self._cache.mkdir(parents=True, exist_ok=True, mode=0o700)
                with suppress(OSError):  # of an earlier version, or of another user
                    self._cache.chmod(0o700)
                _delete_unused(self._cache)
                summary = make_elsewhere() if is_made_elsewhere() else self._maker.make()
                if source.stamp() != stamp["files"]:
                    raise EnvironmentDefinitionError(
                        f"{source.name}: expected data that rests while it is read, and it changed; "
                        "start again"
                    )
                with atomic_file(summary_file, 0o600) as file:
                    file.write(json.dumps({"stamp": stamp, **asdict(summary)}).encode())
            files = IndexFiles.of(self._cache, self._key, summary.digest)
            for path in (summary_file, files.spans, files.rows):
                with suppress(OSError):  # a cache that may be read and not written is used, too
                    os.utime(path)
        except OSError as error:
            raise EnvironmentDefinitionError(
                f"{error.filename or source.name}: expected a file that can be read and a cache folder that "
                f"can be written, and {error.strerror or error}; XDG_CACHE_HOME moves the cache"
            ) from error
        if summary.skipped and not self._skip_bad:
            raise BadRowsError(_summarise(source, summary), [summary.first_skipped])
        if summary.skipped:
            log.warning(
                "rows_skipped", file=source.name, skipped=summary.skipped, first=summary.first_skipped
            )
        if not summary.rows:
            raise EnvironmentDefinitionError(f"{source.name}: no rows: expected at least one")
        # Damage is found while the server serves.
        return RowIndex(source, files, summary, make_elsewhere)


def _places(source: RowReader) -> list[str]:
    return [str(path.resolve()) for path in source.files[:1]]


def _delete_unused(cache: Path) -> None:
    """Delete what was not used for long: indices of data that changed, and the parts of killed makers."""
    oldest = SystemClock().now().timestamp() - MAX_UNUSED_DAYS * 86_400
    for path in cache.iterdir():
        with suppress(OSError):  # another process may be faster
            if path.stat().st_mtime < oldest:
                path.unlink()


def _read_known(summary_file: Path, stamp: dict[str, Any]) -> IndexSummary | None:
    try:
        saved = json.loads(summary_file.read_bytes())
        if saved.pop("stamp") != stamp:
            return None
        summary = IndexSummary(**saved)
        files = IndexFiles.of(summary_file.parent, summary_file.stem, summary.digest)
        is_whole = files.spans.stat().st_size == summary.rows * _SPAN.size and files.rows.exists()
        return summary if is_whole else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


class _Maker:
    """Reads, checks and counts the rows of a source; again if the index was damaged."""

    def __init__(self, source: RowReader, check: CheckRow, cache: Path, key: str, *, skip_bad: bool) -> None:
        self._source, self._check, self._cache, self._key = source, check, cache, key
        self._skip_bad = skip_bad
        self._begin()

    def _begin(self) -> None:
        self._rows = self._skipped = self._at = 0
        self._reports: list[RowReport] = []
        self._alike = True
        self._hash = hashlib.sha256()
        files = self._source.files
        self._max_bytes = unpacked_limit(files) if self._source.is_copied and files else None

    def make(self) -> IndexSummary:
        """Write the files, under names that have the content's hash."""
        self._begin()
        parts = [self._cache / f".{self._key}.{os.getpid()}.{kind}" for kind in ("spans", "rows")]
        try:
            with ExitStack() as stack:
                spans, copy = (stack.enter_context(open(part, "wb", opener=open_private)) for part in parts)
                for number, row in enumerate(self._source.rows(), 1):
                    self._add(row, spans, copy if self._source.is_copied else None)
                    if number % ROWS_A_MESSAGE == 0:
                        log.info("rows_indexed", file=self._source.name, rows=number)
            summary = self._conclude()
            files = IndexFiles.of(self._cache, self._key, summary.digest)
            for part, path in zip(parts, (files.spans, files.rows), strict=True):
                part.replace(path)
        finally:
            for part in parts:
                part.unlink(missing_ok=True)
        return summary

    def _add(self, row: ScannedRow, spans: BinaryIO, copy: BinaryIO | None) -> None:
        if isinstance(row.value, RowFaultError):
            self._report(row, row.value)
            return
        try:
            self._check(row.value)
            line = write_row(row.value)
            check_line(line)
        except RowFaultError as fault:
            self._report(row, fault)
            return
        self._alike = False
        self._hash.update(line)
        if copy is None:
            spans.write(_SPAN.pack(row.offset, row.length, row.checksum))
        else:
            if self._max_bytes is not None and self._at + len(line) > self._max_bytes:
                raise too_large(self._source.name, self._max_bytes)
            copy.write(line)
            spans.write(_SPAN.pack(self._at, len(line), crc32(line)))
            self._at += len(line)
        self._rows += 1

    def _report(self, row: ScannedRow, fault: RowFaultError) -> None:
        self._skipped += 1
        if len(self._reports) < MAX_REPORTS:
            self._reports.append(RowReport(f"{self._source.name}, {row.location}", fault))
        first = self._reports[0].fault
        # One field that no row has is a mistake in the declaration, and 20 reports of it would hide that.
        self._alike = self._alike and fault.absent and fault.field == first.field
        if self._alike and not self._skip_bad and self._skipped >= MIN_ALIKE_ROWS:
            raise self._every_row()

    def _conclude(self) -> IndexSummary:
        if self._alike and self._skipped:
            raise self._every_row()
        lines = [report.describe() for report in self._reports]
        summary = IndexSummary(self._hash.hexdigest(), self._rows, self._skipped, lines[0] if lines else "")
        if self._skipped and not self._skip_bad:
            raise BadRowsError(_summarise(self._source, summary), lines)
        return summary

    def _every_row(self) -> DeclarationError:
        first = self._reports[0]
        return DeclarationError(
            f"{self._source.name}: expected a field {first.fault.field!r}, and no row has it: "
            f"{first.fault.actual}; correct the declaration or the options that name it"
        )


def _summarise(source: RowReader, summary: IndexSummary) -> str:
    return (
        f"{source.name}: {summary.skipped} of {summary.rows + summary.skipped} rows are wrong; the first is "
        f"{summary.first_skipped.removeprefix(f'{source.name}, ')}; correct them, or leave them out "
        "with --skip-bad (skip_bad = true in environment.toml)"
    )
