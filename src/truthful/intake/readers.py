"""Where reports are read from: CSV and Parquet files, tables in memory, and streams that are read only once.

Piece by piece, in memory that does not grow with the rows.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import os
import posixpath
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.csv

from truthful.errors import InputError
from truthful.intake.sources import (
    BATCH_ROWS,
    CSV_BLOCK,
    Place,
    RowGroups,
    extra_columns,
    file_fingerprint,
    open_parquet,
    plain,
    readable,
    split,
)


@dataclass(frozen=True)
class CsvFile:
    """A CSV file, plain or gzipped, read block by block, all values as text so that bad ones can be shown."""

    path: Path
    columns: tuple[str, ...]
    rows: None = None
    extra: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        with self._reader(pyarrow.csv.ConvertOptions()) as reader:
            names = reader.schema.names
        object.__setattr__(self, "extra", extra_columns(names, self.columns, self.where))
        self._check_quotes()

    @property
    def where(self) -> str:
        return self.path.name

    def batches(self) -> Iterator[Any]:
        types = dict.fromkeys(self.columns, pa.string())
        options = pyarrow.csv.ConvertOptions(include_columns=list(self.columns), column_types=types)
        with self._reader(options) as reader:
            yield from reader

    def fingerprint(self) -> object:
        return file_fingerprint(self.path)

    def close(self) -> None:
        pass

    def _check_quotes(self) -> None:
        """A quote that is never closed makes Arrow take the rest of the file, silently, for one field."""
        with readable(self.where, "CSV"), self._bytes() as file:
            quotes = sum(block.count(b'"') for block in iter(lambda: file.read(CSV_BLOCK), b""))
        if quotes % 2:
            self._find_open_quote()

    def _find_open_quote(self) -> None:
        """An odd number of quotes is harmless if one stands within an unquoted field: Python's parser tells."""
        row = 0
        with self._bytes() as file:
            text = io.TextIOWrapper(file, "utf-8", errors="replace", newline="")
            try:
                for fields in csv.reader(text, strict=True):
                    row += bool(fields)
            except csv.Error as error:
                raise InputError(f"In {self.where}, row {row}, a quote is not closed: {error}.") from None

    def _bytes(self) -> BinaryIO:
        opener = gzip.open if self._zipped else open
        return cast(BinaryIO, opener(self.path, "rb"))

    @property
    def _zipped(self) -> bool:
        return self.path.suffix.lower() == ".gz"

    @contextmanager
    def _reader(self, convert: Any) -> Iterator[Any]:
        # One thread: as fast here as two, and only then does Arrow know the number of a ragged row.
        read = pyarrow.csv.ReadOptions(use_threads=False, block_size=CSV_BLOCK)
        parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
        with (
            readable(self.where, "CSV"),
            pa.input_stream(str(self.path), compression="gzip" if self._zipped else None) as stream,
            pyarrow.csv.open_csv(stream, read, parse, convert) as reader,
        ):
            yield reader


@dataclass(frozen=True)
class ParquetFiles:
    """A Parquet file, or a directory of parts read in the order of their names."""

    place: Place
    columns: tuple[str, ...]
    files: dict[str, Any] = field(init=False)  # with what their footers say
    extra: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        files, extra = {}, dict[str, None]()
        for path in self.place.parts():
            name = posixpath.basename(path)
            with open_parquet(path, name, filesystem=self.place.filesystem) as file:
                extra.update(dict.fromkeys(extra_columns(file.schema_arrow.names, self.columns, name)))
                files[path] = file.metadata
        object.__setattr__(self, "files", files)
        object.__setattr__(self, "extra", tuple(extra))

    @property
    def where(self) -> str:
        return self.place.name

    @property
    def rows(self) -> int:
        return sum(metadata.num_rows for metadata in self.files.values())

    @property
    def schemas(self) -> Iterator[tuple[int, Any]]:
        first_row = 1
        for metadata in self.files.values():
            yield first_row, metadata.schema.to_arrow_schema()
            first_row += metadata.num_rows

    def contents(self, rows: int) -> Iterator[tuple[int, RowGroups]]:
        for path, metadata in self.files.items():
            name = posixpath.basename(path)
            sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
            for groups in split(sizes, rows):
                content = RowGroups(path, groups, self.columns, name, metadata, self.place.filesystem)
                yield sum(sizes[i] for i in groups), content

    def batches(self) -> Iterator[Any]:
        for _, content in self.contents(BATCH_ROWS):
            yield from content.batches()

    def fingerprint(self) -> object:
        return list(self.place.parts().items())

    def close(self) -> None:
        pass


TABLE_ROWS = 1 << 18  # slices of an Arrow table are no copies
ACCEPTED = "an Arrow table or batch, a pandas or polars frame, or a dict of arrays"


