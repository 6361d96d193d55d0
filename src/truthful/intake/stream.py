"""Reports from any source, as a stream of Arrow batches that can be read repeatedly.

A settlement reads the reports twice, once for the statistics and once for the payments, in memory that does
not grow with their number. Both passes must see the same reports, so a source that changes is refused.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from truthful.errors import FileNote, InputError, Option
from truthful.intake.formats import open_file
from truthful.intake.sources import (
    MissingColumns,
    ParquetFiles,
    Piece,
    Place,
    Source,
    Spool,
    Tables,
    column_kind,
    is_table,
    open_url,
    quote_names,
)

PIECE_ROWS = 1 << 18
ACCEPTED = (
    "a path to a text file (.csv, .tsv, .tab, .txt, also .gz), a spreadsheet (.xlsx, .xls, .xlsb, .ods), a file of "
    "Stata or SPSS (.dta, .sav, .zsav) or a .parquet file, a directory of .parquet parts, the URL of such Parquet "
    "files, an Arrow, pandas or polars table, a dict of arrays, or an iterator of such tables"
)


def open_reports(
    source: Any,
    names: Sequence[str],
    *,
    numbers: Collection[str] = (),
    columns: Mapping[str, str] | None = None,
    known: Sequence[str] | None = None,
) -> Reports:
    """Open reports for reading; `names` are the wanted columns, in order, and `numbers` those that hold numbers.

    Use it in a `with` block. `columns` has the headers of columns that are named differently in the source, and is None
    where nobody can say; all its names must be `known` (by default, wanted). A stream that can be read only once is
    kept in a temporary file, which is removed when the block ends.
    """
    headers = _headers(names, columns or {}, known or names)
    of_numbers = frozenset(header for name, header in headers.items() if name in numbers)
    try:
        found = _source(source, tuple(headers.values()), of_numbers)
    except MissingColumns as problem:
        if columns is None:
            raise
        name = next(name for name, header in headers.items() if header == problem.header)
        mapped = Option("column", f"{name}=HEADER", f"columns={{{name!r}: 'HEADER'}}")
        raise InputError(f"{problem} Or say which one it is: ", mapped, ".") from None
    try:
        reports = Reports(found, headers)
    except BaseException:
        found.close()
        raise
    for note in found.notes:
        warnings.warn(note, FileNote, stacklevel=2)
    return reports


def _headers(names: Sequence[str], columns: Mapping[str, str], known: Sequence[str]) -> dict[str, str]:
    """The header of every wanted column."""
    for name, header in columns.items():
        if name not in known:
            raise InputError(
                f"Column {header!r} is given for {name!r}, which is not asked for. Choose among {quote_names(known)}."
            )
    headers = {name: columns.get(name, name) for name in names}
    for name, header in headers.items():
        others = [column for column in headers if column != name and headers[column] == header]
        if others:
            raise InputError(
                f"Column {header!r} is given for {quote_names([name, *others])}. Give each its own."
            )
    return headers


class Reports:
    """Reports that can be read repeatedly, in batches of at most 131,072 rows of plain text and numbers.

    `place` has names for messages, and `where` the source's: that of the file, or "the table of reports". `rows` is
    their number, or None while unknown: a CSV file is counted by its first complete pass. `extra` names the columns the
    source has beyond the wanted ones. `readable_elsewhere`: pieces can be sent to other processes without the rows
    themselves. `in_memory`: they are held whole.
    """

    def __init__(self, source: Source, columns: Mapping[str, str]) -> None:
        self.columns = columns
        self.where, self.extra, self.rows = source.where, source.extra, source.rows
        renamed = {name: header for name, header in columns.items() if name != header}
        self.place = Place(source.where, source.first_row, renamed)
        self.readable_elsewhere, self.in_memory = isinstance(source, ParquetFiles), isinstance(source, Tables)
        self._source = source
        self._kinds: dict[str, str] = {}
        self._fingerprint = source.fingerprint()
        if source.rows == 0 or not any(batch.num_rows for batch in source.batches()):
            raise InputError(f"In {self.where} there are no reports. There must be one row for each player.")

    def batches(self) -> Iterator[Any]:
        """One pass over the reports."""
        rows = 0
        for piece in self.pieces():
            for batch in piece.batches():
                yield batch
                rows += batch.num_rows
        self.read_whole(rows)

    def pieces(self, rows: int | None = None) -> Iterator[Piece]:
        """The reports of one pass in pieces of at most this many rows, where possible. Call `read_whole` after it.

        A source that is in memory or readable only in order is read here, batch by batch, as pieces are taken.
        """
        self._check_unchanged()
        first_row = self.place.first_row
        for number, (size, content) in enumerate(self._source.contents(rows or PIECE_ROWS)):
            self._check_kinds(content.schema, first_row)
            yield Piece(number, first_row, content, self.columns, self.where)
            first_row += size

    def read_whole(self, rows: int) -> None:
        """Require that a pass that read this many rows has seen all of an unchanged source."""
        self._check_unchanged()
        if self.rows not in (None, rows):
            raise InputError(
                f"In {self.where} there were {self.rows:,} rows and now there are {rows:,}. "
                "Start again on reports that nobody writes to."
            )
        self.rows = rows

    def close(self) -> None:
        self._source.close()

    def __enter__(self) -> Reports:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _check_kinds(self, schema: Any, row: int) -> None:
        """Require one kind of ids: the string "7" and the number 7 are different players."""
        for name in self.columns.values():
            kind = column_kind(schema.field(name).type)
            if kind == "other":
                continue  # reported when it is read
            known = kind if kind == "nothing" else self._kinds.setdefault(name, kind)
            if kind != known:
                raise InputError(
                    f"Column {name!r} of {self.where} holds {known} first, and {kind} from row {row} on"
                    f"{self.place.counting}. Write all of it as text or all of it as numbers."
                )

    def _check_unchanged(self) -> None:
        try:
            unchanged = self._source.fingerprint() == self._fingerprint
        except FileNotFoundError:
            unchanged = False
        if not unchanged:
            raise InputError(
                f"The source {self.where} changed while it was being read. "
                "Start again on reports that nobody writes to."
            )


def _source(source: Any, columns: tuple[str, ...], numbers: frozenset[str]) -> Source:
    if isinstance(source, str) and "://" in source:
        filesystem, path = open_url(source)
        if filesystem is not None:
            return ParquetFiles(path, columns, filesystem)
        source = path
    if isinstance(source, str | os.PathLike):
        found = open_file(Path(source), columns, numbers)
        if found is None:
            name = Path(source).name
            raise InputError(f"The file {name} is of no kind that can be read; reports must be {ACCEPTED}.")
        return found
    if is_table(source):
        return Tables([source], columns)
    if isinstance(source, list | tuple) and all(map(is_table, source)):
        return Tables(source, columns)
    if hasattr(source, "__arrow_c_stream__"):
        return Spool([source], columns)
    if isinstance(source, Iterable) and not isinstance(source, bytes | bytearray):
        return Spool(source, columns)
    raise InputError(f"Reports were given as a {type(source).__name__}; they must be {ACCEPTED}.")