class Tables:
    """Tables in memory, one or several, converted slice by slice."""

    where = "the table of reports"

    def __init__(self, tables: Sequence[Any], columns: tuple[str, ...]) -> None:
        self._tables = [_opened(table, self.where) for table in tables]
        self._columns = columns
        extra = (extra_columns(_names(table), columns, self.where) for table in self._tables)
        self.extra = tuple(dict.fromkeys(itertools.chain.from_iterable(extra)))

    @property
    def rows(self) -> int:
        return sum(int(table.shape[0]) for table in self._tables)

    def batches(self) -> Iterator[Any]:
        for table in self._tables:
            yield from _batches(table, self._columns, self.where)

    def fingerprint(self) -> object:
        return None  # nothing cheap tells whether memory changed; the number of rows is still compared

    def close(self) -> None:
        pass


class Spool:
    """A stream that can be read only once, kept in a temporary file until it is closed.

    The file holds one Arrow IPC stream after the other: a new one begins wherever the types change.
    """

    where = "the stream of reports"

    def __init__(self, tables: Iterable[Any], columns: tuple[str, ...], directory: Path | None) -> None:
        descriptor, name = tempfile.mkstemp(prefix="truthful-", suffix=".arrows", dir=directory)
        os.close(descriptor)
        self._path = Path(name)
        self._remove = weakref.finalize(self, self._path.unlink, missing_ok=True)
        self._extra: dict[str, None] = {}
        try:
            self.rows = self._fill(self._wanted(tables, columns))
        except BaseException:
            self.close()
            raise

    @property
    def extra(self) -> tuple[str, ...]:
        return tuple(self._extra)

    def batches(self) -> Iterator[Any]:
        with pa.OSFile(str(self._path), "rb") as file:
            while file.tell() < file.size():
                with pa.ipc.open_stream(file) as reader:
                    yield from reader

    def fingerprint(self) -> object:
        return file_fingerprint(self._path)

    def close(self) -> None:
        self._remove()

    def _wanted(self, tables: Iterable[Any], columns: tuple[str, ...]) -> Iterator[Any]:
        for table in tables:
            known = _opened(table, self.where)
            self._extra.update(dict.fromkeys(extra_columns(_names(known), columns, self.where)))
            for batch in _batches(known, columns, self.where):
                yield plain(batch, columns, self.where)

    def _fill(self, batches: Iterator[Any]) -> int:
        rows = 0
        with pa.OSFile(str(self._path), "wb") as file:
            for schema, alike in itertools.groupby(batches, lambda batch: batch.schema):
                with pa.ipc.new_stream(file, schema) as writer:
                    for batch in alike:
                        writer.write_batch(batch)
                        rows += batch.num_rows
        return rows


def is_table(source: Any) -> bool:
    """Whether a second look shows the same rows: a table or dict of arrays does, a reader or iterator not."""
    return isinstance(source, pa.Table | pa.RecordBatch | Mapping) or _is_frame(source)


def _is_frame(source: Any) -> bool:
    """A pandas or polars frame, known by what it can do, so that neither library is imported."""
    return all(hasattr(source, name) for name in ("__arrow_c_stream__", "columns", "shape", "__getitem__"))


def _opened(table: Any, where: str) -> Any:
    """An Arrow table, batch or reader, or a frame."""
    with _convertible(where):
        if isinstance(table, Mapping):
            return pa.table(dict(table))
        if is_table(table):
            return table
        if hasattr(table, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(table)
    raise InputError(f"A batch of reports is a {type(table).__name__}; it must be {ACCEPTED}.")


def _names(table: Any) -> list[str]:
    arrow = isinstance(table, pa.Table | pa.RecordBatch | pa.RecordBatchReader)
    return list(table.schema.names if arrow else table.columns)


def _batches(table: Any, columns: tuple[str, ...], where: str) -> Iterator[Any]:
    """Arrow batches that hold the wanted columns; a frame is converted one slice at a time."""
    with _convertible(where):
        if isinstance(table, pa.RecordBatchReader):
            yield from table
        elif isinstance(table, pa.RecordBatch):
            yield table
        elif isinstance(table, pa.Table):
            yield from table.select(list(columns)).to_batches(max_chunksize=TABLE_ROWS)
        else:
            rows = table.iloc if hasattr(table, "iloc") else table
            for start in range(0, table.shape[0], BATCH_ROWS):
                part = rows[start : start + BATCH_ROWS][list(columns)]
                yield from pa.RecordBatchReader.from_stream(part)


@contextmanager
def _convertible(where: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, TypeError) as error:
        reason = "; ".join(str(part) for part in error.args)
        raise InputError(
            f"Cannot read {where}: {reason}. Every column must hold values of one type."
        ) from None
